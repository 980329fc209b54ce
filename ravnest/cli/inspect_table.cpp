#include <algorithm>
#include <cmath>

#include "ravnest/cli/inspect.h"
#include "ravnest/graph/shapes.h"

namespace ravnest::cli {

namespace {

constexpr std::size_t kBarWidth = 12;
constexpr std::size_t kMemoryBarWidth = 24;
constexpr std::string_view kNotKnown = "not known";

std::string heading(std::string_view text, const Style& style) {
  return "\n" + painted(text, Paint::kBold, style) + "\n";
}

std::string percent(double share) { return std::to_string(std::lround(share * 100)) + " %"; }

double ratio(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

std::string batch_note(const graph::Statistics& statistics) {
  if (!statistics.captured_batch) {
    return "captured without shapes";
  }
  return (statistics.batch_is_dynamic ? "any batch, captured with " : "batch fixed to ") +
         std::to_string(*statistics.captured_batch);
}

std::string title(const graph::Program& program, const graph::Statistics& statistics,
                  const InspectOptions& options, const Style& style) {
  const std::string separator = ", ";
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(options.file));
  const std::string rest = separator + format_bytes(size) + separator + batch_note(statistics) +
                           separator + (program.eval_graph ? "graphs: train, eval" : "one graph");
  const std::size_t room = style.width > rest.size() ? style.width - rest.size() : 0;
  const std::string name = printable(options.file.filename().string());
  return painted(shortened(name, std::max<std::size_t>(room, 12), style), Paint::kBold, style) +
         rest + "\n";
}

std::string model_table(const graph::Statistics& statistics, const Style& style) {
  Table table({{}, {Align::kRight}, {Align::kRight}, {}});
  const std::int64_t frozen = statistics.parameters - statistics.trainable_parameters;
  table.add_row({"parameters", format_grouped(statistics.parameters),
                 format_bytes(statistics.parameter_bytes),
                 frozen > 0 ? format_grouped(frozen) + " frozen" : ""});
  table.add_row(
      {"buffers", format_grouped(statistics.buffers), format_bytes(statistics.buffer_bytes)});
  table.add_row({"operators", format_grouped(statistics.ops), "",
                 std::to_string(statistics.operators.size()) + " kinds"});
  return heading("Model", style) + table.to_string(style);
}

std::string memory_heading(const graph::Statistics& statistics, const InspectOptions& options) {
  std::string text = "Memory for training";
  if (statistics.batch) {
    text += ", batch " + std::to_string(*statistics.batch);
  }
  return text.append(", ").append(graph::name_of(options.optimizer));
}

std::string memory_table(const graph::Statistics& statistics, const InspectOptions& options,
                         const Style& style) {
  const graph::MemoryEstimate& memory = statistics.memory;
  Table table({{}, {Align::kRight}, {Align::kRight}, {Align::kLeft, Paint::kBar}});
  const auto add = [&](std::string name, std::int64_t nbytes) {
    const double share = ratio(nbytes, memory.total);
    table.add_row({std::move(name), format_bytes(nbytes), percent(share),
                   bar(share, kMemoryBarWidth, style)});
  };
  const auto add_cost = [&](std::string name, std::int64_t nbytes) {
    if (statistics.costs_known) {
      add(std::move(name), nbytes);
    } else {
      table.add_row({std::move(name), std::string(kNotKnown)});
    }
  };
  add("weights", memory.weights);
  add("buffers", memory.buffers);
  add("gradients", memory.gradients);
  add("optimizer state", memory.optimizer);
  add_cost("activations", memory.activations);
  add_cost("other inputs and outputs", memory.inputs_outputs);
  add_cost("largest temporary", memory.largest_temporary);
  table.add_row({"total", (statistics.costs_known ? "" : "over ") + format_bytes(memory.total)});
  return heading(memory_heading(statistics, options), style) + table.to_string(style);
}

std::string compute_table(const graph::Statistics& statistics, const Style& style) {
  Table table({{}, {Align::kRight}});
  const auto flops = [&](std::int64_t count) {
    return statistics.costs_known ? format_flops(count) : std::string(kNotKnown);
  };
  table.add_row({"forward", flops(statistics.flops)});
  table.add_row({"backward", flops(statistics.backward_flops)});
  return heading("Compute of one pass", style) + table.to_string(style);
}

struct PlacesTable {
  Table table;
  const Style& style;
  bool costs_known = true;

  void add(const std::string& name, const graph::Place& place) {
    const std::int64_t flops = graph::saturating_add(place.flops, place.backward_flops);
    table.add_row({name, format_count(place.parameters),
                   costs_known ? format_bytes(place.activation_bytes) : "-",
                   costs_known ? format_flops(flops) : "-", percent(place.share),
                   bar(place.share, kBarWidth, style)});
  }
};

graph::Place sum_of(std::span<const graph::Place> places) {
  graph::Place sum;
  for (const graph::Place& place : places) {
    sum.parameters = graph::saturating_add(sum.parameters, place.parameters);
    sum.activation_bytes = graph::saturating_add(sum.activation_bytes, place.activation_bytes);
    sum.flops = graph::saturating_add(sum.flops, place.flops);
    sum.backward_flops = graph::saturating_add(sum.backward_flops, place.backward_flops);
    sum.share += place.share;
  }
  return sum;
}

std::string places_table(const graph::Statistics& statistics, const InspectOptions& options,
                         const Style& style) {
  const Column right{.align = Align::kRight};
  PlacesTable places{.table = Table({{}, right, right, right, right, {.paint = Paint::kBar}}),
                     .style = style,
                     .costs_known = statistics.costs_known};
  places.table.add_header({"", "parameters", "activations", "compute", "share"});
  const std::span<const graph::Place> all = statistics.places;
  const std::size_t shown = std::min(options.top, all.size());
  for (const graph::Place& place : all.first(shown)) {
    places.add(place.path.empty() ? "(forward)" : place.path, place);
  }
  if (const std::size_t left = all.size() - shown; left > 0) {
    places.add(std::to_string(left) + (left == 1 ? " other" : " others"),
               sum_of(all.subspan(shown)));
  }
  return heading("Heaviest places", style) + places.table.to_string(style);
}

std::string short_name(std::string_view target) {
  constexpr std::string_view kPrefix = "aten.";
  constexpr std::string_view kSuffix = ".default";
  if (target.starts_with(kPrefix)) {
    target.remove_prefix(kPrefix.size());
  }
  if (target.ends_with(kSuffix)) {
    target.remove_suffix(kSuffix.size());
  }
  return std::string(target);
}

// Two operators a line, counted downwards.
std::string operators_table(const graph::Statistics& statistics, const InspectOptions& options,
                            const Style& style) {
  constexpr std::size_t kNameWidth = 28;
  Table table({{Align::kRight}, {}, {Align::kRight}, {}});
  const std::span<const graph::OperatorCount> operators = statistics.operators;
  const std::size_t shown = std::min(2 * options.top, operators.size());
  const std::size_t lines = (shown + 1) / 2;
  for (std::size_t line = 0; line < lines; ++line) {
    std::vector<std::string> cells;
    for (const std::size_t index : {line, line + lines}) {
      if (index < shown) {
        cells.push_back(format_grouped(operators[index].count));
        cells.push_back(
            shortened(printable(short_name(operators[index].target)), kNameWidth, style));
      }
    }
    table.add_row(std::move(cells));
  }
  std::string text = heading("Operators", style) + table.to_string(style);
  if (shown < operators.size()) {
    text += "  and " + std::to_string(operators.size() - shown) + " more kinds\n";
  }
  return text;
}

}  // namespace

std::string inspect_table(const graph::Program& program, const graph::Statistics& statistics,
                          const InspectOptions& options, const Style& style) {
  std::string out = title(program, statistics, options, style) + model_table(statistics, style) +
                    memory_table(statistics, options, style) + compute_table(statistics, style);
  if (options.top > 0) {
    out += places_table(statistics, options, style) + operators_table(statistics, options, style);
  }
  return out;
}

}  // namespace ravnest::cli
