#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "ravnest/relay/reach.h"

namespace ravnest::relay {

// Lets peers that know its secret measure the link to this machine, one after the other. Whoever
// does not begin with the secret's hash is told nothing. A peer's first few bytes come back one by
// one; then it may have bytes that mean nothing, up to 8 MiB, for less than half a second.
class Probe {
 public:
  // Listens at "host:port". Throws Error(kIo) where the port is taken.
  Probe(const std::string& address, const Nonce& secret);
  // At once, also where somebody measures just now: the port is free then.
  ~Probe();
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  // As given, with the real port.
  const std::string& address() const;

 private:
  class Loop;
  const std::unique_ptr<Loop> loop_;
};

struct LinkSpeed {
  double mbps = 0.0;
  double latency_ms = 0.0;  // one way
};

// The link to the Probe at this address. Nothing where it does not answer within `patience`, where
// it is somebody else, or when it is told to stop. Throws as connect_to does.
std::optional<LinkSpeed> measure_link(
    const std::string& address, const Nonce& secret, const std::stop_token& stop = {},
    std::chrono::milliseconds patience = std::chrono::milliseconds(3000));

}  // namespace ravnest::relay
