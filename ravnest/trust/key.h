#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <string_view>

struct evp_pkey_st;

namespace ravnest::trust {

// A private key on the curve P-256. Copies share it; it does not change and does not print.
class PrivateKey {
 public:
  static PrivateKey make();
  // One PKCS #8 block, not encrypted. Throws std::invalid_argument, without a word of the text.
  static PrivateKey parse(std::string_view pem);

  std::string to_pem() const;
  evp_pkey_st* get() const { return key_.get(); }

 private:
  explicit PrivateKey(std::shared_ptr<evp_pkey_st> key) : key_(std::move(key)) {}

  std::shared_ptr<evp_pkey_st> key_;
};

std::ostream& operator<<(std::ostream&, const PrivateKey&) = delete;

}  // namespace ravnest::trust
