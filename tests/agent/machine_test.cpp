#include "ravnest/agent/machine.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/base/temporary_folder.h"

namespace ravnest::agent {
namespace {

// A machine with 8 GB free, and what control groups say.
class FakeMachine : public testing::Test {
 protected:
  FakeMachine() {
    write("proc/meminfo", "MemTotal:       16000000 kB\nMemAvailable:    7812500 kB\n");
  }
  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((root_.path() / name).parent_path());
    std::ofstream(root_.path() / name) << text;
  }
  void group(const std::string& path) { write("proc/self/cgroup", "0::" + path + "\n"); }
  void limit(const std::string& path, const std::string& file, const std::string& text) {
    write("sys/fs/cgroup" + path + "/" + file, text + "\n");
  }
  double ram_gb() const { return look_at_machine(root_.path()).ram_gb; }
  std::int64_t threads() const { return look_at_machine(root_.path()).threads; }

  TemporaryFolder root_;
};

TEST_F(FakeMachine, HasWhatIsFreeWhereNobodyLimitsIt) {
  EXPECT_DOUBLE_EQ(ram_gb(), 8.0);
  EXPECT_GE(threads(), 1);
  group("/");
  limit("", "memory.max", "max");
  limit("", "cpu.max", "max 100000");
  EXPECT_DOUBLE_EQ(ram_gb(), 8.0);
}

TEST_F(FakeMachine, AContainerHasWhatItIsLent) {
  group("/box");
  limit("/box", "memory.max", "3000000000");
  EXPECT_DOUBLE_EQ(ram_gb(), 3.0);
  limit("/box", "memory.current", "1000000000");
  EXPECT_DOUBLE_EQ(ram_gb(), 2.0);
  limit("/box", "cpu.max", "100000 100000");
  EXPECT_EQ(threads(), 1);
  limit("/box", "cpu.max", "20000 100000");
  EXPECT_EQ(threads(), 1);
}

// What a container has read from files counts as used, and is free.
TEST_F(FakeMachine, CopiesOfFilesAreFree) {
  group("/box");
  limit("/box", "memory.max", "3000000000");
  limit("/box", "memory.current", "2900000000");
  limit("/box", "memory.stat", "anon 400000000\nactive_file 0\ninactive_file 2500000000");
  EXPECT_DOUBLE_EQ(ram_gb(), 2.6);
  limit("/box", "memory.stat", "inactive_file 9000000000");
  EXPECT_DOUBLE_EQ(ram_gb(), 3.0);
}

TEST_F(FakeMachine, TheTightestLimitOnTheWayCounts) {
  group("/pod/box");
  limit("/pod/box", "memory.max", "5000000000");
  limit("/pod", "memory.max", "4000000000");
  limit("", "memory.max", "6000000000");
  EXPECT_DOUBLE_EQ(ram_gb(), 4.0);
  limit("/pod", "memory.current", "4500000000");
  EXPECT_DOUBLE_EQ(ram_gb(), 0.0);
}

TEST_F(FakeMachine, OddFilesAreNoLimit) {
  group("/box");
  limit("/box", "memory.max", "");
  limit("/box", "cpu.max", "100000 0");
  EXPECT_DOUBLE_EQ(ram_gb(), 8.0);
  limit("/box", "cpu.max", "many");
  EXPECT_GE(threads(), 1);
  write("proc/meminfo", "nothing");
  EXPECT_DOUBLE_EQ(ram_gb(), 0.0);
}

TEST(Machine, ThisOneHasMemoryAndCores) {
  EXPECT_GT(look_at_machine().ram_gb, 0.0);
  EXPECT_GE(look_at_machine().threads, 1);
  EXPECT_EQ(find_program("no-such-program"), "no-such-program");
  EXPECT_TRUE(find_program("agent_test").is_absolute());
}

}  // namespace
}  // namespace ravnest::agent
