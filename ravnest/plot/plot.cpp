#include "ravnest/plot/plot.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "ravnest/base/atomic_file.h"
#include "ravnest/base/error.h"
#include "ravnest/base/table.h"
#include "ravnest/plot/canvas.h"
#include "ravnest/plot/panel.h"
#include "ravnest/plot/series.h"

namespace ravnest::plot {

namespace {

constexpr double kWidth = 960.0;
constexpr double kLeft = 76.0;
constexpr double kRight = 84.0;
constexpr double kTop = 70.0;         // of the title
constexpr double kAbovePanel = 40.0;  // its heading
constexpr double kBelowPanel = 58.0;  // its horizontal axis
constexpr double kBottom = 8.0;
constexpr double kTallPanel = 300.0;
constexpr double kFlatPanel = 190.0;

constexpr Colour kBackground{0xf7f8fb};
constexpr Colour kLoss{0x2559c0};
constexpr Colour kEachLoss{0x2559c0, 0.25};
constexpr Colour kAccuracy{0x0f8a5f};
constexpr Colour kAccuracyArea{0x0f8a5f, 0.07};

constexpr std::size_t kMostDots = 60;
constexpr double kLeastPercents = 1.0;  // shown of accuracies
constexpr std::size_t kSteps = 5;
// A curve of this many values or fewer is drawn as it is.
constexpr std::size_t kFewLosses = 20;
constexpr double kReaches = 80.0;       // of the smoothing, in a curve
constexpr std::size_t kMostTitle = 56;  // characters

// The place of the lowest (or highest) finite value; nothing where none is.
template <typename Better>
std::optional<std::size_t> find_best(const std::vector<double>& values, Better better) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i]) && (!best || better(values[i], values[*best]))) {
      best = i;
    }
  }
  return best;
}

std::optional<std::size_t> find_last(const std::vector<double>& values) {
  const auto found =
      std::find_if(values.rbegin(), values.rend(), [](double x) { return std::isfinite(x); });
  return found == values.rend() ? std::nullopt
                                : std::optional<std::size_t>(values.rend() - found - 1);
}

std::string count_text(std::size_t count) {
  return format_grouped(static_cast<std::int64_t>(count));
}

std::size_t count_gaps(const std::vector<double>& values) {
  return static_cast<std::size_t>(
      std::ranges::count_if(values, [](double x) { return !std::isfinite(x); }));
}

Range loss_range(const std::vector<double>& losses, const std::vector<double>& means) {
  Range range = shown_range(losses, means).value_or(Range());
  // From zero where that costs little room: what is left of the loss can then be seen.
  if (range.low > 0 && range.low < 0.35 * range.high) {
    range.low = 0;
  }
  return rounded(range, kSteps);
}

void draw_losses(Canvas& canvas, const Box& box, const std::vector<double>& losses) {
  const bool is_smoothed = losses.size() > kFewLosses;
  const std::vector<double> means =
      is_smoothed ? smoothed(losses, static_cast<double>(losses.size()) / kReaches) : losses;
  const auto last = find_last(means);
  const auto best = find_best(means, std::less());
  Panel panel(canvas, box, losses.size(), loss_range(losses, means));
  panel.draw_frame({.heading = "Loss",
                    .facts = last ? concat("last ", short_text(means[*last]), "  ·  lowest ",
                                           short_text(means[*best]), " at batch ",
                                           count_text(*best + 1), is_smoothed ? "  (smoothed)" : "")
                                  : "no finite value",
                    .x_label = "batch"});
  if (is_smoothed && last) {
    panel.draw_key("smoothed", kLoss, 2.4);
    panel.draw_key("each batch", kEachLoss, 1.6);
    panel.draw_line(losses, kEachLoss, 1.0);
  }
  panel.draw_line(means, kLoss, 2.4);
  panel.draw_gaps(losses);
  if (last) {
    panel.draw_end(means[*last], short_text(means[*last]), kLoss);
  }
}

void draw_accuracies(Canvas& canvas, const Box& box, const std::vector<double>& accuracies) {
  const auto last = find_last(accuracies);
  const auto best = find_best(accuracies, std::greater());
  Range range = shown_range(accuracies, accuracies).value_or(Range{0, 100});
  if (range.span() < kLeastPercents) {
    range = {.low = range.low - kLeastPercents / 2, .high = range.high + kLeastPercents / 2};
  }
  range = rounded(range, kSteps);
  range = {.low = std::max(range.low, 0.0), .high = std::min(range.high, 100.0)};
  Panel panel(canvas, box, accuracies.size(), range);
  const auto percent = [](double value) { return short_text(value) + " %"; };
  panel.draw_frame(
      {.heading = "Validation accuracy",
       .facts = last ? concat("last ", percent(accuracies[*last]), "  ·  best ",
                              percent(accuracies[*best]), " at evaluation ", count_text(*best + 1))
                     : "no finite value",
       .x_label = "evaluation",
       .unit = " %"});
  panel.draw_area(accuracies, kAccuracyArea);
  const bool with_dots = accuracies.size() <= kMostDots;
  panel.draw_line(accuracies, kAccuracy, with_dots ? 2.4 : 1.8);
  for (std::size_t i = 0; i < accuracies.size() && with_dots; ++i) {
    if (std::isfinite(accuracies[i])) {
      panel.draw_dot(i, accuracies[i], kAccuracy, 2.6);
    }
  }
  panel.draw_gaps(accuracies);
  if (last) {
    panel.draw_dot(*best, accuracies[*best], kAccuracy, 4.5);
    panel.draw_end(accuracies[*last], percent(accuracies[*last]), kAccuracy);
  }
}

void check_curves(const RunCurves& curves) {
  if (curves.losses.empty() && curves.accuracies.empty()) {
    throw_invalid("[plot] expected losses or accuracies to draw, got neither.");
  }
  for (std::size_t i = 0; i < curves.accuracies.size(); ++i) {
    if (curves.accuracies[i] < 0 || curves.accuracies[i] > 100) {
      throw_invalid("[plot] expected accuracies from 0 to 100 percent, got ", curves.accuracies[i],
                    " as number ", i + 1, ".");
    }
  }
}

std::string gaps_text(const RunCurves& curves) {
  const auto describe = [](const std::vector<double>& values, const char* what) {
    const std::size_t gaps = count_gaps(values);
    return gaps == 0 ? std::string()
                     : concat(count_text(gaps), " of ", count_text(values.size()), " ", what,
                              gaps == 1 ? " is" : " are", " not finite");
  };
  const std::string losses = describe(curves.losses, "losses");
  const std::string accuracies = describe(curves.accuracies, "accuracies");
  return losses + (losses.empty() || accuracies.empty() ? "" : ", ") + accuracies;
}

}  // namespace

void plot_run(const RunCurves& curves, const std::filesystem::path& path) {
  const PictureFormat format = format_of(path);
  check_curves(curves);
  const bool both = !curves.losses.empty() && !curves.accuracies.empty();
  const double panel = both ? kTallPanel + kFlatPanel + kAbovePanel + kBelowPanel : kTallPanel;
  const double height = kTop + kAbovePanel + panel + kBelowPanel + kBottom;
  Canvas canvas(kWidth, height, format);
  canvas.fill({0, 0, kWidth, height}, kBackground);
  canvas.text({kLeft, 44}, shortened(printable(curves.title), kMostTitle, {.unicode = true}),
              {.size = 21, .colour = {kInk}, .bold = true});
  canvas.text({kLeft, 64}, gaps_text(curves), {.size = 13, .colour = {kWarning}, .bold = true});
  Box box{kLeft, kTop + kAbovePanel, kWidth - kLeft - kRight, kTallPanel};
  if (!curves.losses.empty()) {
    draw_losses(canvas, box, curves.losses);
    box.y += kTallPanel + kBelowPanel + kAbovePanel;
    box.height = kFlatPanel;
  }
  if (!curves.accuracies.empty()) {
    draw_accuracies(canvas, box, curves.accuracies);
  }
  AtomicFile file(path);
  file.write(canvas.finish());
  file.commit();
}

}  // namespace ravnest::plot
