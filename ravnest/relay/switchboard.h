#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/relay/pipe.h"

namespace ravnest::relay {

class Call;

struct SwitchboardOptions {
  std::size_t calls = 1024;
  std::size_t calls_per_caller = 64;
  std::chrono::milliseconds answer_within{10'000};
};

// The server's part: a member calls another, which answers, and the two pipes are joined. Bytes go
// from one pipe's thread straight into the other pipe: nothing is stored, and a side that takes no
// more holds the other back. Who carries a pipe keeps it until its on_end has returned, and has
// proven who the member is. Any thread.
class Switchboard {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using MayConnect = std::function<bool(const std::string& from, const std::string& to)>;

  struct Placed {
    std::uint64_t id = 0;  // to be told to the one who is called
    PipeEvents events;     // of the caller's pipe
  };
  struct Traffic {
    std::string from;
    std::string to;
    std::uint64_t nbytes = 0;
  };

  explicit Switchboard(MayConnect may_connect, const SwitchboardOptions& options = {});
  // Ends all calls.
  ~Switchboard();
  Switchboard(const Switchboard&) = delete;
  Switchboard& operator=(const Switchboard&) = delete;

  // Throws std::invalid_argument where the call may not be, or there are too many.
  Placed call(const std::string& from, const std::string& to, std::shared_ptr<Pipe> pipe,
              TimePoint now);
  // The events of the answering pipe. Throws std::invalid_argument unless this member was called
  // by this id, has not answered yet, and the caller still waits.
  PipeEvents answer(std::uint64_t id, const std::string& member, std::shared_ptr<Pipe> pipe);

  // Ends calls that nobody answered in time, and those that may no longer be. Call it every second,
  // and when members change.
  void sweep(TimePoint now);
  // Ends the calls of a member that is gone for good, and drops what was counted of it.
  void forget(const std::string& member);

  // Calls that are under way, answered or not.
  std::size_t size() const;
  // Bytes since the start, by who sent them to whom.
  std::vector<Traffic> traffic() const;

 private:
  using Counter = std::shared_ptr<std::atomic<std::uint64_t>>;

  void drop_ended();
  Counter counter(const std::string& from, const std::string& to);

  const MayConnect may_connect_;
  const SwitchboardOptions options_;

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::uint64_t last_id_ = 0;
  std::map<std::uint64_t, std::shared_ptr<Call>> calls_;
  std::map<std::pair<std::string, std::string>, Counter> counters_;
};

}  // namespace ravnest::relay
