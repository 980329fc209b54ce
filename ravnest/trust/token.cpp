#include "ravnest/trust/token.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <array>
#include <vector>

#include "ravnest/base/error.h"
#include "ravnest/trust/encoding.h"

namespace ravnest::trust {

namespace {

constexpr std::string_view kWord = "ravnest";
constexpr char kVersion = '1';
constexpr std::size_t kChecksumBytes = 4;
// role, secret, fingerprint, checksum
constexpr std::size_t kBodyBytes = 1 + kSecretBytes + kDigestBytes + kChecksumBytes;
constexpr std::size_t kBodyLetters = (kBodyBytes * 8 + 5) / 6;
constexpr std::size_t kTokenLetters = kWord.size() + 1 + kBodyLetters;

constexpr std::string_view kSpace = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::array<std::byte, kChecksumBytes> checksum(std::span<const std::byte> body) {
  Sha256 hash;
  hash.add("ravnest token\n");
  hash.add(body);
  const Digest whole = hash.finish();
  std::array<std::byte, kChecksumBytes> sum{};
  std::copy_n(whole.begin(), sum.size(), sum.begin());
  return sum;
}

[[noreturn]] void throw_not_a_token(const char* got) {
  throw_invalid("[trust] expected a token as the server printed it, got ", got,
                "; copy it again, or have the server print another.");
}

// Takes `count` bytes off the front.
std::span<const std::byte> take(std::span<const std::byte>& bytes, std::size_t count) {
  const auto part = bytes.first(count);
  bytes = bytes.subspan(count);
  return part;
}

Token read_body(std::span<const std::byte> body) {
  const auto sum = body.last(kChecksumBytes);
  body = body.first(body.size() - kChecksumBytes);
  if (!is_equal(sum, checksum(body))) {
    throw_not_a_token("one with a letter that is not right");
  }
  const auto role = find_role(std::to_integer<unsigned>(take(body, 1).front()));
  if (!role) {
    throw_not_a_token("one for a role that is not known");
  }
  Token token{.role = *role, .secret = Secret(take(body, kSecretBytes))};
  std::ranges::copy(body, token.fingerprint.begin());
  return token;
}

}  // namespace

Token make_token(Role role, const Digest& fingerprint) {
  return {.role = role, .secret = Secret::make(), .fingerprint = fingerprint};
}

std::string to_text(const Token& token) {
  std::vector<std::byte> body;
  body.reserve(kBodyBytes);
  const auto add = [&](std::span<const std::byte> part) {
    body.insert(body.end(), part.begin(), part.end());
  };
  body.push_back(static_cast<std::byte>(token.role));
  add(token.secret.bytes());
  add(token.fingerprint);
  add(checksum(body));
  std::string text = concat(kWord, kVersion, encode_base64url(body));
  ::OPENSSL_cleanse(body.data(), body.size());
  return text;
}

Token parse_token(std::string_view text) {
  text = trimmed(text);
  if (!text.starts_with(kWord)) {
    throw_not_a_token("another text");
  }
  if (text.size() > kWord.size() && text[kWord.size()] != kVersion) {
    throw_not_a_token("one of another version");
  }
  if (text.size() < kTokenLetters) {
    throw_not_a_token("one that is cut off");
  }
  if (text.size() > kTokenLetters) {
    throw_not_a_token("one with something behind it");
  }
  auto body = decode_base64url(text.substr(kWord.size() + 1));
  if (!body) {
    throw_not_a_token("one with a letter that is not right");
  }
  Token token = read_body(*body);
  ::OPENSSL_cleanse(body->data(), body->size());
  return token;
}

}  // namespace ravnest::trust
