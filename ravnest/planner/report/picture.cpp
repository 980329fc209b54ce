#include "ravnest/planner/report/picture.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "ravnest/base/error.h"
#include "ravnest/base/table.h"
#include "ravnest/planner/report/picture_legend.h"
#include "ravnest/planner/report/report.h"
#include "ravnest/planner/report/svg.h"

namespace ravnest::planner {

namespace {

constexpr std::string_view kAlarm = "#c2334d";
constexpr double kMargin = 28;
constexpr double kTop = 110;         // where the first cluster begins
constexpr double kLabelWidth = 138;  // left of the stages
constexpr double kCardWidth = 188;
constexpr double kCardHeight = 266;
constexpr double kInset = 12;  // from a card's edge to what is in it
constexpr double kInner = kCardWidth - 2 * kInset;
constexpr double kGap = 104;  // between two cards: the link
constexpr double kClusterPitch = kCardHeight + 34;
constexpr double kTankTop = 112;  // in a card, where the largest RAM begins
constexpr double kTankHeight = 92;
constexpr double kBandTop = 236;
constexpr double kLinkY = 150;  // in a row, between the two arrows
constexpr double kLeastWidth = 790;
constexpr double kLeastSegment = 3;

std::string format_share(double share) {
  return share > 0 && share < 0.001 ? "< 0.1 %" : format_number(share * 100) + " %";
}

std::string format_mbps(double mbps) {
  return mbps >= 1000 ? format_number(mbps / 1000) + " Gbps" : format_number(mbps) + " Mbps";
}

class PlanPicture {
 public:
  explicit PlanPicture(const Plan& plan) : plan_(plan) {
    for (std::size_t c = 0; c < drawn_clusters(); ++c) {
      const auto& stages = plan.clusters[c].stages;
      columns_ = std::max(columns_, std::min(stages.size(), kDrawnStages));
      has_more_stages_ = has_more_stages_ || stages.size() > kDrawnStages;
      for (const Stage& stage : stages) {
        largest_ram_ = std::max(largest_ram_, plan.machine(stage).ram_gb);
      }
    }
  }

  std::string draw() {
    draw_title();
    double y = kTop;
    for (std::size_t c = 0; c < drawn_clusters(); ++c) {
      draw_cluster(c, y);
      y += kClusterPitch;
    }
    if (plan_.clusters.size() > drawn_clusters()) {
      svg_.text({kMargin, y + 4},
                concat("and ", counted(plan_.clusters.size() - drawn_clusters(), "more cluster")),
                {.size = 15, .fill = kDim, .bold = true});
      y += 34;
    }
    y = draw_legends(svg_, plan_, {kMargin, y, width() - 2 * kMargin, 0});
    return svg_.finish(width(), y + kMargin - 8, title(), kBackground);
  }

 private:
  std::size_t drawn_clusters() const { return std::min(plan_.clusters.size(), kDrawnClusters); }

  double width() const {
    const auto columns = static_cast<double>(columns_);
    const double rows = 2 * kMargin + kLabelWidth + columns * (kCardWidth + kGap) - kGap +
                        (has_more_stages_ ? kGap + 40 : 0);
    return std::max(rows, kLeastWidth);
  }

  std::string title() const {
    std::size_t machines = 0;
    for (const Cluster& cluster : plan_.clusters) {
      machines += cluster.stages.size();
    }
    return concat("Plan: ", counted(plan_.clusters.size(), "cluster"), ", ",
                  counted(machines, "machine"));
  }

  void draw_title() {
    svg_.text({kMargin, 42}, title(), {.size = 22, .fill = kInk, .bold = true});
    std::string facts = concat("The model takes ", format_bytes(plan_.model_bytes),
                               " to train with ", graph::name_of(plan_.optimizer));
    if (plan_.batch) {
      facts += concat(", batch ", *plan_.batch);
    }
    if (const auto samples = samples_per_second(plan_)) {
      facts += concat(". Expected: ", format_number(*samples), " samples/s");
    }
    svg_.text({kMargin, 64}, facts + ".", {.size = 13, .fill = kDim});
    const Lettering lettering{.size = 12, .fill = kDim};
    if (!plan_.costs_known) {
      svg_.text({kMargin, 82}, "Shapes were not captured: only parameters are counted.", lettering);
    } else if (!plan_.speeds_known) {
      svg_.text({kMargin, 82},
                "No machine gave its speed: RAM stands in for it, and times are guesses.",
                lettering);
    }
  }

  // Clusters -----------------------------------------------------------------------------

  void draw_cluster(std::size_t index, double y) {
    const Cluster& cluster = plan_.clusters[index];
    draw_label(index, y);
    const Slowest slowest = slowest_of(cluster);
    const std::size_t drawn = std::min(cluster.stages.size(), kDrawnStages);
    for (std::size_t k = 0; k < drawn; ++k) {
      const double x = column_x(k);
      draw_stage(index, k, {x, y}, slowest == Slowest{.stage = k, .is_link = false});
      if (k + 1 < drawn) {
        draw_link(cluster, k, {x + kCardWidth, y}, slowest == Slowest{.stage = k, .is_link = true});
      }
    }
    if (cluster.stages.size() > drawn) {
      const Point at{column_x(drawn) - kGap + 14, y + kLinkY};
      svg_.text(at, concat("and ", cluster.stages.size() - drawn, " more"),
                {.size = 13, .fill = kDim, .bold = true});
      svg_.text({at.x, at.y + 17}, "stages", {.size = 13, .fill = kDim, .bold = true});
      if (slowest.stage + (slowest.is_link ? 1 : 0) >= drawn) {
        draw_mark({at.x + 40, at.y - 28});
      }
    }
  }

  static double column_x(std::size_t stage) {
    return kMargin + kLabelWidth + static_cast<double>(stage) * (kCardWidth + kGap);
  }

  void draw_label(std::size_t index, double y) {
    const Cluster& cluster = plan_.clusters[index];
    svg_.text({kMargin, y + 22}, concat("Cluster ", index),
              {.size = 17, .fill = kInk, .bold = true});
    const Lettering lettering{.size = 12, .fill = kDim};
    svg_.text({kMargin, y + 43}, counted(cluster.stages.size(), "stage"), lettering);
    svg_.text({kMargin, y + 60}, "a pass every", lettering);
    svg_.text({kMargin, y + 76}, format_seconds(pass_seconds(plan_.pool, cluster)),
              {.size = 12, .fill = kInk, .bold = true});
    if (const auto samples = samples_per_second(plan_, cluster)) {
      svg_.text({kMargin, y + 93}, format_number(*samples) + " samples/s", lettering);
    }
  }

  // Stages -------------------------------------------------------------------------------

  void draw_stage(std::size_t cluster, std::size_t index, Point at, bool is_slowest) {
    const Stage& stage = plan_.clusters[cluster].stages[index];
    svg_.begin_group(details(cluster, index));
    svg_.rect({at.x, at.y, kCardWidth, kCardHeight}, {.fill = kPaper,
                                                      .stroke = is_slowest ? kAlarm : kRule,
                                                      .line = is_slowest ? 2.0 : 1.0,
                                                      .radius = 7});
    draw_heading(cluster, index, at);
    draw_figures(stage, at);
    draw_tank(stage, at);
    draw_band(cluster, index, at);
    if (is_slowest) {
      draw_mark({at.x + kCardWidth / 2, at.y});
    }
    svg_.end_group();
  }

  std::string details(std::size_t cluster, std::size_t index) const {
    const Stage& stage = plan_.clusters[cluster].stages[index];
    const Machine& machine = plan_.machine(stage);
    std::string text =
        concat("Node ", machine.id, " at ", machine.address, ": ops ", stage.first_op, " to ",
               stage.last_op, ", ", counted(stage.parameters.size(), "parameter"),
               stage.parameters.empty() ? "" : concat(" from ", stage.parameters[0]));
    for (const MemoryPart& part : kMemoryParts) {
      text += concat("; ", part.name, " ", format_bytes(stage.memory.*part.nbytes));
    }
    for (const std::string& copy : stage.copies) {
      text += concat("; copy of ", copy);
    }
    return text + concat("; delay ", stage.delay);
  }

  void draw_heading(std::size_t cluster, std::size_t index, Point at) {
    const Machine& machine = plan_.machine(plan_.clusters[cluster].stages[index]);
    const bool is_long = machine.address.size() > 22;
    svg_.text({at.x + kInset, at.y + 25}, cut_to(machine.address, is_long ? 27 : 22),
              {.size = is_long ? 10.0 : 12.0, .fill = kInk, .bold = true, .fixed_width = true});
    const std::string_view role = role_of(plan_.clusters[cluster], index);
    svg_.rect({at.x + kInset, at.y + 33, 38, 17}, {.fill = "#e3e8ef", .radius = 8.5});
    svg_.text({at.x + kInset + 19, at.y + 45.5}, role,
              {.size = 11, .fill = kInk, .anchor = Anchor::kMiddle});
    svg_.text({at.x + kCardWidth - kInset, at.y + 45.5}, concat("node ", machine.id),
              {.size = 11, .fill = kDim, .anchor = Anchor::kEnd});
  }

  void draw_figures(const Stage& stage, Point at) {
    const auto share = flops_share(plan_, stage);
    const std::array<std::pair<const char*, std::string>, 3> figures{{
        {"parameters", concat(format_grouped(static_cast<std::int64_t>(stage.parameters.size())),
                              " \u00b7 ", format_bytes(stage.parameter_bytes))},
        {"FLOPs", share ? format_share(*share) : "not known"},
        {"time of a pass", format_seconds(stage.compute_seconds())},
    }};
    double y = at.y + 68;
    for (const auto& [name, value] : figures) {
      svg_.text({at.x + kInset, y}, name, {.size = 11, .fill = kDim});
      svg_.text({at.x + kCardWidth - kInset, y}, value,
                {.size = 11, .fill = kInk, .anchor = Anchor::kEnd});
      y += 16;
    }
  }

  // The RAM of the machine as an outline on one scale for all, and what the stage takes of it.
  void draw_tank(const Stage& stage, Point at) {
    const double ram = plan_.machine(stage).ram_gb * 1e9;
    const auto needed = static_cast<double>(stage.memory.total());
    const double share = ram > 0 ? needed / ram : 1.0;
    const double height =
        std::max(kTankHeight * plan_.machine(stage).ram_gb / std::max(largest_ram_, 1e-9), 6.0);
    const double bottom = at.y + kTankTop + kTankHeight;
    const Box outline{at.x + kInset, bottom - height, kInner, height};
    svg_.rect(outline, {.fill = kRamFill});
    double y = bottom;
    for (const MemoryPart& part : kMemoryParts) {
      const double part_height = height * std::min(share, 1.0) *
                                 static_cast<double>(stage.memory.*part.nbytes) /
                                 std::max(needed, 1.0);
      y -= part_height;
      svg_.rect({outline.x, y, kInner, part_height}, {.fill = part.colour});
    }
    if (needed > 0 && bottom - y < 2) {  // so little that it could not be seen
      svg_.rect({outline.x, bottom - 2, kInner, 2}, {.fill = kMemoryParts[0].colour});
    }
    const bool is_over = share > 1;
    svg_.rect(outline, {.stroke = is_over ? kAlarm : kRamLine, .line = is_over ? 2.0 : 1.0});
    svg_.text({at.x + kInset, bottom + 18},
              concat(format_bytes(stage.memory.total()), " of ",
                     format_bytes(plan_.machine(stage).ram_bytes())),
              {.size = 11, .fill = is_over ? kAlarm : kInk});
    svg_.text({at.x + kCardWidth - kInset, bottom + 18}, format_share(share),
              {.size = 11, .fill = is_over ? kAlarm : kDim, .anchor = Anchor::kEnd});
  }

  void draw_band(std::size_t cluster, std::size_t index, Point at) {
    const auto rings = rings_of(plan_, cluster, index);
    const Box band{at.x + kInset, at.y + kBandTop, kInner, kBandHeight};
    if (rings.empty()) {
      svg_.rect(band, {.fill = kRamFill});
      svg_.text({band.x + kInner / 2, band.y + 12}, "no parameters",
                {.size = 10, .fill = kDim, .anchor = Anchor::kMiddle});
      return;
    }
    double total = 0.0;
    for (const Ring* ring : rings) {
      total += segment(*ring, rings.size());
    }
    double x = band.x;
    for (const Ring* ring : rings) {
      const double length = kInner * segment(*ring, rings.size()) / total;
      svg_.rect({x, band.y, length, kBandHeight},
                {.fill = ring_colour(plan_, *ring), .stroke = kPaper});
      const std::string id = std::to_string(ring->id);
      if (length >= 8.0 + 6.0 * static_cast<double>(id.size())) {
        svg_.text({x + length / 2, band.y + 12}, id,
                  {.size = 10, .fill = kPaper, .anchor = Anchor::kMiddle, .bold = true});
      }
      x += length;
    }
  }

  // The share of a ring in a band, none too narrow to be seen.
  double segment(const Ring& ring, std::size_t rings) const {
    double total = 0.0;
    for (const Ring& other : plan_.rings) {
      total += static_cast<double>(other.nbytes);
    }
    const double least = kLeastSegment / kInner / static_cast<double>(rings);
    return std::max(static_cast<double>(ring.nbytes) / std::max(total, 1.0), least);
  }

  // A label that something is what the cluster waits for, on a line at `at`.
  void draw_mark(Point at) {
    svg_.rect({at.x - 40, at.y - 9, 80, 18}, {.fill = kAlarm, .radius = 9});
    svg_.text({at.x, at.y + 4}, "bottleneck",
              {.size = 11, .fill = kPaper, .anchor = Anchor::kMiddle, .bold = true});
  }

  void draw_link(const Cluster& cluster, std::size_t index, Point at, bool is_slowest) {
    const Stage& stage = cluster.stages[index];
    const Machine& next = plan_.machine(cluster.stages[index + 1]);
    const Link link = link_between(plan_.machine(stage), next);
    const std::string_view colour = is_slowest ? kAlarm : kDim;
    const double middle = at.x + kGap / 2;
    const double y = at.y + kLinkY;
    const Lettering lettering{.size = 11, .fill = kInk, .anchor = Anchor::kMiddle};
    const Lettering dim{.size = 11, .fill = kDim, .anchor = Anchor::kMiddle};
    svg_.begin_group(concat("Link of ", format_mbps(link.mbps), " and ",
                            format_seconds(link.latency_ms / 1e3), " latency"));
    svg_.text({middle, y - 13}, format_bytes(stage.forward_bytes), lettering);
    svg_.arrow({at.x + 5, y - 7}, {at.x + kGap - 5, y - 7}, colour, is_slowest ? 2.5 : 1.5);
    svg_.arrow({at.x + kGap - 5, y + 7}, {at.x + 5, y + 7}, colour, is_slowest ? 2.5 : 1.5);
    svg_.text({middle, y + 22}, format_bytes(stage.backward_bytes), lettering);
    svg_.text({middle, y + 44}, format_mbps(link.mbps), dim);
    svg_.text({middle, y + 59}, format_seconds(stage.link_seconds), dim);
    if (is_slowest) {
      draw_mark({middle, y - 40});
    }
    svg_.end_group();
  }

  const Plan& plan_;
  Svg svg_;
  std::size_t columns_ = 1;
  bool has_more_stages_ = false;
  double largest_ram_ = 0.0;
};

}  // namespace

std::string plan_svg(const Plan& plan) { return PlanPicture(plan).draw(); }

}  // namespace ravnest::planner
