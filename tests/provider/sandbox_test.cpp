#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/base/temporary_folder.h"

namespace ravnest::provider {

namespace {

TEST(Sandbox, LetsAModelTrain) {
  const TemporaryFolder folder;
  const std::string command = RAVNEST_SANDBOXED_TRAINING " " + folder.path().string();
  EXPECT_EQ(std::system(command.c_str()), 0);
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "weights"));
}

}  // namespace

}  // namespace ravnest::provider
