#include "ravnest/package/stage_files.h"

#include "ravnest/base/error.h"
#include "ravnest/graph/pt2/pt2.h"
#include "ravnest/package/json_file.h"
#include "ravnest/package/state_names.h"

namespace ravnest::package {

namespace {

using graph::Graph;
using graph::Source;
using Sources = std::vector<Source>;

constexpr std::size_t kMaxIndex = 1'000'000;
constexpr const char* kModelInputs = "model_inputs.json";

std::string file_name(std::size_t stage, const char* what) {
  return concat("submod_", stage, "_", what, ".json");
}

Json size_json(const graph::Expr& size) {
  return size.is_constant() ? Json(size.constant()) : Json(size.to_string());
}

Json value_json(const graph::Value& value) {
  Json dtype = nullptr;
  Json shape = nullptr;
  switch (value.kind) {
    case graph::ValueKind::kInt:
      dtype = "int";
      break;
    case graph::ValueKind::kFloat:
      dtype = "float";
      break;
    case graph::ValueKind::kBool:
      dtype = "bool";
      break;
    case graph::ValueKind::kTensor:
      if (value.type.is_known()) {
        dtype = graph::long_name_of(value.type.dtype);
        shape = Json::array();
        for (const graph::Expr& size : value.type.sizes) {
          shape.push_back(size_json(size));
        }
      }
      break;
  }
  return {{"name", value.name}, {"dtype", std::move(dtype)}, {"shape", std::move(shape)}};
}

Json source_json(const Source& source, std::size_t stage) {
  if (source.kind == Source::Kind::kModel) {
    return {{"model_input", source.index}};
  }
  return {{"stage", stage - 1}, {"output", source.index}};
}

Json inputs_json(const Graph& graph, const Sources& sources, std::size_t stage) {
  const auto inputs = graph.user_inputs();
  RAVNEST_CHECK(inputs.size() == sources.size());
  Json list = Json::array();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Json entry = value_json(graph.value(inputs[i]->value));
    entry["source"] = source_json(sources[i], stage);
    list.push_back(std::move(entry));
  }
  return list;
}

// The inputs of `stage` that come from `source`.
void add_uses(const Source& source, const Sources& sources, std::size_t stage, Json& uses) {
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (sources[i] == source) {
      uses.push_back({{"stage", stage}, {"input", i}});
    }
  }
}

// An output of the model may also be a list or a constant; these have no name.
Json output_json(const Graph& graph, const graph::Argument& output) {
  if (const graph::Ref* ref = output.find_ref()) {
    return value_json(graph.value(ref->id));
  }
  Json entry = {{"name", nullptr}, {"dtype", nullptr}, {"shape", nullptr}};
  if (const graph::List* list = output.find_list()) {
    entry["items"] = Json::array();
    for (const graph::Argument& item : list->items) {
      entry["items"].push_back(output_json(graph, item));
    }
  }
  return entry;
}

// `next`: where the inputs of the stage after this one come from; none after the last.
Json outputs_json(const Graph& graph, const Sources& next, std::size_t stage) {
  Json list = Json::array();
  for (std::size_t j = 0; j < graph.outputs.size(); ++j) {
    Json entry = output_json(graph, graph.outputs[j]);
    entry["used_by"] = Json::array();
    add_uses({.kind = Source::Kind::kPrevious, .index = j}, next, stage + 1, entry["used_by"]);
    list.push_back(std::move(entry));
  }
  return list;
}

Json model_input_json(const Graph& graph, const graph::Input& input) {
  if (input.kind == graph::InputKind::kLiteral) {
    return {{"name", input.target}, {"dtype", nullptr}, {"shape", nullptr}, {"fixed", true}};
  }
  return value_json(graph.value(input.value));
}

Json model_inputs_json(const Graph& graph, const std::vector<graph::Stage>& stages,
                       Sources graph::Stage::* sources) {
  const auto inputs = graph.user_inputs();
  Json list = Json::array();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Json entry = model_input_json(graph, *inputs[i]);
    entry["used_by"] = Json::array();
    for (std::size_t k = 0; k < stages.size(); ++k) {
      add_uses({.kind = Source::Kind::kModel, .index = i}, stages[k].*sources, k, entry["used_by"]);
    }
    list.push_back(std::move(entry));
  }
  return list;
}

// The eval graph's list stands beside only where it is another.
void add_list(Json& object, const char* key, Json list) {
  if (!std::string_view(key).starts_with("eval_") || object[key + 5] != list) {
    object[key] = std::move(list);
  }
}

Json header(const StagePlace& place) {
  return {{"plan", place.plan}, {"cluster", place.cluster}, {"stage", place.stage}};
}

Json input_file(const graph::Stage& stage, const StagePlace& place) {
  Json object = header(place);
  add_list(object, "inputs", inputs_json(stage.program.graph, stage.sources, place.stage));
  if (stage.program.eval_graph) {
    add_list(object, "eval_inputs",
             inputs_json(*stage.program.eval_graph, stage.eval_sources, place.stage));
  }
  return object;
}

Json output_file(const std::vector<graph::Stage>& stages, const StagePlace& place) {
  const graph::Stage& stage = stages[place.stage];
  const graph::Stage* next = place.stage + 1 < stages.size() ? &stages[place.stage + 1] : nullptr;
  Json object = header(place);
  add_list(object, "outputs",
           outputs_json(stage.program.graph, next ? next->sources : Sources(), place.stage));
  if (stage.program.eval_graph) {
    add_list(object, "eval_outputs",
             outputs_json(*stage.program.eval_graph, next ? next->eval_sources : Sources(),
                          place.stage));
  }
  return object;
}

Json model_inputs_file(const graph::Program& program, const std::vector<graph::Stage>& stages,
                       const StagePlace& place) {
  Json object = {{"plan", place.plan}, {"cluster", place.cluster}};
  object["in_spec"] = program.graph.in_spec;
  object["out_spec"] = (program.eval_graph ? *program.eval_graph : program.graph).out_spec;
  if (const auto names = program.metadata.find("arguments"); names != program.metadata.end()) {
    object["arguments"] = names->second;
  }
  add_list(object, "inputs", model_inputs_json(program.graph, stages, &graph::Stage::sources));
  if (program.eval_graph) {
    add_list(object, "eval_inputs",
             model_inputs_json(*program.eval_graph, stages, &graph::Stage::eval_sources));
  }
  object["state_dict"] = state_dict_json(program);
  return object;
}

Source read_source(const Field& field, std::size_t stage) {
  if (field.contains("model_input")) {
    return {.kind = Source::Kind::kModel, .index = field.at("model_input").count(0, kMaxIndex)};
  }
  const Field from = field.at("stage");
  if (stage == 0 || from.count(0, kMaxIndex) != stage - 1) {
    from.refuse("the stage before this one");
  }
  return {.kind = Source::Kind::kPrevious, .index = field.at("output").count(0, kMaxIndex)};
}

Sources read_sources(const Field& list, const Graph& graph, std::size_t stage) {
  Sources sources;
  for (const Field& item : list.items()) {
    sources.push_back(read_source(item.at("source"), stage));
  }
  const std::size_t inputs = graph.user_inputs().size();
  if (sources.size() != inputs) {
    list.refuse(concat("the ", inputs, " inputs of ", kSubModel));
  }
  return sources;
}

void check_cluster(const Field& file, const StagePlace& place) {
  if (file.at("plan").text() != place.plan) {
    file.at("plan").refuse(concat("the node's plan ", place.plan, " (run clusterize again)"));
  }
  if (file.at("cluster").count(0, kMaxIndex) != place.cluster) {
    file.at("cluster").refuse(std::to_string(place.cluster));
  }
}

void check_place(const Field& file, const StagePlace& place) {
  check_cluster(file, place);
  if (file.at("stage").count(0, kMaxIndex) != place.stage) {
    file.at("stage").refuse(std::to_string(place.stage));
  }
}

}  // namespace

void write_stage(const graph::Program& program, const std::vector<graph::Stage>& stages,
                 const StagePlace& place, const std::filesystem::path& folder) {
  const graph::Stage& stage = stages[place.stage];
  const auto write = [&](const Json& object, const std::string& name) {
    write_json(object, folder / name, Durability::kAtSync);
  };
  graph::write_pt2(stage.program, folder / kSubModel, Durability::kAtSync);
  write(input_file(stage, place), file_name(place.stage, "input"));
  write(output_file(stages, place), file_name(place.stage, "output"));
  if (place.stage == 0) {
    write(model_inputs_file(program, stages, place), kModelInputs);
  }
}

graph::Stage read_stage_files(const StagePlace& place, const std::filesystem::path& folder) {
  const auto path = folder / file_name(place.stage, "input");
  const Json json = read_json(path);
  const Field file(json, path);
  check_place(file, place);
  graph::Stage stage{.program = graph::read_pt2(folder / kSubModel)};
  stage.sources = read_sources(file.at("inputs"), stage.program.graph, place.stage);
  if (stage.program.eval_graph) {
    const Field list = file.at(file.contains("eval_inputs") ? "eval_inputs" : "inputs");
    stage.eval_sources = read_sources(list, *stage.program.eval_graph, place.stage);
  }
  return stage;
}

std::vector<StateName> read_state_file(const StagePlace& place,
                                       const std::filesystem::path& folder) {
  const auto path = folder / kModelInputs;
  const Json json = read_json(path);
  const Field file(json, path);
  check_cluster(file, place);
  return read_state_names(file.at("state_dict"));
}

}  // namespace ravnest::package
