#pragma once

#include <algorithm>
#include <map>

#include "ravnest/transport/grpc/tls_credentials.h"
#include "ravnest/trust/authority.h"
#include "tests/transport/world.h"

namespace ravnest::transport {

inline trust::Validity valid_now() {
  return trust::valid_for(std::chrono::days(1), std::chrono::system_clock::now());
}

// Nodes that prove who they are, all of one authority and one plan.
struct TlsWorld {
  Milliseconds handshake{3000};
  std::list<ReservedPort> reserved{};

  static const trust::Authority& authority() {
    static const trust::Authority kAuthority =
        trust::Authority::make(std::chrono::system_clock::now());
    return kAuthority;
  }
  // "node_1" → "member-node-1"
  static std::string member_of(std::string name) {
    std::ranges::replace(name, '_', '-');
    return "member-" + name;
  }
  static trust::Identity identity_of(const std::string& name) {
    return authority().make_identity({.id = member_of(name)}, valid_now());
  }
  static Members members() {
    Members members{{"raw", member_of("raw")}};
    for (int i = 0; i < 10; ++i) {
      const std::string name = "node_" + std::to_string(i);
      members[name] = member_of(name);
    }
    return members;
  }
  static std::string wrong_node() { return "who answers there is not member member-node-1"; }

  static std::string anywhere(const std::string&) { return "127.0.0.1:0"; }
  std::string reserve(const std::string&) { return reserved.emplace_back().address(); }
  std::unique_ptr<Carrier> make_carrier(const std::string& name, const std::string& address) const {
    return make_grpc_carrier(
        {.listen = address, .credentials = make_tls_credentials(identity_of(name))}, handshake);
  }
};

}  // namespace ravnest::transport
