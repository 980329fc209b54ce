#include "ravnest/trust/enrolment.h"

#include <atomic>

#include "ravnest/trust/token_record.h"
#include "tests/trust/world.h"

namespace ravnest::trust {
namespace {

class Desk : public ::testing::Test {
 protected:
  EnrolmentForm form() const {
    const auto secret = token_.secret.bytes();
    return {.secret = std::string(reinterpret_cast<const char*>(secret.data()), secret.size()),
            .name = "box",
            .request = Request::make(key_).to_pem(),
            .host = "192.0.2.1"};
  }
  EnrolmentOptions options() {
    EnrolmentOptions options;
    options.limits = {.burst = 3, .refill = std::chrono::seconds(1)};
    options.now = [this] { return now_; };
    options.steady_now = [this] { return steady_; };
    return options;
  }
  Admission admit(const Digest& hash, const std::string& name) {
    asked_.push_back(name);
    const Redeemed redeemed = redeem(records_, hash, now_);
    if (!redeemed.role) {
      return {.member = {}, .reason = redeemed.reason};
    }
    return {.member = Member{.id = make_member_id(), .role = *redeemed.role}, .reason = {}};
  }

  const Authority authority_ = Authority::make(kNow);
  const PrivateKey key_ = PrivateKey::make();
  const Token token_ = make_token(Role::kProvider, authority_.certificate().fingerprint());
  WallTime now_ = kNow;
  AttemptLimit::TimePoint steady_{std::chrono::hours(1)};
  std::vector<std::string> asked_;
  std::vector<TokenRecord> records_{
      record_of(token_, {.expires = kNow + std::chrono::minutes(10), .uses = 2})};
  EnrolmentDesk desk_{
      authority_, [this](const Digest& hash, const std::string& name) { return admit(hash, name); },
      options()};
};

TEST_F(Desk, GivesACertificateForAToken) {
  const EnrolmentAnswer answer = desk_.enrol(form());
  ASSERT_EQ(answer.outcome, EnrolmentOutcome::kAdmitted);
  EXPECT_TRUE(answer.certificate->has_key(key_));
  EXPECT_EQ(answer.certificate->member().role, Role::kProvider);
  check_issued(*answer.certificate, authority_.certificate(), kNow);
  EXPECT_EQ(asked_, std::vector<std::string>{"box"});
}

TEST_F(Desk, RefusesATokenThatIsUsedUp) {
  EXPECT_EQ(desk_.enrol(form()).outcome, EnrolmentOutcome::kAdmitted);
  EXPECT_EQ(desk_.enrol(form()).outcome, EnrolmentOutcome::kAdmitted);
  const EnrolmentAnswer replay = desk_.enrol(form());
  EXPECT_EQ(replay.outcome, EnrolmentOutcome::kRefused);
  EXPECT_EQ(replay.text, "the token has been used up.");
  EXPECT_FALSE(replay.certificate);
}

TEST_F(Desk, RefusesATokenThatHasExpired) {
  now_ += std::chrono::minutes(10);
  EXPECT_EQ(desk_.enrol(form()).text, "the token expired on 2026-11-16 12:10 UTC.");
}

TEST_F(Desk, AFormThatIsWrongCostsNoUse) {
  std::vector<EnrolmentForm> wrong(6, form());
  wrong[0].name = "box\x1b[2J";
  wrong[1].name = "";
  wrong[2].request = "no request";
  wrong[3].request = std::string(100'000, 'A');
  wrong[4].secret.pop_back();
  wrong[5].secret += "x";
  for (EnrolmentForm& form : wrong) {
    form.host = "host " + std::to_string(&form - wrong.data());
    const EnrolmentAnswer answer = desk_.enrol(form);
    EXPECT_EQ(answer.outcome, EnrolmentOutcome::kMalformed);
    EXPECT_FALSE(answer.certificate);
    EXPECT_FALSE(has(answer.text, form.secret));
    EXPECT_FALSE(has(answer.text, "\x1b"));
  }
  EXPECT_TRUE(asked_.empty());
  EXPECT_EQ(records_[0].uses_left, 2U);
}

TEST_F(Desk, GuessingIsSlow) {
  EnrolmentForm guess = form();
  unsigned refused = 0;
  unsigned turned_away = 0;
  for (int i = 0; i < 1000; ++i) {
    guess.secret[0] = static_cast<char>(guess.secret[0] + 1);
    guess.secret[1] = static_cast<char>(guess.secret[1] + (i % 256 == 0 ? 1 : 0));
    const EnrolmentOutcome outcome = desk_.enrol(guess).outcome;
    refused += outcome == EnrolmentOutcome::kRefused ? 1 : 0;
    turned_away += outcome == EnrolmentOutcome::kTooMany ? 1 : 0;
  }
  EXPECT_EQ(refused, 3U);
  EXPECT_EQ(turned_away, 997U);
  EXPECT_EQ(asked_.size(), 3U);
  // Others are not held up, and a while later neither is this host.
  EnrolmentForm other = form();
  other.host = "192.0.2.2";
  EXPECT_EQ(desk_.enrol(other).outcome, EnrolmentOutcome::kAdmitted);
  EXPECT_EQ(desk_.enrol(form()).outcome, EnrolmentOutcome::kTooMany);
  steady_ += std::chrono::seconds(1);
  EXPECT_EQ(desk_.enrol(form()).outcome, EnrolmentOutcome::kAdmitted);
}

TEST(AttemptLimit, RemembersNoMoreThanItMay) {
  AttemptLimit limit({.burst = 1, .refill = std::chrono::seconds(1), .hosts = 10});
  const AttemptLimit::TimePoint start{std::chrono::hours(1)};
  for (int i = 0; i < 100; ++i) {
    limit.on_failure(std::to_string(i), start + std::chrono::milliseconds(i));
  }
  const auto later = start + std::chrono::milliseconds(200);
  EXPECT_TRUE(limit.may_try("0", later));  // forgotten for newer ones
  EXPECT_FALSE(limit.may_try("99", later));
  EXPECT_FALSE(limit.may_try("90", later));
  EXPECT_TRUE(limit.may_try("89", later));
}

TEST(AttemptLimit, GivesAttemptsBackOneByOne) {
  AttemptLimit limit({.burst = 2, .refill = std::chrono::seconds(1), .hosts = 10});
  AttemptLimit::TimePoint now{std::chrono::hours(1)};
  limit.on_failure("a", now);
  EXPECT_TRUE(limit.may_try("a", now));
  limit.on_failure("a", now);
  EXPECT_FALSE(limit.may_try("a", now));
  now += std::chrono::seconds(1);
  EXPECT_TRUE(limit.may_try("a", now));
  limit.on_failure("a", now);
  EXPECT_FALSE(limit.may_try("a", now));
  now += std::chrono::hours(1);
  limit.on_failure("a", now);
  EXPECT_TRUE(limit.may_try("a", now));
}

}  // namespace
}  // namespace ravnest::trust
