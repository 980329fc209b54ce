#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ravnest/reduce/contribution.h"
#include "ravnest/transport/transport.h"

namespace ravnest::reduce {

struct RingOptions;

// One all-reduce, as its participants know it.
struct Task {
  std::int64_t epoch = 0;
  std::int64_t round = 0;
  std::vector<std::size_t> participants;  // ranks, in order; ours is one of them
  std::size_t place = 0;                  // ours among them
  std::string text;                       // what the leader's Engine::text gave
  std::size_t largest_chunk = 0;          // bytes; 0: as the options say
};

struct Failure {
  std::size_t suspect = 0;   // rank; ours, and proven, where our own values are not finite
  std::size_t progress = 0;  // how much had come; who had least stood next to the culprit
  std::string why;           // "sent nothing for 5000 ms"
  bool is_proven = false;    // by what it sent; silence may have other causes
};

// What an engine tells its ring. Any thread; words about rounds that are over are ignored.
class EngineListener {
 public:
  virtual ~EngineListener() = default;
  // The result is there, for Engine::take.
  virtual void on_moved(std::int64_t round) = 0;
  virtual void on_failed(std::int64_t round, Failure failure) = 0;
  // Runs on the ring's thread, soon; not at all once the ring is stopped.
  virtual void post(std::function<void()> task) = 0;
};

// Moves the values of a round. The ring decides who takes part and whether the result counts; the
// engine only computes it, the same to the last bit for all. Called on the ring's thread; no call
// may block.
class Engine {
 public:
  virtual ~Engine() = default;

  // At the leader, when a round is about to move: a small text for all, such as an address.
  virtual std::string text(std::int64_t /*round*/) { return {}; }
  // At most one at a time: a result, a failure or abort() comes before the next.
  virtual void begin(const Task& task, Contribution contribution) = 0;
  virtual void abort() = 0;
  struct Result {
    Contribution contribution;
    std::size_t nbytes_sent = 0;
    std::vector<float> left_out;  // as in Average
  };
  // What on_moved told of; once, and when everyone has it.
  virtual Result take() = 0;
  // Does what is due, and says when it wants to be called next.
  virtual transport::TimePoint tick(transport::TimePoint now) = 0;
};

// The listener outlives the engine.
using MakeEngine = std::function<std::unique_ptr<Engine>(
    const RingOptions& options, transport::Transport& transport, EngineListener& listener)>;

// Over the transport: a ring of reduce-scatter and all-gather, or for Mean::kTrimmed a direct
// exchange and all-gather.
std::unique_ptr<Engine> make_wire_engine(const RingOptions& options,
                                         transport::Transport& transport, EngineListener& listener);

}  // namespace ravnest::reduce
