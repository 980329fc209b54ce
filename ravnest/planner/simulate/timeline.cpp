#include "ravnest/planner/simulate/timeline.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string_view>

#include "ravnest/base/error.h"
#include "ravnest/base/table.h"
#include "ravnest/planner/report/svg.h"
#include "ravnest/planner/simulate/simulate.h"

namespace ravnest::planner {

namespace {

constexpr std::string_view kIdle = "#e3e7ed";
constexpr std::string_view kForward = "#6bb0ea";
constexpr std::string_view kBackward = "#eea65c";
constexpr std::string_view kMixed = "#a9abb0";
constexpr std::string_view kUpdate = "#a8322f";
constexpr std::string_view kAveraging = "#3c9d66";
constexpr std::string_view kAway = "#d98a94";

constexpr double kTimelineMargin = 20;
constexpr double kPlotLeft = 210;
constexpr double kPlotWidth = 1000;
constexpr double kWidth = kPlotLeft + kPlotWidth + 2 * kTimelineMargin;
constexpr double kTitleHeight = 38;
constexpr double kLineHeight = 16;
constexpr double kHeadingHeight = 24;
constexpr double kRowHeight = 26;
constexpr double kBarHeight = 4;
constexpr double kRowPitch = kRowHeight + kBarHeight + 6;
constexpr double kDigitWidth = 6;
constexpr double kBetweenBlocks = 0.7;
constexpr double kNarrow = 3;  // blocks below this width are kept together
constexpr double kHatchPitch = 5;
constexpr std::size_t kLongestAddress = 26;
constexpr std::size_t kLongestLine = 185;  // of what fits the width, in usual fonts

std::vector<std::string> wrapped(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (lines.empty() || lines.back().size() + word.size() >= kLongestLine) {
      lines.push_back(word);
    } else {
      lines.back() += " " + word;
    }
  }
  return lines;
}

// 1, 2 or 5 times a power of ten, for about ten ticks.
double tick_seconds(double window) {
  const double power = std::pow(10.0, std::floor(std::log10(window / 10)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (window / (power * factor) <= 10) {
      return power * factor;
    }
  }
  return power * 10;
}

std::string rate_text(const Simulation& simulation) {
  const bool has_samples = simulation.samples_per_second.has_value();
  const double rate = has_samples ? *simulation.samples_per_second : simulation.passes_per_second;
  return (rate < 100 ? format_fixed(rate, 2) : format_grouped(std::llround(rate))) +
         (has_samples ? " samples/s" : " passes/s");
}

std::string title_of(const Simulation& simulation) {
  const SimulateOptions& options = simulation.options;
  std::string title = concat(rate_text(simulation), ", ", name_of(options.schedule));
  if (options.schedule == Schedule::kSync) {
    title += concat(" with ", options.micro_batches, " micro-batches");
  }
  return title;
}

// Busy and idle shares of a whole run, for the reader who points at a row.
std::string shares_text(const MachineRun& run) {
  std::string text = concat("busy ", format_percent(run.busy()));
  for (std::size_t i = 0; i < kIdleReasons; ++i) {
    if (run.idle[i] >= 0.005) {
      text += concat(", ", name_of(static_cast<Idle>(i)), " ", format_percent(run.idle[i]));
    }
  }
  std::ranges::replace(text, '_', ' ');
  return text;
}

std::string_view colour_of(BlockKind kind) {
  switch (kind) {
    case BlockKind::kForward:
      return kForward;
    case BlockKind::kBackward:
      return kBackward;
    default:
      return kMixed;
  }
}

bool has_mixed(const TimelineRow& row) {
  return std::ranges::count(row.blocks, BlockKind::kMixed, &Block::kind) > 0;
}

class TimelinePicture {
 public:
  TimelinePicture(const Plan& plan, const Simulation& simulation)
      : plan_(plan), simulation_(simulation), timeline_(simulation.timeline) {}

  std::string draw() {
    const double top = add_title();
    const double bottom = top + rows_height();
    add_axis(top, bottom);
    double y = top;
    for (const TimelineRow& row : timeline_.rows) {
      if (row.stage == 0) {
        add_heading(row.cluster, y);
        y += kHeadingHeight;
      }
      add_row(row, y);
      y += kRowPitch;
    }
    add_legend(bottom + 46);
    add_rest(bottom + 46);
    return svg_.finish(kWidth, bottom + 64, title_of(simulation_), kBackground);
  }

 private:
  // Returns where it ends.
  double add_title() {
    double y = kTitleHeight;
    svg_.text({kTimelineMargin, y - 8}, title_of(simulation_),
              {.size = 17, .fill = kInk, .bold = true});
    for (const std::string& line : wrapped(subtitle())) {
      svg_.text({kTimelineMargin, y + 12}, line, {.fill = kDim});
      y += kLineHeight;
    }
    return y + 12;
  }

  std::string subtitle() const {
    const auto& clusters = simulation_.clusters;
    if (clusters.empty()) {
      return "";
    }
    return (clusters.size() > 1 ? "Cluster 0: " : "") + clusters.front().bottleneck.reason;
  }

  double rows_height() const {
    const auto headings = std::ranges::count(timeline_.rows, 0U, &TimelineRow::stage);
    return static_cast<double>(headings) * kHeadingHeight +
           static_cast<double>(timeline_.rows.size()) * kRowPitch;
  }

  void add_heading(std::size_t cluster, double y) {
    const double rate = simulation_.clusters[cluster].passes_per_second;
    svg_.text({kTimelineMargin, y + 16},
              concat("Cluster ", cluster, ": ", format_fixed(rate, 2), " passes/s"),
              {.fill = kInk, .bold = true});
  }

  void add_row(const TimelineRow& row, double y) {
    const MachineRun& run = simulation_.clusters[row.cluster].machines[row.stage];
    const Machine& machine = plan_.pool[run.machine];
    svg_.begin_group(concat("node ", machine.id, ", ", machine.address, ": ", shares_text(run)));
    const std::string address = printable(machine.address);
    svg_.text({kTimelineMargin, y + 11}, shortened(address, kLongestAddress, {.unicode = true}),
              {.fill = kInk});
    svg_.text({kTimelineMargin, y + 25},
              concat("node ", machine.id, ", busy ", format_percent(run.busy())),
              {.size = 11, .fill = kDim});
    svg_.rect(box({0, timeline_.seconds}, y, kRowHeight), {.fill = kIdle});
    for (const Span& span : row.away) {
      add_hatching(box(span, y, kRowHeight));
    }
    for (const Block& block : row.blocks) {
      add_block(block, y);
    }
    for (const Span& span : row.averaging) {
      svg_.rect(box(span, y + kRowHeight + 1, kBarHeight), {.fill = kAveraging});
    }
    svg_.end_group();
  }

  void add_block(const Block& block, double y) {
    Box where = box(block.span, y + 3, kRowHeight - 6);
    const double middle = where.x + where.width / 2;
    const double end = where.x + where.width;
    const bool is_wide = where.width >= kNarrow;
    const std::string pass = std::to_string(block.pass);
    const double room = where.width - kDigitWidth * static_cast<double>(pass.size());
    where.width = std::max(where.width - kBetweenBlocks, kBetweenBlocks);
    svg_.rect(where, {.fill = colour_of(block.kind)});
    if (block.pass > 0 && room >= 3) {
      svg_.text({middle, y + 17}, pass, {.size = 10, .fill = kInk, .anchor = Anchor::kMiddle});
    }
    if (block.updates && is_wide) {
      add_update(end, y);
    }
  }

  void add_update(double x, double y) {
    svg_.rect({.x = x - 0.8, .y = y, .width = 1.6, .height = kRowHeight}, {.fill = kUpdate});
  }

  void add_hatching(const Box& where) {
    svg_.rect(where, {.fill = kIdle, .stroke = kAway});
    for (double x = where.x; x < where.x + where.width; x += kHatchPitch) {
      const double width = std::min(kHatchPitch / 2, where.x + where.width - x);
      svg_.rect({.x = x, .y = where.y, .width = width, .height = where.height}, {.fill = kAway});
    }
  }

  void add_axis(double top, double bottom) {
    const double step = tick_seconds(timeline_.seconds);
    const int digits = std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)));
    // Counted, not added up: steps like 0.1 do not sum exactly.
    for (int i = 0; i * step <= timeline_.seconds * (1 + 1e-9); ++i) {
      const double x = x_at(i * step);
      svg_.rect({.x = x, .y = top, .width = 1, .height = bottom - top + 5}, {.fill = kRule});
      svg_.text({x, bottom + 19}, format_fixed(i * step, digits) + " s",
                {.fill = kDim, .anchor = Anchor::kMiddle});
    }
    svg_.rect({.x = kPlotLeft, .y = bottom, .width = kPlotWidth, .height = 1}, {.fill = kRule});
  }

  void add_legend(double y) {
    double x = kPlotLeft;
    const auto name = [&](std::string_view text, double width) {
      svg_.text({x + 20, y}, text, {.fill = kDim});
      x += width;
    };
    const auto add = [&](std::string_view colour, std::string_view text, double width) {
      svg_.rect({.x = x, .y = y - 10, .width = 14, .height = 12}, {.fill = colour});
      name(text, width);
    };
    add(kForward, "forward, with its pass", 172);
    add(kBackward, "backward", 92);
    if (std::ranges::any_of(timeline_.rows, has_mixed)) {
      add(kMixed, "both, too short to draw", 164);
    }
    svg_.rect({.x = x + 6, .y = y - 11, .width = 1.6, .height = 14}, {.fill = kUpdate});
    name("update", 80);
    if (any_spans(&TimelineRow::averaging)) {
      add(kAveraging, "averaging", 92);
    }
    if (any_spans(&TimelineRow::away)) {
      add_hatching({.x = x, .y = y - 10, .width = 14, .height = 12});
      name("away", 60);
    }
  }

  void add_rest(double y) {
    std::size_t machines = 0;
    for (const ClusterRun& cluster : simulation_.clusters) {
      machines += cluster.machines.size();
    }
    const std::size_t rest = machines - timeline_.rows.size();
    if (rest > 0) {
      svg_.text({kPlotLeft + kPlotWidth, y},
                concat("and ", rest, rest == 1 ? " machine more" : " machines more"),
                {.fill = kDim, .anchor = Anchor::kEnd});
    }
  }

  bool any_spans(std::vector<Span> TimelineRow::* spans) const {
    return std::ranges::any_of(timeline_.rows,
                               [&](const TimelineRow& row) { return !(row.*spans).empty(); });
  }

  double x_at(double seconds) const { return kPlotLeft + kPlotWidth * seconds / timeline_.seconds; }

  Box box(const Span& span, double y, double height) const {
    const double x = x_at(span.from);
    return {.x = x, .y = y, .width = x_at(span.to) - x, .height = height};
  }

  const Plan& plan_;
  const Simulation& simulation_;
  const Timeline& timeline_;
  Svg svg_;
};

}  // namespace

void add_block(TimelineRow& row, Block block, double window) {
  if (block.span.from >= window) {
    return;
  }
  block.updates = block.updates && block.span.to <= window;
  block.span.to = std::min(block.span.to, window);
  const double pixel = window / kPlotWidth;
  const auto is_narrow = [&](const Block& one) {
    return one.kind == BlockKind::kMixed || one.span.to - one.span.from < kNarrow * pixel;
  };
  if (!row.blocks.empty() && is_narrow(block)) {
    Block& last = row.blocks.back();
    if (is_narrow(last) && block.span.from - last.span.to < pixel) {
      last = {.kind = BlockKind::kMixed, .span = {last.span.from, block.span.to}};
      return;
    }
  }
  row.blocks.push_back(block);
}

std::string timeline_svg(const Plan& plan, const Simulation& simulation) {
  if (!(simulation.timeline.seconds > 0)) {
    throw_invalid("[planner] expected a simulation with a timeline, got one without; ",
                  "set timeline_seconds.");
  }
  return TimelinePicture(plan, simulation).draw();
}

}  // namespace ravnest::planner
