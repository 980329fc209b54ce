#include "ravnest/coordinator/sha256.h"

#include <openssl/evp.h>

#include <array>

#include "ravnest/base/bytes.h"
#include "ravnest/base/error.h"

namespace ravnest::coordinator {

void Sha256::Free::operator()(evp_md_ctx_st* context) const { ::EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(::EVP_MD_CTX_new()) {
  RAVNEST_CHECK(context_ != nullptr &&
                ::EVP_DigestInit_ex(context_.get(), ::EVP_sha256(), nullptr) == 1);
}

void Sha256::update(std::span<const std::byte> bytes) {
  RAVNEST_CHECK(::EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
}

std::string Sha256::finish() {
  std::array<unsigned char, 32> digest{};
  RAVNEST_CHECK(::EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr) == 1);
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : digest) {
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

std::string sha256_of(std::string_view text) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  return hash.finish();
}

std::string sha256_of_file(const std::filesystem::path& file) {
  Sha256 hash;
  if (std::error_code error; std::filesystem::file_size(file, error) != 0 || error) {
    hash.update(Bytes::map_file(file).view());
  }
  return hash.finish();
}

}  // namespace ravnest::coordinator
