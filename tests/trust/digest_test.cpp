#include "ravnest/trust/digest.h"

#include <fstream>

#include "ravnest/base/error.h"
#include "ravnest/trust/random.h"
#include "tests/trust/world.h"

namespace ravnest::trust {
namespace {

// FIPS 180-2, appendix B.
constexpr const char* kOfAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr const char* kOfNothing =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr const char* kOfAMillionAs =
    "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";

TEST(Digest, IsTheOneOfTheStandard) {
  EXPECT_EQ(to_hex(sha256("abc")), kOfAbc);
  EXPECT_EQ(to_hex(sha256("")), kOfNothing);
}

TEST(Digest, IsTheSameInParts) {
  Sha256 hash;
  hash.add("a");
  hash.add("");
  hash.add("bc");
  EXPECT_EQ(to_hex(hash.finish()), kOfAbc);
  EXPECT_EQ(to_hex(hash.finish()), kOfNothing);  // begins anew
}

TEST(Digest, OfAFileIsOfItsBytes) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "as";
  std::ofstream(path) << std::string(1'000'000, 'a');
  EXPECT_EQ(to_hex(sha256_file(path)), kOfAMillionAs);
  std::ofstream(path, std::ios::trunc).close();
  EXPECT_EQ(to_hex(sha256_file(path)), kOfNothing);
}

TEST(Digest, OfAFileLargerThanOnePartIsOfAllOfIt) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "large";
  const std::string text((std::size_t{3} << 20) + 17, 'x');
  std::ofstream(path) << text;
  EXPECT_EQ(sha256_file(path), sha256(text));
}

TEST(Digest, NamesAFileThatCannotBeRead) {
  try {
    static_cast<void>(sha256_file("/nowhere/at/all"));
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_TRUE(has(error.what(), "/nowhere/at/all")) << error.what();
  }
}

TEST(Digest, ReadsItsOwnTextAndNoOther) {
  EXPECT_EQ(parse_digest(kOfAbc), sha256("abc"));
  const std::string text = kOfAbc;
  for (const std::string& other :
       {std::string(), text.substr(1), text + "0", "BA" + text.substr(2), "g" + text.substr(1),
        text.substr(0, 63) + "G", std::string(64, '\0')}) {
    EXPECT_TRUE(has(refusal_of([&] { parse_digest(other); }), "SHA-256")) << other;
  }
}

TEST(Digest, ComparesAllBytes) {
  const Digest digest = sha256("abc");
  for (std::size_t i = 0; i < digest.size(); ++i) {
    Digest other = digest;
    EXPECT_TRUE(is_equal(digest, other));
    other[i] ^= std::byte{1};
    EXPECT_FALSE(is_equal(digest, other)) << i;
  }
  EXPECT_FALSE(is_equal(digest, std::span(digest).first(31)));
}

TEST(Random, DoesNotRepeat) {
  EXPECT_NE(random_hex(16), random_hex(16));
  EXPECT_EQ(random_hex(16).size(), 32U);
}

}  // namespace
}  // namespace ravnest::trust
