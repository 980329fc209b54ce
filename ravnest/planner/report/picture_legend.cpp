#include "ravnest/planner/report/picture_legend.h"

#include <algorithm>

#include "ravnest/base/error.h"
#include "ravnest/base/table.h"

namespace ravnest::planner {

namespace {

constexpr double kIndent = 76;  // of what stands beside a heading
constexpr double kRingPitch = 22;
constexpr double kRingGap = 24;  // between two columns
constexpr std::size_t kLongestName = 64;
constexpr std::size_t kShownRings = 48;
constexpr double kSparePitch = 19;
constexpr std::size_t kShownSpares = 8;
constexpr double kLetterWidth = 6.6;  // of size 12, on the safe side

class Legends {
 public:
  Legends(Svg& svg, const Plan& plan, const Box& place)
      : svg_(svg), plan_(plan), place_(place), y_(place.y) {}

  double draw() {
    draw_memory();
    if (!plan_.rings.empty()) {
      draw_rings();
    }
    if (!plan_.spares.empty()) {
      draw_spares();
    }
    return y_;
  }

 private:
  void draw_heading(std::string_view name) {
    svg_.text({place_.x, y_ + 12}, name, {.size = 13, .fill = kInk, .bold = true});
  }

  void draw_memory() {
    draw_heading("Memory");
    double x = place_.x + kIndent;
    const auto add = [&](std::string_view name, const Shape& shape) {
      svg_.rect({x, y_ + 2, 12, 12}, shape);
      svg_.text({x + 17, y_ + 12}, name, {.size = 12, .fill = kInk});
      x += 36 + 6.4 * static_cast<double>(name.size());
    };
    for (const MemoryPart& part : kMemoryParts) {
      add(part.name, {.fill = part.colour});
    }
    add("RAM", {.fill = kRamFill, .stroke = kRamLine});
    y_ += 38;
  }

  void draw_rings() {
    draw_heading("Rings");
    svg_.text({place_.x + kIndent, y_ + 12},
              plan_.clusters.size() > 1
                  ? "ranges of parameters, by their first; the holders of one average it"
                  : "ranges of parameters, by their first",
              {.size = 12, .fill = kDim});
    y_ += 26;
    const double width = ring_width();
    const std::size_t shown = std::min(plan_.rings.size(), kShownRings);
    const auto columns =
        static_cast<std::size_t>(std::max((place_.width + kRingGap) / (width + kRingGap), 1.0));
    const std::size_t rows = (shown + columns - 1) / columns;
    for (std::size_t i = 0; i < shown; ++i) {
      const std::size_t column = i / rows;
      const std::size_t row = i % rows;
      draw_ring(plan_.rings[i], {place_.x + static_cast<double>(column) * (width + kRingGap),
                                 y_ + static_cast<double>(row) * kRingPitch, width, kBandHeight});
    }
    y_ += static_cast<double>(rows) * kRingPitch;
    draw_rest(place_.x, plan_.rings.size() - shown, "more ring");
    y_ += 14;
  }

  double ring_width() const {
    std::size_t longest = 16;
    for (std::size_t i = 0; i < std::min(plan_.rings.size(), kShownRings); ++i) {
      longest = std::max(longest, std::min(plan_.rings[i].parameters.at(0).size(), kLongestName));
    }
    return 38 + 6.7 * static_cast<double>(longest) + 72;
  }

  void draw_ring(const Ring& ring, const Box& box) {
    svg_.begin_group(concat("Ring ", ring.id, ": ", counted(ring.parameters.size(), "parameter"),
                            " from ", ring.parameters.at(0), " to ", ring.parameters.back()));
    svg_.rect({box.x, box.y, 30, box.height}, {.fill = ring_colour(plan_, ring)});
    svg_.text({box.x + 15, box.y + 12}, std::to_string(ring.id),
              {.size = 10, .fill = kPaper, .anchor = Anchor::kMiddle, .bold = true});
    svg_.text({box.x + 38, box.y + 12}, cut_to(ring.parameters.at(0), kLongestName),
              {.size = 11, .fill = kInk, .fixed_width = true});
    svg_.text({box.x + box.width, box.y + 12}, format_bytes(ring.nbytes),
              {.size = 11, .fill = kDim, .anchor = Anchor::kEnd});
    svg_.end_group();
  }

  void draw_spares() {
    draw_heading("Spare");
    const std::size_t shown = std::min(plan_.spares.size(), kShownSpares);
    const auto room = static_cast<std::size_t>((place_.width - kIndent) / kLetterWidth);
    for (std::size_t i = 0; i < shown; ++i) {
      const Machine& machine = plan_.pool[plan_.spares[i].machine];
      const std::string line =
          concat("node ", machine.id, ", ", cut_to(machine.address, 30), ", ",
                 format_bytes(machine.ram_bytes()), ": ", plan_.spares[i].reason);
      svg_.text({place_.x + kIndent, y_ + 12}, cut_to(line, room), {.size = 12, .fill = kDim});
      y_ += kSparePitch;
    }
    draw_rest(place_.x + kIndent, plan_.spares.size() - shown, "more machine");
    y_ += 8;
  }

  void draw_rest(double x, std::size_t count, const std::string& noun) {
    if (count > 0) {
      svg_.text({x, y_ + 12}, concat("and ", counted(count, noun)),
                {.size = 12, .fill = kDim, .bold = true});
      y_ += kSparePitch;
    }
  }

  Svg& svg_;
  const Plan& plan_;
  const Box place_;
  double y_;
};

}  // namespace

std::string ring_colour(const Plan& plan, const Ring& ring) {
  return distinct_colour(static_cast<std::size_t>(&ring - plan.rings.data()));
}

std::string cut_to(std::string_view text, std::size_t characters) {
  return shortened(printable(text), characters, {.unicode = true});
}

std::string counted(std::size_t count, const std::string& noun) {
  return concat(count, " ", noun, count == 1 ? "" : "s");
}

double draw_legends(Svg& svg, const Plan& plan, const Box& place) {
  return Legends(svg, plan, place).draw();
}

}  // namespace ravnest::planner
