#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "ravnest/relay/pipe.h"

namespace ravnest::relay {

// The way out to members that accept no connections: a door on this machine for each. Who connects
// to it is carried on by a pipe to that member, and sees the end where no pipe can be opened. Other
// users of this machine may connect too; TLS, end to end, keeps them out. Any thread.
class Outward {
 public:
  explicit Outward(OpenPipe open, std::size_t connections_per_member = 64);
  // Ends all connections.
  ~Outward();
  Outward(const Outward&) = delete;
  Outward& operator=(const Outward&) = delete;

  // "127.0.0.1:port"; the door is opened when it is first asked for. Throws Error(kIo).
  std::string address_for(const std::string& member);
  // Closes its door, and ends its connections.
  void remove(const std::string& member);

 private:
  class Door;

  const OpenPipe open_;
  const std::size_t connections_per_member_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Door>> doors_;
};

}  // namespace ravnest::relay
