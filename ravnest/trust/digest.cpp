#include "ravnest/trust/digest.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "ravnest/base/error.h"
#include "ravnest/trust/encoding.h"

namespace ravnest::trust {

namespace {

constexpr std::size_t kPartBytes = std::size_t{1} << 20;

[[noreturn]] void throw_cannot_read(const std::filesystem::path& path) {
  throw Error(ErrorKind::kIo,
              concat("[trust] cannot read '", path.string(), "': ", std::strerror(errno), "."));
}

class OpenFile {
 public:
  explicit OpenFile(const std::filesystem::path& path)
      : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) {
      throw_cannot_read(path_);
    }
  }
  ~OpenFile() { ::close(descriptor_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  // How many bytes came; 0 at the end.
  std::size_t read(std::span<std::byte> into) const {
    ssize_t size = -1;
    do {
      size = ::read(descriptor_, into.data(), into.size());
    } while (size < 0 && errno == EINTR);
    if (size < 0) {
      throw_cannot_read(path_);
    }
    return static_cast<std::size_t>(size);
  }

 private:
  const std::filesystem::path path_;
  const int descriptor_;
};

}  // namespace

Sha256::Sha256() : context_(::EVP_MD_CTX_new(), &::EVP_MD_CTX_free) {
  RAVNEST_CHECK(context_ != nullptr);
  RAVNEST_CHECK(::EVP_DigestInit_ex(context_.get(), ::EVP_sha256(), nullptr) == 1);
}

void Sha256::add(std::span<const std::byte> part) {
  RAVNEST_CHECK(::EVP_DigestUpdate(context_.get(), part.data(), part.size()) == 1);
}

Digest Sha256::finish() {
  Digest digest{};
  auto* out = reinterpret_cast<unsigned char*>(digest.data());
  RAVNEST_CHECK(::EVP_DigestFinal_ex(context_.get(), out, nullptr) == 1);
  RAVNEST_CHECK(::EVP_DigestInit_ex(context_.get(), ::EVP_sha256(), nullptr) == 1);
  return digest;
}

Digest sha256(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.finish();
}

Digest sha256(std::string_view text) { return sha256(std::as_bytes(std::span(text))); }

Digest sha256_file(const std::filesystem::path& path) {
  const OpenFile file(path);
  std::vector<std::byte> part(kPartBytes);
  Sha256 hash;
  while (const std::size_t size = file.read(part)) {
    hash.add(std::span(part).first(size));
  }
  return hash.finish();
}

std::string to_hex(const Digest& digest) { return encode_hex(digest); }

Digest parse_digest(std::string_view hex) {
  const auto value = [&](char digit) -> int {
    if (digit >= '0' && digit <= '9') {
      return digit - '0';
    }
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
  };
  Digest digest{};
  bool is_hex = hex.size() == 2 * kDigestBytes;
  for (std::size_t i = 0; is_hex && i < kDigestBytes; ++i) {
    const int high = value(hex[2 * i]);
    const int low = value(hex[2 * i + 1]);
    is_hex = high >= 0 && low >= 0;
    digest[i] = static_cast<std::byte>(high * 16 + low);
  }
  if (!is_hex) {
    throw_invalid("[trust] expected a SHA-256 of ", 2 * kDigestBytes,
                  " lower-case hexadecimal digits, got something else.");
  }
  return digest;
}

bool is_equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace ravnest::trust
