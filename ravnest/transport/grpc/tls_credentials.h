#pragma once

#include <chrono>
#include <memory>

#include "ravnest/trust/identity.h"

namespace ravnest::transport {

struct GrpcCredentials;

// TLS both ways for GrpcOptions::credentials. Everybody shows a certificate of the identity's
// authority, who connects and who is connected to, and nobody else is spoken with. Throws
// std::invalid_argument for an identity that is not whole or not valid now, with what is wrong.
std::shared_ptr<const GrpcCredentials> make_tls_credentials(
    const trust::Identity& identity, trust::WallTime now = std::chrono::system_clock::now());

}  // namespace ravnest::transport
