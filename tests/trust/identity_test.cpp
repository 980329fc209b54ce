#include "ravnest/trust/identity.h"

#include <sys/stat.h>

#include <fstream>

#include "ravnest/base/error.h"
#include "tests/trust/world.h"

namespace ravnest::trust {
namespace {

using std::chrono::days;

class IdentityFile : public ::testing::Test {
 protected:
  void keep(const Identity& identity) const { write_identity(file_, identity); }
  std::string said(WallTime now = kNow) const {
    return refusal_of([&] { static_cast<void>(read_identity(file_, now)); });
  }

  const TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_.path() / "identity.pem";
  const Authority authority_ = Authority::make(kNow);
  const Identity identity_ = identity_of(authority_, {.id = "box-1", .role = Role::kRequester});
};

TEST_F(IdentityFile, ComesBackWhole) {
  keep(identity_);
  const Identity read = read_identity(file_, kNow);
  EXPECT_EQ(to_text(read), to_text(identity_));
  EXPECT_EQ(read.certificate.member().id, "box-1");
  EXPECT_EQ(read.certificate.member().role, Role::kRequester);
}

TEST_F(IdentityFile, IsForItsOwnerAlone) {
  keep(identity_);
  struct stat status{};
  ASSERT_EQ(::stat(file_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  ::chmod(file_.c_str(), 0604);
  EXPECT_TRUE(has(said(), "got mode 604; run: chmod 600")) << said();
}

TEST_F(IdentityFile, SaysWhenItHasExpired) {
  keep(identity_);
  EXPECT_TRUE(has(said(kNow + days(400)), "expired on 2027-11-16 12:00 UTC; enrol again"));
  EXPECT_TRUE(has(said(kNow + days(400)), file_.string()));
  EXPECT_TRUE(has(said(kNow - days(10)), "clock of this machine"));
}

TEST_F(IdentityFile, SaysWhenTheAuthorityIsAnother) {
  Identity mixed = identity_;
  mixed.authority = Authority::make(kNow).certificate();
  keep(mixed);
  EXPECT_TRUE(has(said(), "of our authority")) << said();
  mixed.authority = mixed.certificate;
  keep(mixed);
  EXPECT_TRUE(has(said(), "certificate of an authority")) << said();
}

TEST_F(IdentityFile, SaysWhenTheKeyIsAnothers) {
  Identity mixed = identity_;
  mixed.key = PrivateKey::make();
  keep(mixed);
  EXPECT_TRUE(has(said(), "private key beside it")) << said();
}

TEST_F(IdentityFile, RefusesAnythingElse) {
  const std::string text = to_text(identity_);
  const std::string key = identity_.key.to_pem();
  const std::string certificate = identity_.certificate.to_pem();
  for (const std::string& other :
       {std::string(), std::string("hello"), key, certificate + key + certificate, text + text,
        text + "\n", "\n" + text, text.substr(0, text.size() / 2), std::string(100'000, 'A')}) {
    EXPECT_NE(refusal_of([&] { static_cast<void>(parse_identity(other)); }), "");
  }
}

TEST_F(IdentityFile, NoKeyIsInAnError) {
  std::string text = to_text(identity_);
  text[80] = text[80] == 'A' ? 'B' : 'A';
  const std::string said = refusal_of([&] { static_cast<void>(parse_identity(text)); });
  for (std::size_t at = 28; at + 6 < 190; ++at) {
    EXPECT_FALSE(has(said, text.substr(at, 6)));
  }
}

TEST_F(IdentityFile, NamesAFileThatIsNotThere) {
  EXPECT_THROW(read_identity(folder_.path() / "none", kNow), Error);
  EXPECT_TRUE(has(refusal_of([&] { read_identity(folder_.path(), kNow); }), "regular file"));
}

TEST(Request, IsReadStrictly) {
  const std::string good = Request::make(PrivateKey::make()).to_pem();
  EXPECT_EQ(Request::parse(good).to_pem(), good);
  for (const std::string& other :
       {std::string(), good + good, good.substr(1), std::string(5000, 'A'),
        std::string("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n"
                    "-----END CERTIFICATE REQUEST-----\n")}) {
    EXPECT_TRUE(has(refusal_of([&] { Request::parse(other); }), "certificate request"));
  }
}

TEST(Request, MustBeSignedWithItsOwnKey) {
  const std::string good = Request::make(PrivateKey::make()).to_pem();
  int refused = 0;
  int total = 0;
  for (std::size_t at = 36; at < good.size() - 40; ++at, ++total) {
    std::string broken = good;
    broken[at] = broken[at] == 'A' ? 'B' : 'A';
    refused += refusal_of([&] { Request::parse(broken); }).empty() ? 0 : 1;
  }
  EXPECT_EQ(refused, total);
}

// openssl genpkey/req, made once: requests with keys that are not on P-256.
TEST(Request, RefusesOtherKindsOfKeys) {
  const char* const ed25519 =
      "-----BEGIN CERTIFICATE REQUEST-----\n"
      "MIGLMD8CAQAwDDEKMAgGA1UEAwwBeDAqMAUGAytlcAMhAAYJJQKeuulZgEp4hR7I\n"
      "svd7rbc2QL08s2i/9+vkUxScoAAwBQYDK2VwA0EA8y93mTvFPHkuSIGoNjkw5CML\n"
      "KTGr+gYbWGpvo1BbvKf2xUA8PnbSreYdBCU8aBhn/B++SBr8YkNo3cNm6t4IAg==\n"
      "-----END CERTIFICATE REQUEST-----\n";
  const char* const p384 =
      "-----BEGIN CERTIFICATE REQUEST-----\n"
      "MIIBBTCBiwIBADAMMQowCAYDVQQDDAF4MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAE\n"
      "Q50rPTzD9ztjKCYUN82JvZLIpe6z+/fRCKeRvqQ6R+eIrKZvdzgJL5IeWg1Bc6K7\n"
      "m5KY2z3pkmT4teZcUbOlsb5lVrqeReaTxCfODKvzb4yQ7wdzp5Ugwg/PdSEwg3li\n"
      "oAAwCgYIKoZIzj0EAwIDaQAwZgIxAJFIeUjDivWw943nm66nO+dWZNFqyGtieVWk\n"
      "Jz5TV3DbQZ0xSECPJGmwd73EfUNkcgIxAJPz6xhrnHapSWeoc5maI076ccd5wKyR\n"
      "SRg//nbXLSd9NlWbvUf9C/NW2a2dmW/Zuw==\n"
      "-----END CERTIFICATE REQUEST-----\n";
  for (const char* pem : {ed25519, p384}) {
    EXPECT_TRUE(has(refusal_of([&] { Request::parse(pem); }), "P-256"));
  }
}

}  // namespace
}  // namespace ravnest::trust
