#include "ravnest/graph/pt2/pt2.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "ravnest/base/error.h"
#include "ravnest/graph/pt2/zip.h"
#include "ravnest/graph/text/text.h"
#include "tests/base/temporary_folder.h"
#include "tests/graph/archive_bytes.h"

namespace ravnest::graph {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kModel = "models/model.json";
constexpr const char* kWeightsConfig = "data/weights/model_weights_config.json";

// A Program with each kind of weight, argument and result.
const std::string kProgram = R"(program
metadata "loss" = "true"
metadata "note" = "a \"b\" ü"
weight parameter "first.weight" : f32[2, 3]
weight parameter "frozen" : f32[2, 3] no_grad
weight parameter "last.weight" : f32[2, 3] key "first.weight"
weight parameter "part" : f32[3] offset(3) key "first.weight"
weight buffer "mean" : f64[2]
weight buffer "mask" : bool[3] transient
weight constant "lifted" : i64[]
weight parameter "empty" : f32[0, 4]
graph
  symbol s0 = 8 in [2, 64]
  parameter %w : f32[2, 3] = "first.weight"
  parameter %f : f32[2, 3] no_grad = "frozen"
  parameter %part : f32[3] offset(3) = "part"
  buffer %m : f64[2] = "mean"
  buffer %mask : bool[3] = "mask"
  constant %c : i64[] = "lifted"
  input %x : f32[s0, 3]
  input %n : int(s0)
  literal "flag" = true
  %size : int(2*s0) = _operator.mul(a=%n, b=2)
  %y : f32[s0, 2] = aten.linear.default(input=%x, weight=%w) in "first" at "net.py:3"
  [%a : f32[s0, 1] strides(2, 1), %b : ?] = aten.split.Tensor(self=%y, split_size=1, dim=1)
  %top : f32[s0] strides(1), _ = aten.max.dim(self=%a, dim=-1)
  %z : f32[s0, 2] = aten.zeros.default(size=[%n, 2], dtype:=f32, layout:=none, device:=@cpu, pin_memory:=false)
  %i : f32[2] = aten.index.Tensor(self=%y, indices=[%c, none])
  %cat : f32[s0, 4] = aten.cat.default(tensors=[%y, %z], dim=1)
  %fill : f32[s0, 4] = aten.masked_fill.Scalar(self=%cat, mask=%mask, value=-inf)
  %cl : f32[s0, 4] = aten.clone.default(self=%fill, memory_format:=contiguous)
  return %cl, [%top, %i], %size, none, 3
graph eval
  symbol s0 = 8 in [2, 64]
  parameter %w : f32[2, 3] = "first.weight"
  input %x : f32[s0, 3]
  %y : f32[s0, 2] = aten.linear.default(input=%x, weight=%w)
  return %y
)";

// Gives every storage bytes that tell it apart.
Program with_bytes(const std::string& text) {
  Program program = parse_text(text);
  std::map<std::string, Bytes> storages;
  unsigned char next = 1;
  for (Weight& weight : program.weights) {
    if (!storages.contains(weight.storage_key)) {
      const auto size = static_cast<std::size_t>(nbytes(weight.type, {}).value());
      storages[weight.storage_key] = Bytes::take(std::vector<std::byte>(size, std::byte{next++}));
    }
    weight.storage = storages[weight.storage_key];
  }
  return program;
}

Bytes written(const Program& program) {
  const TemporaryFolder folder;
  write_pt2(program, folder.path() / "model.pt2");
  return Bytes::map_file(folder.path() / "model.pt2");
}

// The archive with another content of one entry, or without it.
std::string replaced(const Bytes& archive, const std::string& name,
                     const std::optional<std::string>& content) {
  const ZipReader reader(archive, "before");
  std::vector<HandmadeEntry> entries;
  for (const std::string& other : reader.names()) {
    if (other != name) {
      entries.push_back({.name = "model/" + other, .content = text_of(reader.read(other))});
    } else if (content) {
      entries.push_back({.name = "model/" + other, .content = *content});
    }
  }
  return handmade_zip(entries);
}

std::string pt2_error(const std::string& archive) {
  try {
    read_pt2(bytes_of(archive), "label.pt2");
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

void expect_pt2_refused(const std::string& archive, const std::string& reason) {
  const std::string error = pt2_error(archive);
  EXPECT_TRUE(error.starts_with("[graph] ")) << error;
  EXPECT_NE(error.find("label.pt2"), std::string::npos) << error;
  EXPECT_NE(error.find(reason), std::string::npos) << error;
  EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  EXPECT_LT(error.size(), 600U) << error;
}

// A small archive to break: two ops, a weight and its tied name.
const Bytes& small() {
  static const Bytes kArchive = written(with_bytes(R"(
weight parameter "w" : f32[2, 3]
weight parameter "tied" : f32[2, 3] key "w"
graph
  parameter %w : f32[2, 3] = "w"
  input %x : f32[4, 3]
  input %n : int
  %y : f32[4, 2] = aten.linear.default(input=%x, weight=%w)
  %z : f32[4, 2] = aten.relu.default(self=%y)
  return %z
)"));
  return kArchive;
}

using Change = std::function<void(Json&)>;

std::string with_changed(const char* entry, const Change& change) {
  Json json = Json::parse(text_of(ZipReader(small(), "small").read(entry)));
  change(json);
  return replaced(small(), entry, json.dump());
}

std::string with_model(const Change& change) { return with_changed(kModel, change); }

std::string with_weights(const Change& change) { return with_changed(kWeightsConfig, change); }

Json& graph_of(Json& model) { return model["graph_module"]["graph"]; }
Json& relu_of(Json& model) { return graph_of(model)["nodes"][1]; }

TEST(Pt2, GivesBackAnEqualProgram) {
  const Program program = with_bytes(kProgram);
  const Program again = read_pt2(written(program), "label");
  // Outputs and inputs are told a flat structure where they had none.
  EXPECT_EQ(again.graph.in_spec, flat_in_spec(3));
  EXPECT_EQ(again.graph.out_spec, flat_out_spec(5));
  Program bare = again;
  bare.graph.in_spec = bare.graph.out_spec = {};
  bare.eval_graph->in_spec = bare.eval_graph->out_spec = {};
  EXPECT_EQ(to_text(bare.graph), to_text(program.graph));
  ASSERT_TRUE(bare.eval_graph.has_value());
  EXPECT_EQ(to_text(*bare.eval_graph), to_text(*program.eval_graph));
  EXPECT_EQ(again.metadata, program.metadata);
}

TEST(Pt2, GivesBackTheWeights) {
  const Program program = with_bytes(kProgram);
  const Program again = read_pt2(written(program), "label");
  ASSERT_EQ(again.weights.size(), program.weights.size());
  for (const Weight& weight : program.weights) {
    const Weight* other = again.find_weight(weight.name);
    ASSERT_NE(other, nullptr) << weight.name;
    EXPECT_EQ(other->kind, weight.kind) << weight.name;
    EXPECT_EQ(other->in_state_dict(), weight.in_state_dict()) << weight.name;
    EXPECT_EQ(other->type, weight.type) << weight.name;
    EXPECT_EQ(other->storage_key, weight.storage_key) << weight.name;
    EXPECT_EQ(text_of(other->storage), text_of(weight.storage)) << weight.name;
  }
  EXPECT_EQ(again.find_weight("last.weight")->storage.data(),
            again.find_weight("first.weight")->storage.data());
  EXPECT_NE(again.find_weight("frozen")->storage.data(),
            again.find_weight("first.weight")->storage.data());
}

TEST(Pt2, KeepsTheOrderOfTheStateDict) {
  const Program again = read_pt2(written(with_bytes(kProgram)), "label");
  std::vector<std::string> names;
  for (const Weight& weight : again.weights) {
    if (weight.in_state_dict()) {
      names.push_back(weight.name);
    }
  }
  EXPECT_EQ(names, (std::vector<std::string>{"first.weight", "frozen", "last.weight", "part",
                                             "mean", "empty"}));
}

TEST(Pt2, EqualProgramsGiveEqualBytes) {
  EXPECT_EQ(text_of(written(with_bytes(kProgram))), text_of(written(with_bytes(kProgram))));
}

TEST(Pt2, WritingWhatWasReadChangesNothing) {
  const Bytes once = written(read_pt2(written(with_bytes(kProgram)), "label"));
  EXPECT_EQ(text_of(written(read_pt2(once, "label"))), text_of(once));
}

TEST(Pt2, WeightsAreViewsOfTheFile) {
  const Bytes archive = written(with_bytes(kProgram));
  const Program program = read_pt2(archive, "label");
  const Bytes& storage = program.weights[0].storage;
  EXPECT_GE(storage.data(), archive.data());
  EXPECT_LE(storage.data() + storage.size(), archive.data() + archive.size());
}

TEST(Pt2, RefusesToWriteWeightsWithoutBytes) {
  const TemporaryFolder folder;
  EXPECT_THROW(write_pt2(parse_text(kProgram), folder.path() / "a.pt2"), std::invalid_argument);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Pt2, RefusesToWriteTextThatIsNotUtf8) {
  const TemporaryFolder folder;
  Program program = with_bytes("graph\n  return\n");
  program.metadata["note"] = "\xff";
  EXPECT_THROW(write_pt2(program, folder.path() / "a.pt2"), std::invalid_argument);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Pt2, SaysWhichFileIsMissing) {
  EXPECT_THROW(read_pt2(std::filesystem::path("/nonexistent/a.pt2")), Error);
}

TEST(Pt2, AcceptsKeysItDoesNotKnow) {
  EXPECT_EQ(pt2_error(with_model([](Json& model) {
              model["future"] = {{"deep", Json::array({1, 2})}};
              graph_of(model)["future"] = 1;
              relu_of(model)["future"] = nullptr;
            })),
            "no error");
  EXPECT_EQ(pt2_error(with_weights([](Json& config) { config["config"]["w"]["future"] = 1; })),
            "no error");
}

TEST(Pt2, RefusesAnArchiveOfSomethingElse) {
  expect_pt2_refused(replaced(small(), "archive_format", std::nullopt), "not a .pt2 archive");
  expect_pt2_refused(replaced(small(), "archive_format", "pt3"), "not a .pt2 archive");
  expect_pt2_refused(replaced(small(), "byteorder", "big"), "big-endian");
  expect_pt2_refused(handmade_zip({}), "not a .pt2 archive");
}

TEST(Pt2, RefusesAMissingPart) {
  for (const char* name : {kModel, kWeightsConfig, "data/constants/model_constants_config.json",
                           "data/weights/weight_0"}) {
    expect_pt2_refused(replaced(small(), name, std::nullopt), name);
  }
}

TEST(Pt2, RefusesJsonThatIsNone) {
  for (const char* entry : {kModel, kWeightsConfig}) {
    for (const char* text : {"", "{", "nonsense", "{\"a\": \"\xff\"}", "[1, 2", "\"\\u12\""}) {
      expect_pt2_refused(replaced(small(), entry, text), entry);
    }
    for (const char* text : {"null", "1", "[]", "{}", "\"text\""}) {
      expect_pt2_refused(replaced(small(), entry, text), "");
    }
  }
}

TEST(Pt2, RefusesDeepNesting) {
  for (const char* entry : {kModel, kWeightsConfig}) {
    expect_pt2_refused(replaced(small(), entry, std::string(1000000, '[')), "nested too deeply");
    std::string objects;
    for (int i = 0; i < 100000; ++i) {
      objects += "{\"config\":";
    }
    expect_pt2_refused(replaced(small(), entry, objects), "nested too deeply");
    expect_pt2_refused(replaced(small(), entry,
                                R"({"config": {"w": )" + std::string(100000, '[') +
                                    std::string(100000, ']') + "}}"),
                       "nested too deeply");
  }
}

TEST(Pt2, RefusesMissingKeys) {
  const std::vector<std::pair<const char*, Change>> cases{
      {"graph_module", [](Json& model) { model.erase("graph_module"); }},
      {"range_constraints", [](Json& model) { model.erase("range_constraints"); }},
      {"schema_version", [](Json& model) { model.erase("schema_version"); }},
      {"major", [](Json& model) { model["schema_version"].erase("major"); }},
      {"signature", [](Json& model) { model["graph_module"].erase("signature"); }},
      {"module_call_graph", [](Json& model) { model["graph_module"].erase("module_call_graph"); }},
      {"nodes", [](Json& model) { graph_of(model).erase("nodes"); }},
      {"inputs", [](Json& model) { graph_of(model).erase("inputs"); }},
      {"tensor_values", [](Json& model) { graph_of(model).erase("tensor_values"); }},
      {"sym_int_values", [](Json& model) { graph_of(model).erase("sym_int_values"); }},
      {"target", [](Json& model) { relu_of(model).erase("target"); }},
      {"inputs", [](Json& model) { relu_of(model).erase("inputs"); }},
      {"outputs", [](Json& model) { relu_of(model).erase("outputs"); }},
      {"arg", [](Json& model) { relu_of(model)["inputs"][0].erase("arg"); }},
      {"name", [](Json& model) { relu_of(model)["inputs"][0].erase("name"); }},
      {"dtype", [](Json& model) { graph_of(model)["tensor_values"]["x"].erase("dtype"); }},
      {"sizes", [](Json& model) { graph_of(model)["tensor_values"]["x"].erase("sizes"); }},
  };
  for (const auto& [key, change] : cases) {
    expect_pt2_refused(with_model(change), concat("'", key, "'"));
  }
  for (const char* key : {"path_name", "is_param", "use_pickle", "tensor_meta"}) {
    expect_pt2_refused(with_weights([&](Json& config) { config["config"]["w"].erase(key); }), key);
  }
}

// Replaces every value of the JSON, one after the other, and reads again: a
// refusal or a Program, never anything else.
void replace_everywhere(const char* entry, const Json& substitute) {
  const Json original = Json::parse(text_of(ZipReader(small(), "small").read(entry)));
  const Json flat = original.flatten();
  int refused = 0;
  for (const auto& [pointer, value] : flat.items()) {
    for (Json::json_pointer at{pointer}; !at.empty(); at = at.parent_pointer()) {
      Json changed = original;
      changed[at] = substitute;
      refused += pt2_error(replaced(small(), entry, changed.dump())) == "no error" ? 0 : 1;
    }
  }
  EXPECT_GT(refused, 10) << substitute;
}

TEST(Pt2, RefusesWrongTypesEverywhere) {
  for (const Json& substitute : {Json(nullptr), Json(-1), Json("text"), Json::array(),
                                 Json::object(), Json(UINT64_MAX), Json{{"as_int", 1e300}}}) {
    replace_everywhere(kModel, substitute);
    replace_everywhere(kWeightsConfig, substitute);
  }
}

TEST(Pt2, RefusesUsesOfWhatIsNotDefinedBefore) {
  const auto with_argument = [](const char* name) {
    return with_model([name](Json& model) {
      graph_of(model)["nodes"][0]["inputs"][0]["arg"]["as_tensor"]["name"] = name;
    });
  };
  expect_pt2_refused(with_argument("nobody"), "'nobody' is used but not defined");
  expect_pt2_refused(with_argument("z"), "'z' is used but not defined");
  expect_pt2_refused(with_argument("y"), "'y' is used but not defined");
}

TEST(Pt2, RefusesWhatIsDefinedTwice) {
  expect_pt2_refused(
      with_model([](Json& model) { relu_of(model)["outputs"][0]["as_tensor"]["name"] = "x"; }),
      "'x' is defined twice");
}

TEST(Pt2, RefusesOperatorsThatAreNotOnTheList) {
  for (const char* target :
       {"torch.ops.aten.nothing.default", "torch.ops.aten.from_file.default",
        "torch.ops.aten.save.default", "torch.ops.aten.record_stream.default",
        "torch.ops.mylib.relu.default", "torch.ops.prim.device.default", "os.system",
        "_operator.delitem", "relu", "", "aten.relu.default.more"}) {
    expect_pt2_refused(with_model([&](Json& model) { relu_of(model)["target"] = target; }),
                       "not on the list");
  }
}

TEST(Pt2, RefusesAnotherMajorVersionOfTheSchema) {
  for (const int major : {9, 7, 1000000}) {
    expect_pt2_refused(with_model([&](Json& model) { model["schema_version"]["major"] = major; }),
                       concat("expected schema version 8, got ", major));
  }
  EXPECT_EQ(pt2_error(with_model([](Json& model) { model["schema_version"]["minor"] = 99; })),
            "no error");
}

TEST(Pt2, RefusesShapesNobodyCanHold) {
  const auto with_size = [](const char* value, std::int64_t size) {
    return with_model(
        [=](Json& model) { graph_of(model)["tensor_values"][value]["sizes"][0]["as_int"] = size; });
  };
  expect_pt2_refused(with_size("y", std::int64_t{1} << 38), "more than 512 GiB");
  expect_pt2_refused(with_size("y", INT64_MAX), "more than 512 GiB");
  expect_pt2_refused(with_size("y", -1), "negative size");
  expect_pt2_refused(with_size("w", std::int64_t{1} << 38), "label.pt2");
  expect_pt2_refused(with_model([](Json& model) {
                       Json& meta = graph_of(model)["tensor_values"]["y"];
                       for (int i = 0; i < 100; ++i) {
                         meta["sizes"].push_back({{"as_int", 1}});
                         meta["strides"].push_back({{"as_int", 1}});
                       }
                     }),
                     "at most 64");
  expect_pt2_refused(
      with_model([](Json& model) { graph_of(model)["tensor_values"]["y"]["strides"].erase(0); }),
      "as many strides as sizes");
}

TEST(Pt2, RefusesWeightsThatDoNotFitTheirBytes) {
  const auto with_meta = [](const Change& change) {
    return with_weights([&](Json& config) { change(config["config"]["w"]["tensor_meta"]); });
  };
  for (const std::int64_t lie :
       {std::int64_t{-1}, std::int64_t{7}, std::int64_t{1} << 40, INT64_MAX, INT64_MIN}) {
    expect_pt2_refused(with_meta([&](Json& meta) { meta["sizes"][0]["as_int"] = lie; }),
                       "weight 'w'");
    expect_pt2_refused(with_meta([&](Json& meta) { meta["strides"][0]["as_int"] = lie; }),
                       "weight 'w'");
    expect_pt2_refused(with_meta([&](Json& meta) { meta["storage_offset"]["as_int"] = lie; }),
                       "weight 'w'");
  }
  expect_pt2_refused(with_meta([](Json& meta) { meta["storage_offset"]["as_int"] = 1; }),
                     "do not fit into the 24 bytes");
  expect_pt2_refused(with_meta([](Json& meta) {
                       meta["sizes"][0] = {{"as_expr", {{"expr_str", "Symbol('s0')"}}}};
                     }),
                     "weight 'w'");
  expect_pt2_refused(with_meta([](Json& meta) { meta["dtype"] = 99; }), "dtype");
  expect_pt2_refused(with_meta([](Json& meta) { meta["layout"] = 1; }), "dense");
  expect_pt2_refused(replaced(small(), "data/weights/weight_0", std::string(23, 'x')),
                     "do not fit into the 23 bytes");
}

TEST(Pt2, NeverReadsPicklesOrOtherPaths) {
  expect_pt2_refused(with_weights([](Json& config) { config["config"]["w"]["use_pickle"] = true; }),
                     "never read");
  for (const char* path : {"../weight_0", "weight_0/../../x", "/etc/passwd", "weight_", "weight_x",
                           "tensor_0", "", "custom_obj_0"}) {
    expect_pt2_refused(
        with_weights([&](Json& config) { config["config"]["w"]["path_name"] = path; }),
        "never read");
  }
}

TEST(Pt2, RefusesWeightsThatAreNotStored) {
  expect_pt2_refused(with_weights([](Json& config) { config["config"] = Json::object(); }),
                     "'w' is used but not stored");
  expect_pt2_refused(with_weights([](Json& config) {
                       config["config"]["w"]["tensor_meta"]["sizes"][0]["as_int"] = 1;
                       config["config"].erase("tied");
                     }),
                     "another shape or dtype");
}

TEST(Pt2, RefusesExpressionsThatAreNone) {
  for (const char* expr : {"", "__import__('os')", "Symbol('s0'", "Mul(Symbol('s0'))(2)"}) {
    expect_pt2_refused(
        with_model([&](Json& model) {
          graph_of(model)["tensor_values"]["x"]["sizes"][0] = {{"as_expr", {{"expr_str", expr}}}};
        }),
        "label.pt2");
  }
}

// A model that runs relu inside a higher-order op with these options.
Change within(const std::string& op, const Json& options) {
  return [op, options](Json& model) {
    Json& node = relu_of(model);
    Json nested = {
        {"inputs", {{{"as_tensor", {{"name", "inner"}}}}}},
        {"outputs", {{{"as_tensor", {{"name", "relu"}}}}}},
        {"nodes",
         {{{"target", "torch.ops.aten.relu.default"},
           {"inputs", {{{"name", "self"}, {"arg", {{"as_tensor", {{"name", "inner"}}}}}}}},
           {"outputs", {{{"as_tensor", {{"name", "relu"}}}}}}}}},
        {"tensor_values", Json::object()},
        {"sym_int_values", Json::object()}};
    Json inputs = Json::array();
    for (const Json& option : options) {
      inputs.push_back({{"name", ""}, {"arg", option}});
    }
    inputs.push_back(
        {{"name", ""}, {"arg", {{"as_graph", {{"name", "body"}, {"graph", nested}}}}}});
    inputs.push_back({{"name", ""}, {"arg", {{"as_tensor", {{"name", "y"}}}}}});
    node["target"] = "torch.ops.higher_order." + op;
    node["inputs"] = inputs;
  };
}

std::vector<std::string> targets_of(const Graph& graph) {
  std::vector<std::string> targets;
  for (const Op& op : graph.ops) {
    targets.push_back(op.target);
  }
  return targets;
}

TEST(Pt2, FlattensRegionsWithoutGradients) {
  const Json off = Json::array({{{"as_bool", false}}});
  const Json on = Json::array({{{"as_bool", true}}});
  const Program without =
      read_pt2(bytes_of(with_model(within("wrap_with_set_grad_enabled", off))), "label");
  EXPECT_EQ(targets_of(without.graph),
            (std::vector<std::string>{"aten.linear.default", "aten.detach.default",
                                      "aten.relu.default"}));
  EXPECT_EQ(without.graph.ops[2].find_argument("self")->find_ref()->id,
            without.graph.ops[1].results[0].values[0]);
  const Program with =
      read_pt2(bytes_of(with_model(within("wrap_with_set_grad_enabled", on))), "label");
  EXPECT_EQ(targets_of(with.graph),
            (std::vector<std::string>{"aten.linear.default", "aten.relu.default"}));
}

TEST(Pt2, RefusesControlFlowThatDependsOnData) {
  for (const char* op : {"cond", "while_loop", "map_impl", "anything"}) {
    expect_pt2_refused(with_model(within(op, Json::array())), "control flow");
  }
  const Json on = Json::array({{{"as_string", "cpu"}},
                               {{"as_scalar_type", 13}},
                               {{"as_bool", true}},
                               {{"as_bool", false}}});
  expect_pt2_refused(with_model(within("wrap_with_autocast", on)), "autocast");
  expect_pt2_refused(
      with_model([](Json& model) { relu_of(model)["target"] = "torch.ops.higher_order.cond"; }),
      "control flow");
}

TEST(Pt2, RefusesCustomObjectsAndTokens) {
  expect_pt2_refused(with_model([](Json& model) {
                       model["graph_module"]["signature"]["input_specs"][1] = {
                           {"custom_obj", {{"arg", {{"name", "x"}}}}}};
                     }),
                     "custom objects");
  expect_pt2_refused(with_model([](Json& model) {
                       relu_of(model)["inputs"][0]["arg"] = {{"as_custom_obj", {{"name", "x"}}}};
                     }),
                     "not supported");
}

TEST(Pt2, RefusesACountOfInputsThatDiffers) {
  expect_pt2_refused(
      with_model([](Json& model) { model["graph_module"]["signature"]["input_specs"].erase(0); }),
      "expected one input spec for each");
}

}  // namespace
}  // namespace ravnest::graph
