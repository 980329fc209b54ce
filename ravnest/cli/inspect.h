#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "ravnest/base/table.h"
#include "ravnest/graph/cost/cost.h"
#include "ravnest/graph/cost/statistics.h"
#include "ravnest/graph/program.h"

namespace ravnest::cli {

enum class InspectForm : std::uint8_t { kTable, kJson, kText };

struct InspectOptions {
  std::filesystem::path file;
  InspectForm form = InspectForm::kTable;
  std::optional<std::int64_t> batch;  // that of the capture
  graph::OptimizerKind optimizer = graph::OptimizerKind::kAdam;
  std::size_t top = 8;  // places and operators shown in the table
};

// What `ravnest inspect` prints. Throws as reading the file does.
std::string inspect(const InspectOptions& options, const Style& style);

// The table, for people.
std::string inspect_table(const graph::Program& program, const graph::Statistics& statistics,
                          const InspectOptions& options, const Style& style);

// One JSON object; numbers are elements, bytes or FLOPs of one pass:
//   file, file_bytes
//   batch, captured_batch     null where not known; batch_is_dynamic
//   graphs                    ["train"] or ["train", "eval"], when eval differs in structure
//   costs_known               false: captured without shapes, so that flops are 0 and memory
//                              is that of the weights alone
//   parameters                {count, trainable, bytes}: tied ones once
//   buffers                   {count, bytes}: constants included
//   operators                 {count, by_target: {"aten.conv2d.default": 20, …}}
//   memory                    {optimizer_kind, weights, buffers, gradients, optimizer,
//                              activations, inputs_outputs, largest_temporary, total}
//   flops                     {forward, backward}
//   places                    [{path, operators, parameters, parameter_bytes,
//                               activation_bytes, flops, backward_flops, share}, …], the heaviest
//                              first; together they are the whole model
std::string inspect_json(const graph::Program& program, const graph::Statistics& statistics,
                         const InspectOptions& options);

}  // namespace ravnest::cli
