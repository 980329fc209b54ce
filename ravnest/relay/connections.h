#pragma once

#include <atomic>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

#include "ravnest/relay/pipe.h"
#include "ravnest/relay/socket.h"

namespace ravnest::relay {

// One TCP connection of this machine, carried on by one pipe. A thread of its own opens the pipe
// and brings what the socket gives; the pipe's thread brings what comes back. Where one of the two
// ends, so does the other.
class Connection {
 public:
  Connection(std::shared_ptr<Socket> socket, TakePipe take);
  // Ends it, and waits for its thread.
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  bool has_ended() const { return has_ended_; }

 private:
  void run(const TakePipe& take);
  void carry(Pipe& pipe) const;
  // False where it was ended meanwhile.
  bool keep(const std::shared_ptr<Pipe>& pipe);
  void end();
  // Lets both go, outside the lock: their ends may take a while.
  void release();

  std::mutex mutex_;
  // Guarded by mutex_.
  bool is_ending_ = false;
  std::shared_ptr<Socket> socket_;  // empty at the end, so that the descriptor is free
  std::shared_ptr<Pipe> pipe_;

  std::atomic<bool> has_ended_ = false;
  std::jthread thread_;
};

// The connections that somebody has, up to a limit. Any thread.
class Connections {
 public:
  explicit Connections(std::size_t most) : most_(most) {}

  // False where there are too many.
  bool add(std::shared_ptr<Socket> socket, TakePipe take);

 private:
  const std::size_t most_;
  std::mutex mutex_;
  std::list<Connection> running_;
};

}  // namespace ravnest::relay
