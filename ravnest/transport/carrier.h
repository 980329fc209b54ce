#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ravnest/transport/frame.h"
#include "ravnest/transport/peer.h"

namespace ravnest::transport {

struct NextFrame {
  std::optional<OutFrame> frame;  // empty: nothing to write now
  bool end = false;               // after this frame nothing more; the stream ends well
};

// Who reads and writes one stream. The stream keeps it alive until on_end. Reads and writes may
// happen at the same time; each on its own is one call after the other, on the carrier's threads
// (next_frame also on the thread that calls Stream::wake).
class StreamOwner {
 public:
  virtual ~StreamOwner() = default;

  virtual NextFrame next_frame() = 0;
  // What it throws ends the stream, with its text as the reason.
  virtual void on_frame(const InFrame& frame) = 0;
  // Once; no frame comes afterwards. (A next_frame that was on its way may still come.)
  virtual void on_end(const std::string& reason) = 0;
};

// One connection: frames both ways, in order, until it ends. Any thread may call, but not while it
// holds a lock that the owner takes in its own methods.
class Stream {
 public:
  virtual ~Stream() = default;

  // The owner has something to write.
  virtual void wake() = 0;
  // Ends at once; on_end follows.
  virtual void abort(const std::string& reason) = 0;
  // The other side, for people: "127.0.0.1:41234".
  virtual std::string remote() const = 0;
  // The id in the certificate by which who opened the stream has proved who it is; empty where
  // nobody proves anything.
  virtual std::string member() const { return {}; }
};

// Makes connections: in process (loopback/) or over the network (grpc/). It knows frames, and
// nothing of sequences, windows or heartbeats.
class Carrier {
 public:
  // Called for every stream that somebody else opens, on the carrier's threads.
  using Accept = std::function<std::shared_ptr<StreamOwner>(std::shared_ptr<Stream>)>;

  virtual ~Carrier() = default;

  // Listens from here on. Throws Error(kIo) where the address cannot be had.
  virtual void start(Accept accept) = 0;
  // Whether both sides of every stream prove who they are.
  virtual bool proves_members() const { return false; }
  // Throws std::invalid_argument for a peer that connect can never reach.
  virtual void check(const Peer& peer) const = 0;
  // Returns at once; where nobody answers, on_end tells so. Where members are proved, who answers
  // must be `peer.member`: anybody else is told nothing, and the owner gets a refusal.
  virtual std::shared_ptr<Stream> connect(const Peer& peer, std::shared_ptr<StreamOwner> owner) = 0;
  // Where it listens, with the real port.
  virtual std::string address() const = 0;
  // Ends all streams and waits until nobody keeps one: owners let go of theirs at on_end, and are
  // not called afterwards.
  virtual void stop() = 0;
};

}  // namespace ravnest::transport
