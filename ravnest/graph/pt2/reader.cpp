#include <algorithm>
#include <unordered_map>

#include "ravnest/base/error.h"
#include "ravnest/graph/lint.h"
#include "ravnest/graph/pt2/json.h"
#include "ravnest/graph/pt2/pt2.h"
#include "ravnest/graph/pt2/zip.h"

namespace ravnest::graph {

namespace {

using pt2::Json;

constexpr std::int64_t kSchemaMajor = 8;
constexpr std::size_t kMaxGraphBytes = std::size_t{512} << 20;
constexpr const char* kMainModel = "model";
constexpr const char* kEvalModel = "eval";

struct PayloadFolder {
  const char* folder;  // "data/weights/"
  const char* config;  // "_weights_config.json"
  const char* prefix;  // "weight_"
};

constexpr PayloadFolder kWeights{"data/weights/", "_weights_config.json", "weight_"};
constexpr PayloadFolder kConstants{"data/constants/", "_constants_config.json", "tensor_"};

std::string model_path(const std::string& model) { return "models/" + model + ".json"; }

std::string read_text(const ZipReader& archive, const std::string& name) {
  const Bytes bytes = archive.read(name);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void check_format(const ZipReader& archive) {
  if (!archive.contains("archive_format") || read_text(archive, "archive_format") != "pt2") {
    throw_invalid("[graph] '", archive.label(),
                  "' is a zip file but not a .pt2 archive. Save the model with "
                  "torch.export.save or Program.save.");
  }
  if (archive.contains("byteorder") && read_text(archive, "byteorder") != "little") {
    throw_invalid("[graph] '", archive.label(), "' was written on a big-endian machine.");
  }
}

void check_schema(const Json& exported) {
  const std::int64_t major =
      pt2::integer(pt2::member(pt2::member(exported, "schema_version"), "major"));
  if (major != kSchemaMajor) {
    throw_invalid("expected schema version ", kSchemaMajor, ", got ", major,
                  "; export the model with torch 2.13, which this build reads");
  }
}

constexpr std::size_t kMostWeights = 100'000;
constexpr std::size_t kMostExpanded = 64'000'000;

// The bytes a tensor of this type touches in its storage must all be there.
void check_extent(const TensorType& type, std::size_t storage_bytes) {
  std::int64_t last = 0;
  bool empty = false;
  bool fits = type.storage_offset.is_constant() && type.storage_offset.constant() >= 0;
  for (std::size_t i = 0; fits && i < type.sizes.size(); ++i) {
    const Expr& size = type.sizes[i];
    const Expr& stride = type.strides[i];
    fits = size.is_constant() && stride.is_constant() && size.constant() >= 0 &&
           stride.constant() >= 0;
    std::int64_t reach = 0;
    empty = empty || (fits && size.constant() == 0);
    fits = fits &&
           !__builtin_mul_overflow(std::max<std::int64_t>(size.constant(), 1) - 1,
                                   stride.constant(), &reach) &&
           !__builtin_add_overflow(last, reach, &last);
  }
  std::int64_t bytes = 0;
  fits = fits && !__builtin_add_overflow(last, type.storage_offset.constant(), &last) &&
         !__builtin_add_overflow(last, 1, &last) &&
         !__builtin_mul_overflow(last, static_cast<std::int64_t>(element_size(type.dtype)), &bytes);
  if (!fits || (!empty && static_cast<std::uint64_t>(bytes) > storage_bytes)) {
    throw_invalid("its shape and strides do not fit into the ", storage_bytes, " bytes stored");
  }
  // An expanded weight may be larger than what is stored, within reason.
  const auto whole = nbytes(type, {});
  if (!whole || static_cast<std::uint64_t>(*whole) > std::max(storage_bytes, kMostExpanded)) {
    throw_invalid("its shape takes more than the ", storage_bytes, " bytes stored");
  }
}

bool is_payload_name(const std::string& path, std::string_view prefix) {
  return path.starts_with(prefix) && path.size() > prefix.size() && path.size() < 64 &&
         std::ranges::all_of(
             path.substr(prefix.size()), [](char c) { return c >= '0' && c <= '9'; });
}

// Reads the weights of one folder in the order of the state dict.
class WeightReader {
 public:
  WeightReader(const ZipReader& archive, Program& program) : archive_(archive), program_(program) {}

  void read(const PayloadFolder& folder, const std::string& model) {
    const std::string config = folder.folder + model + folder.config;
    const auto parsed =
        pt2::parse_ordered(archive_.read(config), concat("'", archive_.label(), "', ", config));
    const auto entries = parsed.is_object() ? parsed.find("config") : parsed.end();
    if (entries == parsed.end() || !entries->is_object()) {
      throw_invalid("'", config, "' is not a list of weights");
    }
    if (entries->size() > kMostWeights) {
      throw_invalid("'", config, "' lists ", entries->size(), " weights, more than ", kMostWeights);
    }
    for (const auto& [name, entry] : entries->items()) {
      try {
        add(name, Json(entry), folder);
      } catch (const std::invalid_argument& error) {
        throw_invalid("weight '", name, "': ", error.what());
      }
    }
  }

 private:
  void add(const std::string& name, const Json& entry, const PayloadFolder& folder) {
    if (name.empty() || name.size() > 1000) {
      throw_invalid("expected a name of 1 to 1000 characters");
    }
    if (known_.contains(name)) {
      return;  // the eval graph shares the weights
    }
    const std::string path = pt2::string_of(entry, "path_name");
    if (pt2::boolean(pt2::member(entry, "use_pickle")) || !is_payload_name(path, folder.prefix)) {
      throw_invalid("it is stored as a pickle or custom object, which is never read");
    }
    std::map<std::string, Symbol> none;
    Weight weight{.name = name,
                  .kind = pt2::boolean(pt2::member(entry, "is_param")) ? InputKind::kParameter
                                                                       : InputKind::kBuffer,
                  .persistent = &folder == &kWeights,
                  .type = pt2::read_tensor_type(pt2::member(entry, "tensor_meta"), none),
                  .storage_key = folder.folder + path,
                  .storage = storage(folder.folder + path)};
    check_extent(weight.type, weight.storage.size());
    known_.insert(name);
    program_.weights.push_back(std::move(weight));
  }

  // Tied weights share one entry: check and view it once.
  Bytes storage(const std::string& path) {
    const auto found = storages_.find(path);
    if (found != storages_.end()) {
      return found->second;
    }
    return storages_.emplace(path, archive_.read(path)).first->second;
  }

  const ZipReader& archive_;
  Program& program_;
  std::set<std::string> known_;
  std::unordered_map<std::string, Bytes> storages_;
};

// Every weight input must have its weight, and tells whether that is a constant.
void check_weights(Program& program, const Graph& graph) {
  std::unordered_map<std::string, Weight*> by_name;
  for (Weight& weight : program.weights) {
    by_name[weight.name] = &weight;
  }
  for (const Input& input : graph.inputs) {
    if (!input.is_weight()) {
      continue;
    }
    const auto found = by_name.find(input.target);
    if (found == by_name.end()) {
      throw_invalid("weight '", input.target, "' is used but not stored");
    }
    if (input.kind == InputKind::kConstant) {
      found->second->kind = InputKind::kConstant;
    }
  }
}

Graph read_model(const ZipReader& archive, const std::string& model, Program& program) {
  const Bytes bytes = archive.read(model_path(model));
  if (bytes.size() > kMaxGraphBytes) {
    throw_invalid("its graph has ", bytes.size(), " bytes, more than the limit of ",
                  kMaxGraphBytes);
  }
  const Json exported = pt2::parse(bytes, concat("'", archive.label(), "', ", model_path(model)));
  check_schema(exported);
  return pt2::read_graph(exported, program.metadata);
}

}  // namespace

Program read_pt2(const Bytes& bytes, const std::string& label) {
  const ZipReader archive(bytes, label);
  check_format(archive);
  Program program;
  std::string place = model_path(kMainModel);
  try {
    program.graph = read_model(archive, kMainModel, program);
    const bool has_eval = archive.contains(model_path(kEvalModel));
    if (has_eval) {
      place = model_path(kEvalModel);
      program.eval_graph = read_model(archive, kEvalModel, program);
    }
    place = "data";
    WeightReader weights(archive, program);
    for (const char* model : {kMainModel, kEvalModel}) {
      if (model == kMainModel || has_eval) {
        weights.read(kWeights, model);
        weights.read(kConstants, model);
      }
    }
    check_weights(program, program.graph);
    if (has_eval) {
      check_weights(program, *program.eval_graph);
    }
    settle_weight_names(program);
  } catch (const std::invalid_argument& error) {
    const std::string place_prefix = "[graph] ";
    std::string what = error.what();
    if (what.starts_with(concat(place_prefix, "'", label, "'"))) {
      throw;
    }
    if (what.starts_with(place_prefix)) {  // a sentence of its own, from a size expression
      what = what.substr(place_prefix.size(), what.rfind('.') - place_prefix.size());
    }
    throw_invalid("[graph] '", label, "', ", place, ": ", what, ".");
  }
  lint(program, label);
  return program;
}

Program read_pt2(const std::filesystem::path& path) {
  return read_pt2(Bytes::map_file(path), path.string());
}

}  // namespace ravnest::graph
