#include "ravnest/base/fault_point.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>

namespace ravnest {
namespace {

// An order in a file, and processes that have its descriptor.
class FaultPoint : public testing::Test {
 protected:
  FaultPoint() : descriptor_(::memfd_create("order", 0)) {
    EXPECT_EQ(::ftruncate(descriptor_, sizeof(FaultOrder)), 0);
    order_ = static_cast<FaultOrder*>(
        ::mmap(nullptr, sizeof(FaultOrder), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0));
  }
  ~FaultPoint() override {
    ::munmap(order_, sizeof(FaultOrder));
    ::close(descriptor_);
  }

  void give(const std::string& name, std::int32_t times) {
    std::ranges::copy(name, order_->name.begin());
    order_->left = times;
  }

  // The variable is looked at once in a process: each has its own.
  pid_t run(const std::string& variable, const std::function<int()>& work) const {
    const pid_t id = ::fork();
    if (id == 0) {
      ::setenv("RAVNEST_FAULT_POINTS", variable.c_str(), 1);
      ::_exit(work());
    }
    return id;
  }

  static int wait(pid_t id) {
    int status = 0;
    EXPECT_EQ(::waitpid(id, &status, WUNTRACED), id);
    return status;
  }

  FaultOrder* order_ = nullptr;
  int descriptor_;
};

TEST_F(FaultPoint, StopsTheProcessWhereItIsOrdered) {
  give("write", 3);
  const pid_t id = run(std::to_string(descriptor_), [] {
    for (int i = 0; i < 5; ++i) {
      fault_point("read");
      fault_point("write");
    }
    return 7;
  });
  const int stopped = wait(id);
  ASSERT_TRUE(WIFSTOPPED(stopped));
  EXPECT_EQ(order_->hit, id);
  EXPECT_EQ(order_->left, 0);
  ::kill(id, SIGCONT);
  const int ended = wait(id);
  EXPECT_TRUE(WIFEXITED(ended));
  EXPECT_EQ(WEXITSTATUS(ended), 7);
}

TEST_F(FaultPoint, DoesNothingWithoutAnOrder) {
  const int ended = wait(run(std::to_string(descriptor_), [] {
    fault_point("write");
    return 7;
  }));
  EXPECT_TRUE(WIFEXITED(ended));
  EXPECT_EQ(order_->hit, 0);
}

TEST_F(FaultPoint, RefusesWhatIsNoDescriptor) {
  const int ended = wait(run("over there", [] {
    try {
      fault_point("write");
    } catch (const std::invalid_argument&) {
      return 7;
    }
    return 0;
  }));
  EXPECT_EQ(WEXITSTATUS(ended), 7);
}

}  // namespace
}  // namespace ravnest
