#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace ravnest {

// Calls work(i) for every i below `count`, on as many threads as there are cores, eight at most,
// and waits. Throws the first of what they threw; what had not begun by then is left out.
template <typename Work>
void in_parallel(std::size_t count, const Work& work) {
  const std::size_t cores = std::clamp(std::thread::hardware_concurrency(), 1U, 8U);
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;  // guards what follows
  std::exception_ptr error;
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        error = error ? error : std::current_exception();
        next = count;
      }
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t k = 1; k < std::min(cores, count); ++k) {
      others.emplace_back(run);
    }
    run();
  }
  if (error) {
    std::rethrow_exception(error);
  }
}

}  // namespace ravnest
