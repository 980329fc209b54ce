#include "ravnest/trust/encoding.h"

#include <cstdint>
#include <utility>

namespace ravnest::trust {

namespace {

constexpr std::size_t kPemLine = 64;
constexpr std::string_view kBegin = "-----BEGIN ";
constexpr std::string_view kEnd = "-----END ";
constexpr std::string_view kDashes = "-----";

constexpr std::string_view kLetters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

// The two alphabets differ in their last two.
struct Alphabet {
  char at62 = '+';
  char at63 = '/';

  char letter(unsigned value) const {
    return value < 62 ? kLetters[value] : (value == 62 ? at62 : at63);
  }
  // -1 for what is no letter. No table is looked up: secrets pass through here.
  int value(char letter) const {
    int found = -1;
    found = letter >= 'A' && letter <= 'Z' ? letter - 'A' : found;
    found = letter >= 'a' && letter <= 'z' ? letter - 'a' + 26 : found;
    found = letter >= '0' && letter <= '9' ? letter - '0' + 52 : found;
    found = letter == at62 ? 62 : found;
    found = letter == at63 ? 63 : found;
    return found;
  }
};

constexpr Alphabet kPlain{};
constexpr Alphabet kUrl{.at62 = '-', .at63 = '_'};

std::string encode(std::span<const std::byte> bytes, const Alphabet& alphabet) {
  std::string text;
  text.reserve((bytes.size() * 4 + 2) / 3);
  std::uint32_t bits = 0;
  int count = 0;
  for (const std::byte byte : bytes) {
    bits = (bits << 8) | std::to_integer<std::uint32_t>(byte);
    for (count += 8; count >= 6; count -= 6) {
      text += alphabet.letter((bits >> (count - 6)) & 63U);
    }
  }
  if (count > 0) {
    text += alphabet.letter((bits << (6 - count)) & 63U);
  }
  return text;
}

std::optional<std::vector<std::byte>> decode(std::string_view text, const Alphabet& alphabet) {
  std::vector<std::byte> bytes;
  bytes.reserve(text.size() * 3 / 4);
  std::uint32_t bits = 0;
  int count = 0;
  for (const char letter : text) {
    const int value = alphabet.value(letter);
    if (value < 0) {
      return std::nullopt;
    }
    bits = (bits << 6) | static_cast<std::uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes.push_back(static_cast<std::byte>((bits >> count) & 255U));
    }
  }
  // What is left over are fewer than six bits, all zero; else another text has the same bytes.
  if (count >= 6 || (bits & ((1U << count) - 1)) != 0) {
    return std::nullopt;
  }
  return bytes;
}

// Takes one line off; nothing at the end of the text, or where the line does not end.
std::optional<std::string_view> take_line(std::string_view& text) {
  const auto end = text.find('\n');
  if (end == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end + 1);
  return line;
}

bool is_label(std::string_view label) {
  return !label.empty() && label.size() <= 64 &&
         label.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ ") == std::string_view::npos;
}

// The label of "-----BEGIN label-----".
std::optional<std::string> label_of(std::string_view line) {
  if (!line.starts_with(kBegin) || !line.ends_with(kDashes) ||
      line.size() < kBegin.size() + kDashes.size()) {
    return std::nullopt;
  }
  line.remove_prefix(kBegin.size());
  line.remove_suffix(kDashes.size());
  return is_label(line) ? std::optional(std::string(line)) : std::nullopt;
}

// Takes the lines up to the end off, and returns them as one without padding.
std::optional<std::string> take_body(std::string_view& text, const std::string& label) {
  const std::string end = std::string(kEnd) + label + std::string(kDashes);
  std::string body;
  bool is_last = false;
  while (const auto line = take_line(text)) {
    if (*line == end) {
      const auto letters = body.find_last_not_of('=') + 1;
      const bool is_padded = body.size() % 4 == 0 && body.size() - letters <= 2;
      body.resize(letters);
      return is_padded ? std::optional(body) : std::nullopt;
    }
    if (is_last || line->empty() || line->size() > kPemLine) {
      return std::nullopt;
    }
    is_last = line->size() < kPemLine;
    body += *line;
  }
  return std::nullopt;
}

}  // namespace

std::string encode_hex(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15U];
  }
  return text;
}

std::string encode_base64url(std::span<const std::byte> bytes) { return encode(bytes, kUrl); }

std::optional<std::vector<std::byte>> decode_base64url(std::string_view text) {
  return decode(text, kUrl);
}

std::string encode_pem(const PemBlock& block) {
  std::string body = encode(block.der, kPlain);
  body.append((4 - body.size() % 4) % 4, '=');
  std::string text = std::string(kBegin) + block.label + std::string(kDashes) + "\n";
  for (std::size_t at = 0; at < body.size(); at += kPemLine) {
    text += body.substr(at, kPemLine);
    text += '\n';
  }
  return text + std::string(kEnd) + block.label + std::string(kDashes) + "\n";
}

std::optional<std::vector<PemBlock>> decode_pem(std::string_view text) {
  std::vector<PemBlock> blocks;
  while (!text.empty()) {
    const auto line = take_line(text);
    const auto label = line ? label_of(*line) : std::nullopt;
    const auto body = label ? take_body(text, *label) : std::nullopt;
    auto der = body ? decode(*body, kPlain) : std::nullopt;
    if (!der || der->empty()) {
      return std::nullopt;
    }
    blocks.push_back({.label = *label, .der = std::move(*der)});
  }
  return blocks;
}

}  // namespace ravnest::trust
