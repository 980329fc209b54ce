#include "ravnest/planner/simulate/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "ravnest/planner/simulate/simulate.h"
#include "tests/planner/simulated_plan.h"

namespace ravnest::planner {
namespace {

// Tags open and close in order, and attributes have quoted values without '<'.
bool is_well_formed(const std::string& xml) {
  std::vector<std::string> open;
  for (std::size_t at = xml.find('<'); at != std::string::npos; at = xml.find('<', at + 1)) {
    const std::size_t end = xml.find('>', at);
    const std::string tag = xml.substr(at + 1, end - at - 1);
    if (end == std::string::npos || tag.empty() || tag.find('<') != std::string::npos ||
        std::count(tag.begin(), tag.end(), '"') % 2 != 0) {
      return false;
    }
    const std::string name = tag.substr(0, tag.find_first_of(" \n/", 1));
    if (tag.front() == '/') {
      if (open.empty() || "/" + open.back() != name) {
        return false;
      }
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
  }
  return open.empty();
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    ++found;
  }
  return found;
}

Plan three_stages() {
  const std::vector<Compute> stages(3, Compute{.forward = 0.1, .backward = 0.2});
  return make_pipelines({stages}, {});
}

TEST(Timeline, RecordsTheFillingOfThePipeline) {
  const Simulation found = simulate(three_stages(), {.seconds = 10, .timeline_seconds = 1});
  ASSERT_EQ(found.timeline.rows.size(), 3U);
  const TimelineRow& root = found.timeline.rows[0];
  ASSERT_GE(root.blocks.size(), 4U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(root.blocks[i].kind, BlockKind::kForward);
    EXPECT_EQ(root.blocks[i].pass, i + 1);
    EXPECT_NEAR(root.blocks[i].span.from, 0.1 * static_cast<double>(i), 1e-9);
  }
  EXPECT_EQ(root.blocks[3].kind, BlockKind::kBackward);
  EXPECT_EQ(root.blocks[3].pass, 1U);
  EXPECT_NEAR(root.blocks[3].span.from, 0.7, 1e-9);
  EXPECT_TRUE(root.blocks[3].updates);
  for (const TimelineRow& row : found.timeline.rows) {
    EXPECT_LE(row.blocks.back().span.to, 1.0);
  }
}

TEST(Timeline, GradientsGoFirst) {
  // At 0.6 s the root could begin its third pass, but the first one's gradient is there.
  const Plan plan = make_pipelines({{{0.3, 0.2}, {0.01, 0.01}, {0.01, 0.01}}}, {});
  const Simulation found = simulate(plan, {.seconds = 2, .timeline_seconds = 1});
  const TimelineRow& root = found.timeline.rows[0];
  ASSERT_GE(root.blocks.size(), 3U);
  EXPECT_EQ(root.blocks[1].kind, BlockKind::kForward);
  EXPECT_EQ(root.blocks[2].kind, BlockKind::kBackward);
  EXPECT_NEAR(root.blocks[2].span.from, 0.6, 1e-9);
}

TEST(Timeline, SyncUpdatesAfterTheLastMicroPass) {
  const Simulation found = simulate(
      three_stages(),
      {.seconds = 10, .schedule = Schedule::kSync, .micro_batches = 2, .timeline_seconds = 1});
  std::vector<bool> updates;
  for (const Block& block : found.timeline.rows[2].blocks) {
    if (block.kind == BlockKind::kBackward) {
      updates.push_back(block.updates);
    }
  }
  ASSERT_GE(updates.size(), 2U);
  EXPECT_FALSE(updates[0]);
  EXPECT_TRUE(updates[1]);
}

TEST(Timeline, LostPassesAppearAgain) {
  const Churn churn{.absences = {{.machine = 11, .from = 1, .to = 2}}};
  const Simulation found =
      simulate(three_stages(), {.seconds = 10, .churn = churn, .timeline_seconds = 4});
  ASSERT_EQ(found.timeline.rows[1].away.size(), 1U);
  EXPECT_TRUE(found.timeline.rows[0].away.empty());
  std::vector<std::uint64_t> forwards;
  for (const Block& block : found.timeline.rows[0].blocks) {
    EXPECT_FALSE(block.span.from >= 1 && block.span.from < 2);
    if (block.kind == BlockKind::kForward) {
      forwards.push_back(block.pass);
    }
  }
  // Pass 1 was back at 0.9 s; 2, 3 and 4 were in flight.
  EXPECT_EQ(std::vector<std::uint64_t>(forwards.begin(), forwards.begin() + 7),
            (std::vector<std::uint64_t>{1, 2, 3, 4, 2, 3, 4}));
}

TEST(Timeline, KeepsNarrowBlocksTogether) {
  const Plan plan = make_pipelines({{{0.0001, 0.0002}, {0.0001, 0.0002}}}, {});
  const Simulation found = simulate(plan, {.seconds = 20, .timeline_seconds = 20});
  for (const TimelineRow& row : found.timeline.rows) {
    ASSERT_EQ(row.blocks.size(), 1U);
    EXPECT_EQ(row.blocks[0].kind, BlockKind::kMixed);
    EXPECT_NEAR(row.blocks[0].span.to, 20, 1e-3);
  }
}

TEST(Timeline, AveragingFollowsItsUpdates) {
  const std::vector<Compute> stages(1, Compute{.forward = 0.1, .backward = 0.1});
  Plan plan = make_pipelines({stages, stages}, {.mbps = 80});
  plan.rings = {{.id = 0, .nbytes = 1'000'000, .holders = {0, 0}}};
  const Simulation found =
      simulate(plan, {.seconds = 20, .reduce_factor = 5, .timeline_seconds = 4});
  const TimelineRow& row = found.timeline.rows[0];
  ASSERT_EQ(row.averaging.size(), 3U);
  EXPECT_NEAR(row.averaging[0].from, 1, 1e-6);
  EXPECT_NEAR(row.averaging[0].to, 1.1, 1e-6);
  EXPECT_NEAR(row.averaging[2].from, 3, 1e-6);
}

TEST(Timeline, HoldersOfARingAverageTogether) {
  Plan plan = make_pipelines({{{0.1, 0.1}}, {{0.15, 0.15}}}, {.mbps = 80});
  plan.rings = {{.id = 0, .nbytes = 1'000'000, .holders = {0, 0}}};
  const Churn churn{.absences = {{.machine = 10, .from = 3.05, .to = 9}}};
  const Simulation found =
      simulate(plan, {.seconds = 30, .reduce_factor = 5, .churn = churn, .timeline_seconds = 6});
  const TimelineRow& fast = found.timeline.rows[0];
  const TimelineRow& slow = found.timeline.rows[1];
  ASSERT_EQ(fast.averaging.size(), 2U);
  ASSERT_EQ(slow.averaging.size(), 3U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(slow.averaging[i].from, 1.5 * static_cast<double>(i + 1), 1e-6);
    EXPECT_NEAR(fast.averaging[i].from, slow.averaging[i].from, 1e-6);
  }
  EXPECT_NEAR(slow.averaging[1].to, 3.1, 1e-6);
  EXPECT_NEAR(fast.averaging[1].to, 3.05, 1e-6);  // it left
}

TEST(Timeline, PictureIsWellFormedAndStandsAlone) {
  Plan plan = three_stages();
  plan.pool[1].address = "<script>&\"\x01\xff";
  const Churn churn{.absences = {{.machine = 12, .from = 2, .to = 3}}};
  const std::string svg =
      timeline_svg(plan, simulate(plan, {.seconds = 10, .churn = churn, .timeline_seconds = 5}));
  EXPECT_TRUE(is_well_formed(svg));
  EXPECT_EQ(svg.find("<script"), std::string::npos);
  EXPECT_NE(svg.find("&lt;script&gt;&amp;&quot;"), std::string::npos);
  EXPECT_EQ(count(svg, "http"), 1U);  // the name of the XML namespace
  EXPECT_EQ(svg.find("href"), std::string::npos);
  EXPECT_EQ(count(svg, "<g>"), 3U);
  EXPECT_NE(svg.find("samples/s"), std::string::npos);
}

TEST(Timeline, WellFormedCheckCanFail) {
  EXPECT_TRUE(is_well_formed("<a x=\"1\"><b/>text</a>"));
  EXPECT_FALSE(is_well_formed("<a><b></a>"));
  EXPECT_FALSE(is_well_formed("<a>1 < 2</a>"));
  EXPECT_FALSE(is_well_formed("<a x=\"><\"/>"));
}

TEST(Timeline, DrawsAFewMachinesAndCountsTheRest) {
  const std::vector<Compute> stages(5, Compute{.forward = 0.1, .backward = 0.2});
  const Plan many = make_pipelines({stages, stages, stages}, {});
  const std::string svg =
      timeline_svg(many, simulate(many, {.seconds = 10, .timeline_seconds = 2}));
  EXPECT_EQ(count(svg, "<g>"), 10U);
  EXPECT_NE(svg.find("and 5 machines more"), std::string::npos);
  const std::vector<Compute> long_row(20, Compute{.forward = 0.1, .backward = 0.2});
  const Plan one = make_pipelines({long_row}, {});
  const std::string cut = timeline_svg(one, simulate(one, {.seconds = 10, .timeline_seconds = 2}));
  EXPECT_EQ(count(cut, "<g>"), kTimelineRows);
  EXPECT_NE(cut.find("and 8 machines more"), std::string::npos);
}

TEST(Timeline, NeedsATimeline) {
  const Plan plan = three_stages();
  EXPECT_THROW(timeline_svg(plan, simulate(plan, {.seconds = 1})), std::invalid_argument);
}

}  // namespace
}  // namespace ravnest::planner
