#pragma once

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

}  // namespace ravnest::transport
