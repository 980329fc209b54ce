#include "ravnest/reduce/outer_step.h"

#include <gtest/gtest.h>

namespace ravnest::reduce {
namespace {

TEST(OuterStep, OfTheMeanLeavesItAlone) {
  OuterStep step({});
  const std::vector<float> base{1.0F, 2.0F};
  std::vector<float> mean{3.0F, 4.0F};
  step.apply(base, mean);
  EXPECT_EQ(mean, (std::vector<float>{3.0F, 4.0F}));
}

TEST(OuterStep, OfNesterovIsThatOfGradientDescent) {
  OuterStep step({.is_nesterov = true, .rate = 0.5, .momentum = 0.5});
  std::vector<float> mean{2.0F};
  step.apply(std::vector<float>{1.0F}, mean);  // gradient -1, momentum -1
  EXPECT_FLOAT_EQ(mean[0], 1.75F);
  const std::vector<float> base = mean;
  mean = {2.75F};
  step.apply(base, mean);  // gradient -1, momentum -1.5
  EXPECT_FLOAT_EQ(mean[0], 2.625F);
  step.reset();
  mean = {3.625F};
  step.apply(std::vector<float>{2.625F}, mean);
  EXPECT_FLOAT_EQ(mean[0], 3.375F);
}

}  // namespace
}  // namespace ravnest::reduce
