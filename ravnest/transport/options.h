#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "ravnest/transport/limits.h"
#include "ravnest/transport/peer.h"

namespace ravnest::transport {

using Milliseconds = std::chrono::milliseconds;
using TimePoint = std::chrono::steady_clock::time_point;

// Longer than anybody waits.
inline constexpr Milliseconds kForEver = std::chrono::hours(24 * 365);

// So much later; `pause` may be as long as the type allows.
inline TimePoint after(TimePoint start, Milliseconds pause) {
  return start + std::min(pause, kForEver);
}
inline TimePoint deadline_in(Milliseconds timeout) {
  return after(std::chrono::steady_clock::now(), timeout);
}

// How much may be on its way to a consumer that has not taken it. A single message may be larger
// than `nbytes`; it then travels alone.
struct Window {
  std::size_t messages = 8;
  std::size_t nbytes = std::size_t{256} << 20;
};

struct Timeouts {
  Milliseconds heartbeat{1000};
  // Nothing heard for so long, by our own clock: the peer is lost.
  Milliseconds lost_after{5000};
  // From a new connection to its hello, and from a hello to its answer.
  Milliseconds handshake{3000};
  // Between attempts to connect: doubling from the first to the longest, half of it at random.
  Milliseconds first_backoff{50};
  Milliseconds longest_backoff{500};
  // A lost peer that is not back by then fails whoever waits for it.
  Milliseconds return_within{60'000};
  // A peer that was never there fails whoever waits by then; empty: it may take for ever.
  std::optional<Milliseconds> start_within;
  // A peer that refuses us (other plan, other version) may be the last run's, about to end.
  Milliseconds refused_patience{3000};
  // Between notices while waiting.
  Milliseconds progress{1000};
};

// What happened to a channel.
enum class NoticeKind : std::uint8_t {
  kWaiting,  // for a peer that was never there yet; again at every Timeouts::progress
  kOpen,     // connected, for the first time or again
  kLost,     // the peer died or fell silent; again at every Timeouts::progress
  kClosed,   // the peer, or we, said goodbye
  kFailed,   // for good; whoever waits gets the error
  kRefused,  // somebody wanted to connect and was turned away
  kNews,     // of no channel: something that is good to know
  kWarning,  // of no channel: something that went wrong
};

struct Notice {
  NoticeKind kind = NoticeKind::kWaiting;
  std::string peer;
  std::string channel;
  std::string obstacle;  // why our last try to connect failed; empty: there was none
  std::string text;      // a sentence for people: "node_0 waits for node_1 at 10.0.0.2:8081 (12 s)"
};

struct TransportOptions {
  std::string name;  // of this node
  std::string plan;  // its id; peers of another plan are refused
  // With credentials: the members of the plan; others are refused, and so is a member that bears
  // another's name. Without credentials it must be empty.
  Members members;
  Limits limits;
  Window window;
  Timeouts timeouts;
  std::size_t largest_chunk = std::size_t{512} << 10;  // of tensors, in one frame
  // Called on a thread that has nothing else to do, one after the other. Whoever ends the transport
  // waits for the last.
  std::function<void(const Notice&)> on_notice;
  // Asked before every heartbeat: false withholds it, so that a node whose compute loop hangs is
  // found although its process lives. On the loop thread.
  std::function<bool()> is_alive;
  // The clock behind all Timeouts. (Deadlines of blocking calls are real time.)
  std::function<TimePoint()> now = [] { return std::chrono::steady_clock::now(); };
  std::uint64_t seed = 0;  // of the jitter; 0: drawn
};

}  // namespace ravnest::transport
