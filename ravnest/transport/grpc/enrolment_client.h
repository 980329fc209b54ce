#pragma once

#include <cstdint>
#include <string>

#include "ravnest/transport/options.h"
#include "ravnest/trust/identity.h"
#include "ravnest/trust/token.h"

namespace ravnest::transport {

struct EnrolOptions {
  std::string server;  // "host:port"
  std::string name;    // what people call this machine
  Milliseconds timeout{10'000};
};

// Makes a key, shows the token's secret to the server and comes back as a member. The secret is
// told only after the server has proved to be of the authority that the token names; the key stays
// here. Throws std::invalid_argument where the token, the name or the server is not the right one,
// Error(kPeerLost, kTimeout) where trying again may help.
trust::Identity enrol(const trust::Token& token, const EnrolOptions& options);

// What a server tells anybody who knows its authority.
struct ServerGreeting {
  std::int64_t seconds = 0;  // its clock: since 1970
  std::string program;       // its version
  double latency_ms = 0.0;   // one way
};
// Throws as enrol() does.
ServerGreeting greet(const std::string& server, const trust::Certificate& authority,
                     Milliseconds timeout);

}  // namespace ravnest::transport
