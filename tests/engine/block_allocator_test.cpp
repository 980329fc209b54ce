#include "ravnest/engine/block_allocator.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

namespace ravnest::engine {
namespace {

constexpr std::int64_t kMegabyte = std::int64_t{1} << 20;

at::Tensor make(std::int64_t nbytes) { return at::empty({nbytes}, at::kByte); }

TEST(BlockAllocator, CountsLargeBlocksAndKeepsFewThatAreFree) {
  use_block_allocator();
  const BlockMemory before = block_memory();
  {
    std::vector<at::Tensor> tensors;
    for (std::int64_t i = 0; i < 50; ++i) {
      tensors.push_back(make(4 * kMegabyte + i * 100'000));
    }
    EXPECT_GE(block_memory().in_use, before.in_use + 200 * kMegabyte);
    EXPECT_LE(block_memory().in_use, before.in_use + 330 * kMegabyte);
  }
  EXPECT_EQ(block_memory().in_use, before.in_use);
  EXPECT_LE(block_memory().kept, std::size_t{32} << 20);
}

TEST(BlockAllocator, UsesAFreeBlockAgain) {
  use_block_allocator();
  const void* first = nullptr;
  {
    const at::Tensor tensor = make(5 * kMegabyte);
    first = tensor.data_ptr();
  }
  const at::Tensor larger = make(8 * kMegabyte);
  EXPECT_NE(larger.data_ptr(), first);
  const at::Tensor smaller = make(2 * kMegabyte);
  EXPECT_NE(smaller.data_ptr(), first) << "too much of it would lie idle";
  const at::Tensor again = make(5 * kMegabyte - 1000);
  EXPECT_EQ(again.data_ptr(), first);
}

TEST(BlockAllocator, LeavesSmallOnesToTheHeap) {
  use_block_allocator();
  const BlockMemory before = block_memory();
  const at::Tensor small = make(1000);
  const at::Tensor none = at::empty({0});
  EXPECT_EQ(block_memory().in_use, before.in_use);
}

TEST(BlockAllocator, HoldsWhatIsWritten) {
  use_block_allocator();
  std::vector<at::Tensor> tensors;
  for (std::int64_t round = 0; round < 200; ++round) {
    tensors.push_back(at::full({kMegabyte + round % 7 * 1000}, round, at::kInt));
    if (tensors.size() > 10) {
      const auto victim = tensors.begin() + round % 10;
      EXPECT_TRUE((*victim == (*victim)[0]).all().item<bool>());
      tensors.erase(victim);
    }
  }
}

TEST(BlockAllocator, MayBeFreedOnOtherThreads) {
  use_block_allocator();
  const BlockMemory before = block_memory();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int round = 0; round < 200; ++round) {
        at::Tensor tensor = make(kMegabyte);
        std::thread([given = std::move(tensor)]() mutable { given.reset(); }).join();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(block_memory().in_use, before.in_use);
}

TEST(BlockAllocator, WorksInAForkMadeWhileOthersAllocate) {
  use_block_allocator();
  std::jthread busy([](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      make(kMegabyte);
    }
  });
  for (int i = 0; i < 50; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);  // a child that hangs is ended by it
      make(kMegabyte);
      ::_exit(0);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
}

}  // namespace
}  // namespace ravnest::engine
