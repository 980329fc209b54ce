#include "ravnest/trust/encoding.h"

#include "tests/trust/world.h"

namespace ravnest::trust {
namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

TEST(Encoding, Base64UrlIsTheOneOfTheStandard) {
  // RFC 4648, section 10, without padding.
  const std::vector<std::pair<std::string, std::string>> known{
      {"", ""},           {"f", "Zg"},          {"fo", "Zm8"},          {"foo", "Zm9v"},
      {"foob", "Zm9vYg"}, {"fooba", "Zm9vYmE"}, {"foobar", "Zm9vYmFy"}, {"\xfb\xff", "-_8"}};
  for (const auto& [plain, encoded] : known) {
    EXPECT_EQ(encode_base64url(bytes_of(plain)), encoded);
    EXPECT_EQ(decode_base64url(encoded), bytes_of(plain)) << encoded;
  }
}

TEST(Encoding, OfEveryByteComesBack) {
  std::vector<std::byte> bytes;
  for (int i = 0; i < 256; ++i) {
    EXPECT_EQ(decode_base64url(encode_base64url(bytes)), bytes);
    bytes.push_back(static_cast<std::byte>(i));
  }
}

TEST(Encoding, OneTextForTheSameBytes) {
  for (const char* text : {"Z", "Zh", "Zg==", "Zm9", "Zm 8", "Zm8\n", "Zm+8", "Zm/8", "\xc3\xa4"}) {
    EXPECT_FALSE(decode_base64url(text)) << text;
  }
}

TEST(Encoding, PemComesBack) {
  for (const std::size_t size : {1U, 2U, 3U, 47U, 48U, 49U, 1000U}) {
    const PemBlock block{.label = "SOME THING", .der = std::vector<std::byte>(size, std::byte{7})};
    const auto blocks = decode_pem(encode_pem(block) + encode_pem(block));
    ASSERT_TRUE(blocks) << size;
    ASSERT_EQ(blocks->size(), 2U);
    EXPECT_EQ(blocks->back().label, block.label);
    EXPECT_EQ(blocks->back().der, block.der);
  }
}

TEST(Encoding, PemIsReadStrictly) {
  const std::string good = encode_pem({.label = "X", .der = bytes_of("hello")});
  ASSERT_TRUE(decode_pem(good));
  const std::vector<std::string> bad{
      "words\n" + good,
      good + "words",
      good + "\n",
      good.substr(0, good.size() - 1),
      good.substr(0, good.size() / 2),
      "-----BEGIN X-----\n-----END X-----\n",
      "-----BEGIN X-----\naGVsbG8=\n-----END Y-----\n",
      "-----BEGIN x-----\naGVsbG8=\n-----END x-----\n",
      "-----BEGIN -----\naGVsbG8=\n-----END -----\n",
      "-----BEGIN X-----\nProc-Type: 4,ENCRYPTED\n\naGVsbG8=\n-----END X-----\n",
      "-----BEGIN X-----\naGVsbG8\n-----END X-----\n",
      "-----BEGIN X-----\naGVsbG8==\n-----END X-----\n",
      "-----BEGIN X-----\naGVsbG9=\n-----END X-----\n",
      "-----BEGIN X-----\naGVs\nbG8=\n-----END X-----\n",
      "-----BEGIN X-----\r\naGVsbG8=\r\n-----END X-----\r\n",
      "-----BEGIN -----",
      "-----BEGIN X-----\n",
  };
  for (const std::string& text : bad) {
    EXPECT_FALSE(decode_pem(text)) << text;
  }
  EXPECT_EQ(decode_pem("")->size(), 0U);
}

}  // namespace
}  // namespace ravnest::trust
