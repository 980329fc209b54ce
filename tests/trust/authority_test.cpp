#include "ravnest/trust/authority.h"

#include <sys/stat.h>

#include <fstream>

#include "ravnest/base/error.h"
#include "tests/trust/world.h"

namespace ravnest::trust {
namespace {

using std::chrono::days;

mode_t mode_of(const std::filesystem::path& path) {
  struct stat status{};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return status.st_mode & 0777U;
}

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::trunc) << text;
}

const Member kMember{.id = "0a1b2c", .role = Role::kProvider};

TEST(Authority, IssuesForAKeyThatItNeverSees) {
  const Authority authority = Authority::make(kNow);
  const PrivateKey key = PrivateKey::make();
  const Request request = Request::parse(Request::make(key).to_pem());
  const Certificate certificate = authority.issue(request, kMember, valid_for(days(30), kNow));
  EXPECT_EQ(certificate.member(), kMember);
  EXPECT_TRUE(certificate.has_key(key));
  EXPECT_FALSE(certificate.is_authority());
  EXPECT_EQ(certificate.validity().from, kNow - days(1));
  EXPECT_EQ(certificate.validity().until, kNow + days(30));
  check_issued(certificate, authority.certificate(), kNow);
}

TEST(Authority, ACertificateComesBackFromItsText) {
  const Authority authority = Authority::make(kNow);
  const Certificate certificate = identity_of(authority, kMember).certificate;
  const Certificate read = Certificate::parse(certificate.to_pem());
  EXPECT_EQ(read.member(), kMember);
  EXPECT_EQ(read.fingerprint(), certificate.fingerprint());
  EXPECT_NE(read.fingerprint(), identity_of(authority, kMember).certificate.fingerprint());
}

TEST(Authority, SaysWhatIsWrongWithACertificate) {
  const Authority authority = Authority::make(kNow);
  const Certificate ours = authority.certificate();
  const Certificate good = identity_of(authority, kMember).certificate;
  const auto said = [&](const Certificate& certificate, WallTime now) {
    return refusal_of([&] { check_issued(certificate, ours, now); });
  };
  EXPECT_EQ(said(good, kNow), "");
  EXPECT_TRUE(has(said(good, kNow + days(366)), "expired on 2027-11-16 12:00 UTC; enrol again"));
  EXPECT_TRUE(has(said(good, kNow - days(2)), "clock of this machine"));
  const Authority other = Authority::make(kNow);
  EXPECT_TRUE(has(said(identity_of(other, kMember).certificate, kNow), "of our authority"));
}

TEST(Authority, ItsCertificateIsNoMembers) {
  const Authority authority = Authority::make(kNow);
  EXPECT_TRUE(authority.certificate().is_authority());
  EXPECT_TRUE(has(refusal_of([&] { static_cast<void>(authority.certificate().member()); }),
                  "expected a member's certificate"));
}

TEST(Authority, AMemberCannotIssue) {
  const Authority authority = Authority::make(kNow);
  const Identity member = identity_of(authority, kMember);
  EXPECT_TRUE(has(refusal_of([&] { check_issued(member.certificate, member.certificate, kNow); }),
                  "of our authority"));
}

TEST(Authority, RefusesAnIdThatPlaysTricks) {
  const Authority authority = Authority::make(kNow);
  const Request request = Request::make(PrivateKey::make());
  for (const char* id : {"a,URI:ravnest:server:b", "", "A", "a\nb"}) {
    EXPECT_THROW(authority.issue(request, {.id = id}, valid_for(days(1), kNow)),
                 std::invalid_argument)
        << id;
  }
}

TEST(Authority, StaysTheSameInItsFolder) {
  const TemporaryFolder folder;
  const Authority made = Authority::open(folder.path(), kNow);
  const Authority again = Authority::open(folder.path(), kNow + days(1));
  EXPECT_EQ(made.certificate().fingerprint(), again.certificate().fingerprint());
  EXPECT_EQ(mode_of(folder.path() / "ca.key"), 0600U);
  check_issued(identity_of(again, kMember).certificate, made.certificate(), kNow);
}

TEST(Authority, KeepsItsKeyWhereTheCertificateIsLost) {
  const TemporaryFolder folder;
  const Certificate issued = identity_of(Authority::open(folder.path(), kNow), kMember).certificate;
  std::filesystem::remove(folder.path() / "ca.crt");
  const Authority again = Authority::open(folder.path(), kNow);
  check_issued(issued, again.certificate(), kNow);
  EXPECT_EQ(Authority::open(folder.path(), kNow).certificate().fingerprint(),
            again.certificate().fingerprint());
}

TEST(Authority, DoesNotReplaceAKeyThatItCannotRead) {
  const TemporaryFolder folder;
  write(folder.path() / "ca.key", "cut off");
  ::chmod((folder.path() / "ca.key").c_str(), 0600);
  EXPECT_TRUE(has(refusal_of([&] { Authority::open(folder.path(), kNow); }), "a private key"));
  EXPECT_EQ(std::filesystem::file_size(folder.path() / "ca.key"), 7U);
}

class AuthorityFolder : public ::testing::Test {
 protected:
  AuthorityFolder() { static_cast<void>(Authority::open(folder_.path(), kNow)); }
  std::string said(WallTime now = kNow) const {
    return refusal_of([&] { static_cast<void>(Authority::open(folder_.path(), now)); });
  }
  const TemporaryFolder folder_;
  const std::filesystem::path key_ = folder_.path() / "ca.key";
  const std::filesystem::path certificate_ = folder_.path() / "ca.crt";
};

TEST_F(AuthorityFolder, RefusesAKeyThatOthersMayRead) {
  ::chmod(key_.c_str(), 0640);
  EXPECT_TRUE(has(said(), "got mode 640; run: chmod 600")) << said();
}

TEST_F(AuthorityFolder, RefusesTheCertificateOfAnotherKey) {
  const TemporaryFolder other;
  static_cast<void>(Authority::open(other.path(), kNow));
  std::filesystem::copy_file(other.path() / "ca.crt", certificate_,
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_TRUE(has(said(), "of the key in ca.key")) << said();
}

TEST_F(AuthorityFolder, RefusesAMembersCertificate) {
  const Authority authority = Authority::open(folder_.path(), kNow);
  write(certificate_, identity_of(authority, kMember).certificate.to_pem());
  EXPECT_TRUE(has(said(), "of the key in ca.key")) << said();
}

TEST_F(AuthorityFolder, RefusesWhatIsDamaged) {
  for (const auto& file : {key_, certificate_}) {
    std::string text;
    std::getline(std::ifstream(file), text, '\0');
    for (std::size_t at = 0; at < text.size(); at += 29) {
      std::string broken = text;
      broken[at] = broken[at] == 'A' ? 'B' : 'A';
      write(file, broken);
      EXPECT_NE(said(), "") << at;
    }
    write(file, text);
  }
  EXPECT_EQ(said(), "");
}

TEST_F(AuthorityFolder, RefusesOneThatHasExpired) {
  EXPECT_TRUE(has(said(kNow + days(365 * 21)), "expired")) << said(kNow + days(365 * 21));
}

TEST_F(AuthorityFolder, DoesNotMakeAnotherWhereTheKeyIsLost) {
  std::filesystem::remove(key_);
  EXPECT_THROW(Authority::open(folder_.path(), kNow), Error);
}

}  // namespace
}  // namespace ravnest::trust
