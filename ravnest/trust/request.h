#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "ravnest/trust/key.h"

struct X509_req_st;

namespace ravnest::trust {

inline constexpr std::size_t kMaxRequestBytes = 4096;

// A machine's wish for a certificate: its public key, signed with the private one, which never
// leaves the machine. Whatever else it says (names, extensions) is passed over: who somebody is
// decides whoever issues.
class Request {
 public:
  static Request make(const PrivateKey& key);
  // One PEM block of at most 4 KiB with a key on P-256 and the signature that goes with it. Throws
  // std::invalid_argument.
  static Request parse(std::string_view pem);

  std::string to_pem() const;
  evp_pkey_st* public_key() const;

 private:
  explicit Request(std::shared_ptr<X509_req_st> request) : request_(std::move(request)) {}

  std::shared_ptr<X509_req_st> request_;
};

}  // namespace ravnest::trust
