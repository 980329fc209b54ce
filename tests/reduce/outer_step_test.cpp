#include "ravnest/reduce/outer_step.h"

#include <gtest/gtest.h>

namespace ravnest::reduce {
namespace {

TEST(OuterStep, OfTheMeanLeavesItAlone) {
  OuterStep step({}, 2);
  const std::vector<float> base{1.0F, 2.0F};
  std::vector<float> mean{3.0F, 4.0F};
  step.apply(base, mean);
  EXPECT_EQ(mean, (std::vector<float>{3.0F, 4.0F}));
}

TEST(OuterStep, OfNesterovIsThatOfGradientDescent) {
  OuterStep step({.is_nesterov = true, .rate = 0.5, .momentum = 0.5}, 1);
  std::vector<float> mean{2.0F};
  step.apply(std::vector<float>{1.0F}, mean);  // gradient -1, momentum -1
  EXPECT_FLOAT_EQ(mean[0], 1.75F);
  const std::vector<float> base = mean;
  mean = {2.75F};
  step.apply(base, mean);  // gradient -1, momentum -1.5
  EXPECT_FLOAT_EQ(mean[0], 2.625F);
}

TEST(OuterStep, GoesOnElsewhereWithTheSameMomentum) {
  const OuterOptions options{.is_nesterov = true, .rate = 0.5, .momentum = 0.5};
  OuterStep one(options, 1);
  std::vector<float> mean{2.0F};
  one.apply(std::vector<float>{1.0F}, mean);
  OuterStep other(options, 1);
  other.set_momentum(one.momentum());
  std::vector<float> first{2.75F};
  std::vector<float> second = first;
  one.apply(mean, first);
  other.apply(mean, second);
  EXPECT_EQ(first, second);
  EXPECT_FLOAT_EQ(first[0], 2.625F);
}

}  // namespace
}  // namespace ravnest::reduce
