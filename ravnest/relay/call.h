#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "ravnest/relay/pipe.h"

namespace ravnest::relay {

enum class Side : std::uint8_t { kCaller, kCalled };

struct CallFacts {
  std::string from;
  std::string to;
  std::chrono::steady_clock::time_point answer_by;
  // Bytes from the caller, and from the called.
  std::array<std::shared_ptr<std::atomic<std::uint64_t>>, 2> counters;
};

// Two pipes that belong together, the second of which comes later. Any thread.
class Call {
 public:
  Call(CallFacts facts, std::shared_ptr<Pipe> caller);

  const CallFacts& facts() const { return facts_; }
  // False where there is an answer already, or the call has ended.
  bool answer(std::shared_ptr<Pipe> called);
  bool is_answered() const;
  bool has_ended() const;

  // Brings bytes that came from one side to the other, and waits for the other to be there.
  void carry(Side from, std::span<const std::byte> bytes);
  // Closes both pipes, and lets them go.
  void end();

 private:
  using Pipes = std::array<std::shared_ptr<Pipe>, 2>;

  // Nothing once the call has ended.
  std::shared_ptr<Pipe> wait_for(Side side);

  const CallFacts facts_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  bool has_ended_ = false;
  Pipes pipes_;
};

// What a pipe of this side does with what comes.
PipeEvents events_of(const std::shared_ptr<Call>& call, Side side);

}  // namespace ravnest::relay
