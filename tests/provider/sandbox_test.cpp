#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/base/temporary_folder.h"
#include "tests/transport/sanitizers.h"

namespace ravnest::provider {

namespace {

#if !RAVNEST_IS_SANITIZED  // a sanitizer takes more memory than a sandbox gives
TEST(Sandbox, LetsAModelTrain) {
  const TemporaryFolder folder;
  const std::string command = RAVNEST_SANDBOXED_TRAINING " " + folder.path().string();
  EXPECT_EQ(std::system(command.c_str()), 0);
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "weights"));
}
#endif

}  // namespace

}  // namespace ravnest::provider
