// Reads the input as an archive, and as each JSON of an archive whose checksums
// are right, so that what lies behind them is reached too.

#include <string>
#include <string_view>

#include "ravnest/graph/pt2/pt2.h"
#include "ravnest/graph/pt2/zip.h"
#include "tests/fuzz/passes.h"
#include "tests/graph/archive_bytes.h"

namespace ravnest::graph {
namespace {

constexpr std::string_view kNoWeights = R"({"config": {}})";
// The weights "w", "tied" and "b", of four floats each, for graphs that use them.
constexpr std::string_view kWeights = R"({"config": {
"w": {"path_name": "weight_0", "is_param": true, "use_pickle": false, "tensor_meta": {"dtype": 7,
 "sizes": [{"as_int": 2}, {"as_int": 2}], "strides": [{"as_int": 2}, {"as_int": 1}],
 "storage_offset": {"as_int": 0}, "requires_grad": true, "device": {"type": "cpu"}, "layout": 7}},
"tied": {"path_name": "weight_0", "is_param": true, "use_pickle": false, "tensor_meta": {"dtype": 7,
 "sizes": [{"as_int": 2}, {"as_int": 2}], "strides": [{"as_int": 2}, {"as_int": 1}],
 "storage_offset": {"as_int": 0}, "requires_grad": true, "device": {"type": "cpu"}, "layout": 7}},
"b": {"path_name": "weight_1", "is_param": false, "use_pickle": false, "tensor_meta": {"dtype": 7,
 "sizes": [{"as_int": 2}], "strides": [{"as_int": 1}],
 "storage_offset": {"as_int": 0}, "requires_grad": false, "device": {"type": "cpu"}, "layout": 7}}
}})";
constexpr std::string_view kGraph = R"({"graph_module": {"graph": {"inputs": [], "outputs": [],
 "nodes": [], "tensor_values": {}, "sym_int_values": {}}, "signature": {"input_specs": [],
 "output_specs": []}, "module_call_graph": []}, "range_constraints": {},
 "schema_version": {"major": 8, "minor": 20}})";

void read(const Bytes& archive) {
  Program program;
  if (accepted([&] { program = read_pt2(archive, "fuzz"); })) {
    run_passes(program);
  }
}

void read_as(std::string_view model, std::string_view weights) {
  read(bytes_of(handmade_zip(
      {{.name = "m/archive_format", .content = "pt2"},
       {.name = "m/models/model.json", .content = std::string(model)},
       {.name = "m/data/weights/model_weights_config.json", .content = std::string(weights)},
       {.name = "m/data/constants/model_constants_config.json", .content = std::string(kNoWeights)},
       {.name = "m/data/weights/weight_0", .content = std::string(16, 'x')},
       {.name = "m/data/weights/weight_1", .content = std::string(8, 'x')}})));
}

void read_every_entry(const Bytes& archive) {
  accepted([&] {
    const ZipReader reader(archive, "fuzz");
    for (const std::string& name : reader.names()) {
      accepted([&] { static_cast<void>(reader.read(name)); });
    }
  });
}

}  // namespace
}  // namespace ravnest::graph

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ravnest::graph;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (text.starts_with("PK")) {
    read_every_entry(bytes_of(text));
    read(bytes_of(text));
  } else if (text.starts_with("W")) {
    read_as(kGraph, text.substr(1));
  } else {
    read_as(text, kWeights);
  }
  return 0;
}
