#include "ravnest/engine/block_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <new>
#include <unordered_map>

namespace ravnest::engine {

namespace {

// Smaller ones are the heap's, which is good at them.
constexpr std::size_t kLeast = std::size_t{256} << 10;
constexpr std::size_t kStep = std::size_t{64} << 10;  // sizes are multiples of it
constexpr std::size_t kHugePage = std::size_t{2} << 20;
// A free block serves whoever wants at least so many eighths of it.
constexpr std::size_t kLeastEighths = 7;
// Free blocks are kept up to this part of those in use, and up to this many bytes anyway.
constexpr std::size_t kKeptPart = 16;
constexpr std::size_t kKeptAnyway = std::size_t{16} << 20;

std::size_t rounded(std::size_t nbytes) { return (nbytes + kStep - 1) / kStep * kStep; }

class Blocks {
 public:
  void* take(std::size_t wanted) {
    const std::size_t nbytes = rounded(wanted);
    {
      const std::lock_guard lock(mutex);
      const auto found = free_.lower_bound(nbytes);
      if (found != free_.end() && nbytes * 8 >= found->first * kLeastEighths) {
        void* const block = found->second->start;
        order_.erase(found->second);
        memory_.kept -= found->first;
        add_used(block, found->first);
        free_.erase(found);
        return block;
      }
    }
    void* const block = map(nbytes);
    const std::lock_guard lock(mutex);
    add_used(block, nbytes);
    return block;
  }

  // False: it is none of ours.
  bool give_back(void* block) {
    const std::lock_guard lock(mutex);
    const auto found = used_.find(block);
    if (found == used_.end()) {
      return false;
    }
    const std::size_t nbytes = found->second;
    used_.erase(found);
    memory_.in_use -= nbytes;
    memory_.kept += nbytes;
    order_.push_back({.start = block, .nbytes = nbytes});
    free_.emplace(nbytes, std::prev(order_.end()));
    trim();
    return true;
  }

  BlockMemory memory() {
    const std::lock_guard lock(mutex);
    return memory_;
  }

  std::mutex mutex;  // guards everything; held over a fork

 private:
  struct Block {
    void* start = nullptr;
    std::size_t nbytes = 0;
  };
  using Order = std::list<Block>;

  static void* map(std::size_t nbytes) {
    void* const block =
        ::mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) {
      throw std::bad_alloc();
    }
    if (nbytes >= kHugePage) {
      ::madvise(block, nbytes, MADV_HUGEPAGE);  // fewer faults, where the system has them
    }
    return block;
  }

  void add_used(void* block, std::size_t nbytes) {
    used_.emplace(block, nbytes);
    memory_.in_use += nbytes;
  }

  // Lets go of those that have waited longest.
  void trim() {
    const std::size_t limit = std::max(kKeptAnyway, memory_.in_use / kKeptPart);
    while (memory_.kept > limit) {
      const auto oldest = order_.begin();
      auto entry = free_.lower_bound(oldest->nbytes);
      while (entry->second != oldest) {
        ++entry;
      }
      free_.erase(entry);
      memory_.kept -= oldest->nbytes;
      ::munmap(oldest->start, oldest->nbytes);
      order_.erase(oldest);
    }
  }

  std::unordered_map<void*, std::size_t> used_;
  std::multimap<std::size_t, Order::iterator> free_;  // by size
  Order order_;                                       // the longest free first
  BlockMemory memory_;
};

// Never destroyed: tensors may outlive whatever ends at the end of the program.
Blocks& blocks() {
  static Blocks& all = *new Blocks();
  return all;
}

void give_back(void* block) {
  // Ours begin at a page, few of the heap's do.
  const bool may_be_ours = reinterpret_cast<std::uintptr_t>(block) % 4096 == 0;
  if (block != nullptr && !(may_be_ours && blocks().give_back(block))) {
    c10::free_cpu(block);
  }
}

class BlockAllocator : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t nbytes) override {
    void* const block = nbytes < kLeast ? c10::alloc_cpu(nbytes) : blocks().take(nbytes);
    return {block, block, &give_back, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    default_copy_data(to, from, count);
  }
};

}  // namespace

void use_block_allocator() {
  static std::once_flag once;
  std::call_once(once, [] {
    // A loader's worker is a fork, and may come while another thread holds the mutex.
    ::pthread_atfork([] { blocks().mutex.lock(); }, [] { blocks().mutex.unlock(); },
                     [] { blocks().mutex.unlock(); });
    c10::SetCPUAllocator(new BlockAllocator());  // for good
  });
}

BlockMemory block_memory() { return blocks().memory(); }

}  // namespace ravnest::engine
