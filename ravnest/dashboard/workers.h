#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace ravnest::dashboard {

// Serves connections on at most so many threads, which are started when they are needed. Owns the
// descriptors; those beyond the threads wait. Who hands them in bounds how many there are.
class Workers {
 public:
  Workers(std::size_t most, std::function<void(int descriptor)> serve);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  void take(int descriptor);
  // Breaks all connections off, and waits for the threads.
  void stop();

 private:
  void run();

  const std::size_t most_;
  const std::function<void(int)> serve_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_stopping_ = false;
  std::size_t idle_ = 0;
  std::deque<int> waiting_;
  std::set<int> served_;
  std::vector<std::jthread> threads_;
};

}  // namespace ravnest::dashboard
