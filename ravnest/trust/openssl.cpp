#include "ravnest/trust/openssl.h"

#include <openssl/core_names.h>

#include <array>

#include "ravnest/trust/encoding.h"

namespace ravnest::trust {

bool is_p256(const EVP_PKEY* key) {
  if (::EVP_PKEY_is_a(key, "EC") != 1) {
    return false;
  }
  std::array<char, 32> group{};
  if (::EVP_PKEY_get_group_name(key, group.data(), group.size(), nullptr) != 1 ||
      std::string_view(group.data()) != "prime256v1") {
    return false;
  }
  int is_explicit = 1;  // parameters spelled out may be subtly others
  if (::EVP_PKEY_get_int_param(key, OSSL_PKEY_PARAM_EC_DECODED_FROM_EXPLICIT_PARAMS,
                               &is_explicit) != 1 ||
      is_explicit != 0) {
    return false;
  }
  const KeyContextPtr context(
      ::EVP_PKEY_CTX_new_from_pkey(nullptr, const_cast<EVP_PKEY*>(key), nullptr));
  return context != nullptr && ::EVP_PKEY_public_check(context.get()) == 1;
}

std::vector<std::byte> read_one_pem(std::string_view text, const std::string& label,
                                    std::size_t limit, const char* expected) {
  if (text.size() > limit) {
    throw_invalid("[trust] expected ", expected, " of at most ", limit, " bytes, got ", text.size(),
                  ".");
  }
  auto blocks = decode_pem(text);
  if (!blocks || blocks->size() != 1 || blocks->front().label != label) {
    throw_invalid("[trust] expected ", expected, " as one PEM block ", label,
                  " and nothing else, got another text.");
  }
  return std::move(blocks->front().der);
}

}  // namespace ravnest::trust
