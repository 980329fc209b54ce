#pragma once

#include <string>

#include "ravnest/transport/options.h"
#include "ravnest/trust/certificate.h"

namespace ravnest::transport {

// The certificate of the authority with this fingerprint, as the server at an address shows it.
// Makes one TLS handshake, in which nothing is told, and checks that the server is one of that
// authority. Throws std::invalid_argument where it is somebody else, Error where nobody answers in
// time or no TLS is spoken.
trust::Certificate fetch_authority(const std::string& address, const trust::Digest& fingerprint,
                                   Milliseconds timeout);

}  // namespace ravnest::transport
