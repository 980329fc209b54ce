#include "ravnest/cli/inspect.h"

#include <nlohmann/json.hpp>

#include "ravnest/engine/load.h"
#include "ravnest/graph/text/text.h"

namespace ravnest::cli {

namespace {

using Json = nlohmann::ordered_json;

Json or_null(const std::optional<std::int64_t>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json memory_json(const graph::MemoryEstimate& memory, graph::OptimizerKind optimizer) {
  return {{"optimizer_kind", graph::name_of(optimizer)},
          {"weights", memory.weights},
          {"buffers", memory.buffers},
          {"gradients", memory.gradients},
          {"optimizer", memory.optimizer},
          {"activations", memory.activations},
          {"inputs_outputs", memory.inputs_outputs},
          {"largest_temporary", memory.largest_temporary},
          {"total", memory.total}};
}

Json operators_json(const graph::Statistics& statistics) {
  Json by_target = Json::object();
  for (const graph::OperatorCount& op : statistics.operators) {
    by_target[op.target] = op.count;
  }
  return {{"count", statistics.ops}, {"by_target", std::move(by_target)}};
}

Json places_json(const std::vector<graph::Place>& places) {
  Json list = Json::array();
  for (const graph::Place& place : places) {
    list.push_back({{"path", place.path},
                    {"operators", place.ops},
                    {"parameters", place.parameters},
                    {"parameter_bytes", place.parameter_bytes},
                    {"activation_bytes", place.activation_bytes},
                    {"flops", place.flops},
                    {"backward_flops", place.backward_flops},
                    {"share", place.share}});
  }
  return list;
}

}  // namespace

std::string inspect_json(const graph::Program& program, const graph::Statistics& statistics,
                         const InspectOptions& options) {
  Json out;
  out["file"] = options.file.string();
  out["file_bytes"] = std::filesystem::file_size(options.file);
  out["batch"] = or_null(statistics.batch);
  out["captured_batch"] = or_null(statistics.captured_batch);
  out["batch_is_dynamic"] = statistics.batch_is_dynamic;
  out["graphs"] = program.eval_graph ? Json{"train", "eval"} : Json{"train"};
  out["costs_known"] = statistics.costs_known;
  out["parameters"] = {{"count", statistics.parameters},
                       {"trainable", statistics.trainable_parameters},
                       {"bytes", statistics.parameter_bytes}};
  out["buffers"] = {{"count", statistics.buffers}, {"bytes", statistics.buffer_bytes}};
  out["operators"] = operators_json(statistics);
  out["memory"] = memory_json(statistics.memory, options.optimizer);
  out["flops"] = {{"forward", statistics.flops}, {"backward", statistics.backward_flops}};
  out["places"] = places_json(statistics.places);
  // Names come from the file and need not be UTF-8.
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string inspect(const InspectOptions& options, const Style& style) {
  const graph::Program program = engine::load_program(options.file);
  if (options.form == InspectForm::kText) {
    return graph::to_text(program);
  }
  const graph::Statistics statistics =
      graph::statistics(program, {.batch = options.batch, .optimizer = options.optimizer});
  return options.form == InspectForm::kJson ? inspect_json(program, statistics, options)
                                            : inspect_table(program, statistics, options, style);
}

}  // namespace ravnest::cli
