#pragma once

#include <memory>
#include <optional>
#include <string>

#include "ravnest/coordinator/words.h"
#include "ravnest/relay/reach.h"

namespace ravnest::control {

// A port of this machine at which the server looks whether others can reach it, until it has said
// so.
class ReachTest {
 public:
  // `port` 0: a free one, of those that the system does not give to outgoing connections, so that
  // it is still free when a transport listens there. Throws Error(kIo) where it is taken.
  explicit ReachTest(int port);

  int port() const { return port_; }
  coordinator::Reach reach(const std::string& host) const;

 private:
  const relay::Nonce nonce_;
  const std::unique_ptr<const relay::Echo> echo_;
  const int port_;
};

// Where a member is, for somebody who reaches the server at `server`: one that is on the server's
// own machine came from 127.0.0.1, and means another machine by that.
std::string seen_from(const std::string& server, const std::string& address);

}  // namespace ravnest::control
