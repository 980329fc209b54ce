#include "ravnest/engine/optim/scheduler.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace ravnest::engine {
namespace {

std::vector<double> rates(Scheduler scheduler, int steps) {
  std::vector<double> found = {scheduler.rate()};
  for (int i = 0; i < steps; ++i) {
    scheduler.step();
    found.push_back(scheduler.rate());
  }
  return found;
}

void expect_near(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], 1e-12) << "step " << i;
  }
}

TEST(Scheduler, FallsInSteps) {
  const Scheduler scheduler("StepLR", {{"step_size", 2.0}, {"gamma", 0.5}}, 1.0);
  expect_near(rates(scheduler, 5), {1.0, 1.0, 0.5, 0.5, 0.25, 0.25});
}

TEST(Scheduler, FallsAtMilestonesInAnyOrderAndTwiceAtDoubleOnes) {
  const OptionMap options = {{"milestones", std::vector<double>{4, 1, 4}}, {"gamma", 0.5}};
  expect_near(rates({"MultiStepLR", options, 8.0}, 4), {8.0, 4.0, 4.0, 4.0, 1.0});
}

TEST(Scheduler, FallsExponentially) {
  expect_near(rates({"ExponentialLR", {{"gamma", 0.1}}, 1.0}, 3), {1.0, 0.1, 0.01, 0.001});
}

TEST(Scheduler, FollowsACosineDownAndUpAgain) {
  const OptionMap options = {{"T_max", 2.0}, {"eta_min", 1.0}};
  expect_near(rates({"CosineAnnealingLR", options, 3.0}, 4), {3.0, 2.0, 1.0, 2.0, 3.0});
}

TEST(Scheduler, WarmsUpLinearlyAndStaysThere) {
  const OptionMap options = {{"start_factor", 0.5}, {"total_iters", 2.0}};
  expect_near(rates({"LinearLR", options, 4.0}, 3), {2.0, 3.0, 4.0, 4.0});
}

TEST(Scheduler, OneCycleMovesMomentumAgainstTheRate) {
  OptionMap options = {{"max_lr", 1.0}, {"total_steps", 5.0}, {"pct_start", 0.6}};
  Scheduler scheduler("OneCycleLR", options, 123.0);
  EXPECT_NEAR(scheduler.rate(), 1.0 / 25.0, 1e-12);
  EXPECT_NEAR(scheduler.momentum().value(), 0.95, 1e-12);
  scheduler.step();
  scheduler.step();
  EXPECT_NEAR(scheduler.rate(), 1.0, 1e-12);
  EXPECT_NEAR(scheduler.momentum().value(), 0.85, 1e-12);
  scheduler.step();
  scheduler.step();
  EXPECT_NEAR(scheduler.rate(), 1.0 / 25.0 / 1e4, 1e-12);
  EXPECT_NEAR(scheduler.momentum().value(), 0.95, 1e-12);
  options["cycle_momentum"] = false;
  EXPECT_FALSE(Scheduler("OneCycleLR", options, 1.0).momentum());
}

TEST(Scheduler, OneCycleEnds) {
  Scheduler scheduler("OneCycleLR", {{"max_lr", 1.0}, {"total_steps", 2.0}}, 1.0);
  scheduler.step();
  scheduler.step();
  const double last = scheduler.rate();
  EXPECT_THROW(scheduler.step(), std::invalid_argument);
  EXPECT_EQ(scheduler.state(), 2);
  EXPECT_EQ(scheduler.rate(), last);
}

TEST(Scheduler, IsAValueWhoseStateIsItsSteps) {
  Scheduler scheduler("StepLR", {{"step_size", 3.0}}, 1.0);
  const Scheduler start = scheduler;
  scheduler.load_state(7);
  EXPECT_NEAR(scheduler.rate(), 0.01, 1e-12);
  EXPECT_EQ(scheduler.state(), 7);
  EXPECT_EQ(start.rate(), 1.0);
  EXPECT_THROW(scheduler.load_state(-1), std::invalid_argument);
}

}  // namespace
}  // namespace ravnest::engine
