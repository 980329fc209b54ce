#include "ravnest/trust/token.h"

#include "ravnest/trust/token_record.h"
#include "tests/trust/world.h"

namespace ravnest::trust {
namespace {

TEST(Token, ComesBackFromItsText) {
  for (const Role role : {Role::kServer, Role::kProvider, Role::kRequester}) {
    const Token token = make_token(role, sha256("authority"));
    const Token read = parse_token("  " + to_text(token) + "\n");
    EXPECT_EQ(read.role, role);
    EXPECT_EQ(read.fingerprint, sha256("authority"));
    EXPECT_TRUE(is_equal(read.secret.bytes(), token.secret.bytes()));
  }
}

TEST(Token, IsOneWordForAShell) {
  const std::string text = to_text(make_token(Role::kProvider, sha256("x")));
  EXPECT_EQ(text.size(), 100U);
  EXPECT_EQ(text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                   "0123456789-_"),
            std::string::npos);
}

TEST(Token, HasASecretOfItsOwn) {
  EXPECT_NE(to_text(make_token(Role::kProvider, sha256("x"))),
            to_text(make_token(Role::kProvider, sha256("x"))));
}

TEST(Token, SaysThatItIsCutOffWhereverItIs) {
  const std::string text = to_text(make_token(Role::kProvider, sha256("x")));
  for (std::size_t size = 8; size < text.size(); ++size) {
    EXPECT_TRUE(has(refusal_of([&] { parse_token(text.substr(0, size)); }), "cut off")) << size;
  }
  EXPECT_TRUE(has(refusal_of([&] { parse_token(text + "x"); }), "something behind it"));
  EXPECT_TRUE(has(refusal_of([&] { parse_token(text.substr(1)); }), "another text"));
  EXPECT_TRUE(has(refusal_of([&] { parse_token(""); }), "another text"));
  EXPECT_TRUE(has(refusal_of([&] { parse_token("ravnest2" + text.substr(8)); }), "version"));
}

TEST(Token, NoticesEveryLetterThatIsAnother) {
  const std::string text = to_text(make_token(Role::kProvider, sha256("x")));
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (const char other : {'A', 'b', '0', '-', '_', ' ', '\0', '\n', '\xff'}) {
      std::string changed = text;
      changed[i] = other;
      if (changed != text) {
        EXPECT_NE(refusal_of([&] { parse_token(changed); }), "") << i;
      }
    }
  }
}

TEST(Token, NoPartOfItIsInAnError) {
  const std::string text = to_text(make_token(Role::kProvider, sha256("x")));
  std::vector<std::string> broken{text + "x", text.substr(1), text.substr(0, 50),
                                  "ravnest2" + text.substr(8)};
  for (std::size_t i = 8; i < text.size(); ++i) {
    broken.push_back(text);
    broken.back()[i] = broken.back()[i] == 'x' ? 'y' : 'x';
  }
  for (const std::string& token : broken) {
    const std::string said = refusal_of([&] { parse_token(token); });
    ASSERT_NE(said, "");
    for (std::size_t at = 8; at + 6 <= token.size(); ++at) {
      EXPECT_FALSE(has(said, token.substr(at, 6))) << said;
    }
  }
}

// Whether a type can be written to a log by mistake.
template <typename Kind>
concept Printable = requires(std::ostream& out, const Kind& kind) { out << kind; };

static_assert(!Printable<Token> && !Printable<Secret> && !Printable<PrivateKey>);

class Records : public ::testing::Test {
 protected:
  Token token_ = make_token(Role::kRequester, sha256("x"));
  WallTime expires_ = kNow + std::chrono::minutes(10);
  std::vector<TokenRecord> records_{
      record_of(make_token(Role::kProvider, sha256("x")), {.expires = expires_, .uses = 5}),
      record_of(token_, {.expires = expires_, .uses = 2}),
      record_of(make_token(Role::kProvider, sha256("x")), {.expires = expires_, .uses = 5})};
};

TEST_F(Records, HoldNoSecret) {
  EXPECT_FALSE(is_equal(records_[1].secret_hash, token_.secret.bytes()));
  EXPECT_NE(records_[1].secret_hash, sha256(token_.secret.bytes()));
}

TEST_F(Records, AreUsedUp) {
  EXPECT_EQ(redeem(records_, token_.secret.hash(), kNow).role, Role::kRequester);
  EXPECT_EQ(redeem(records_, token_.secret.hash(), kNow).role, Role::kRequester);
  for (int i = 0; i < 3; ++i) {
    const Redeemed again = redeem(records_, token_.secret.hash(), kNow);
    EXPECT_FALSE(again.role);
    EXPECT_TRUE(has(again.reason, "used up")) << again.reason;
  }
  EXPECT_EQ(records_[1].uses_left, 0U);
  EXPECT_EQ(records_[0].uses_left, 5U);
}

TEST_F(Records, Expire) {
  EXPECT_TRUE(
      redeem(records_, token_.secret.hash(), expires_ - std::chrono::seconds(1)).role.has_value());
  const Redeemed late = redeem(records_, token_.secret.hash(), expires_);
  EXPECT_FALSE(late.role);
  EXPECT_EQ(late.reason, "the token expired on 2026-11-16 12:10 UTC.");
  EXPECT_EQ(records_[1].uses_left, 1U);
}

TEST_F(Records, KnowNoOtherSecret) {
  const Redeemed other =
      redeem(records_, make_token(Role::kProvider, sha256("x")).secret.hash(), kNow);
  EXPECT_FALSE(other.role);
  EXPECT_TRUE(has(other.reason, "not known")) << other.reason;
  EXPECT_FALSE(redeem({}, token_.secret.hash(), kNow).role);
}

}  // namespace
}  // namespace ravnest::trust
