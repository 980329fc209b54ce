#include "ravnest/agent/process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <vector>

#include "tests/base/temporary_folder.h"

namespace ravnest::agent {
namespace {

TEST(Process, ItsEffortGrowsAsItTouchesMemory) {
  const std::int64_t before = effort_of(::getpid());
  EXPECT_GT(before, 0);
  const std::vector<char> touched(10'000'000, 'x');
  EXPECT_GT(effort_of(::getpid()), before) << touched.size();
}

TEST(Process, ItsMemoryIsWhatNobodyElseHas) {
  const std::int64_t before = memory_of(::getpid());
  const std::vector<char> touched(50'000'000, 'x');
  EXPECT_GE(memory_of(::getpid()), before + 40'000'000) << touched.size();
}

TEST(Process, OneThatIsGoneHasNothing) {
  EXPECT_EQ(effort_of(999'999'999), 0);
  EXPECT_EQ(memory_of(999'999'999), 0);
}

TEST(Process, AFoldersSizeIsThatOfAllItsFiles) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "below");
  std::ofstream(folder.path() / "a") << "12345";
  std::ofstream(folder.path() / "below" / "b") << "678";
  EXPECT_EQ(size_of_tree(folder.path()), 8);
  EXPECT_EQ(size_of_tree(folder.path() / "nowhere"), 0);
}

}  // namespace
}  // namespace ravnest::agent
