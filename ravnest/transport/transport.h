#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/transport/message.h"
#include "ravnest/transport/options.h"
#include "ravnest/transport/peer.h"

namespace ravnest::transport {

enum class Phase : std::uint8_t {
  kWaiting,  // the peer was never there yet
  kOpen,
  kLost,    // it was there, and may come back
  kClosed,  // one side said goodbye
  kFailed,  // for good; the error says why
};

struct ChannelState {
  Phase phase = Phase::kWaiting;
  Milliseconds since{0};         // spent in this phase
  std::string text;              // "node_0 waits for node_1 at 10.0.0.2:8081 (12 s)"
  std::uint64_t messages = 0;    // sent, or delivered
  std::uint64_t resent = 0;      // written again after a reconnect
  std::uint64_t duplicates = 0;  // received again, and dropped
};

// One message's place in the window. The sender gets it back when this is released or destroyed:
// when the consumer has really taken the message. Any thread.
class Credit {
 public:
  Credit() = default;
  explicit Credit(std::function<void()> give_back) : give_back_(std::move(give_back)) {}
  ~Credit() { release(); }
  Credit(Credit&& other) noexcept : give_back_(std::exchange(other.give_back_, nullptr)) {}
  Credit& operator=(Credit&& other) noexcept {
    release();
    give_back_ = std::exchange(other.give_back_, nullptr);
    return *this;
  }

  void release() {
    if (const auto give_back = std::exchange(give_back_, nullptr)) {
      give_back();
    }
  }

 private:
  std::function<void()> give_back_;
};

struct Delivery {
  Message message;
  // For a handler that takes parts: the bytes of all tensors, one after the other, whose own are
  // empty then. Empty where they were put together after all.
  std::vector<Bytes> parts;
  std::string from;
  std::uint64_t instance = 0;  // changes when the sender was started anew
  Credit credit;
};

// Who takes messages. Called on the transport's threads, never two calls at once; both should hand
// over and return, since a handler that blocks holds up heartbeats and other channels. What
// on_message throws ends the channel with that error, on both sides.
struct Handler {
  std::function<void(Delivery)> on_message;
  // Once, after the last message: nothing after a goodbye, else the error.
  std::function<void(std::exception_ptr)> on_end;
  // Tensors without a codec are left in the parts in which they came, and not copied into one.
  bool takes_parts = false;
};

// The sending end of a channel. Any thread may call, several at once. Destroyed without close(),
// it breaks off, and the receiver reports a lost peer.
class Sender {
 public:
  virtual ~Sender() = default;

  // Blocks while the window is full, and no longer: a message may be queued before the peer is
  // there. A thread's messages keep their order. Throws Error(kTimeout) at the deadline,
  // Error(kPeerLost) once the channel has failed or was closed, std::invalid_argument over a limit
  // or where the peer refused us.
  virtual void send(const Message& message, Milliseconds timeout) = 0;
  // Blocks until everything sent was taken.
  virtual void flush(Milliseconds timeout) = 0;
  // Flushes, says goodbye, and waits for the answer.
  virtual void close(Milliseconds timeout) = 0;
  // As if it was destroyed: whoever waits in it gets Error(kPeerLost) at once.
  virtual void break_off() = 0;
  virtual ChannelState state() const = 0;
};

// The receiving end. Destroyed without close(), it breaks off, and the sender reports a lost peer.
// The handler is not called after close() or the destructor has returned; neither may be called
// from within the handler.
class Receiver {
 public:
  virtual ~Receiver() = default;

  // Says goodbye: the sender's next send fails.
  virtual void close(Milliseconds timeout) = 0;
  virtual ChannelState state() const = 0;
};

// One node's ends of ordered, reliable, bounded channels to other nodes. A channel is a name and a
// direction: (from, to, name). Nodes may start in any order. A lost connection is made again, and
// what the receiver has not got is sent again; what comes twice is dropped. Owns its threads.
class Transport {
 public:
  virtual ~Transport() = default;

  // Both return at once and go on in the background. A second end of the same channel is
  // std::invalid_argument. The ends may outlive the transport; they then have failed.
  virtual std::unique_ptr<Sender> open(const Peer& to, const std::string& channel) = 0;
  virtual std::unique_ptr<Receiver> receive(const Peer& from, const std::string& channel,
                                            Handler handler) = 0;
  // The members of a later plan, in place of TransportOptions::members. Who may not stay is cut off
  // at once: of it arrives at most what is being delivered already; a sender to a node that left
  // fails. Throws std::invalid_argument without credentials, by which alone a member is known.
  virtual void set_members(Members members) = 0;
  // Where it listens, with the real port.
  virtual std::string address() const = 0;
  // Closes all channels: flushes senders, then says goodbye everywhere. Throws the first error
  // after everything was tried.
  virtual void close(Milliseconds timeout) = 0;
};

}  // namespace ravnest::transport
