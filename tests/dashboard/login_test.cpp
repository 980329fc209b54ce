#include <gtest/gtest.h>

#include "ravnest/dashboard/sessions.h"
#include "tests/dashboard/site.h"

namespace ravnest::dashboard {
namespace {

TEST(Login, TheSecretOpensASession) {
  Site site;
  const Answer answer = site.log_in(kOwnerSecret);
  EXPECT_EQ(answer.status, 200);
  const std::string cookie = answer.header("Set-Cookie");
  EXPECT_TRUE(cookie.starts_with("ravnest_" + site.port() + "=")) << cookie;
  for (const char* part : {"; HttpOnly", "; SameSite=Strict", "; Path=/", "; Max-Age=43200"}) {
    EXPECT_NE(cookie.find(part), std::string::npos) << cookie;
  }
  EXPECT_EQ(cookie.find(';') - cookie.find('=') - 1, 64U) << "256 bits";
  EXPECT_NE(site.cookie(), site.cookie());
}

TEST(Login, ThePageCanAskWhetherItIsOpen) {
  Site site;
  EXPECT_NE(site.get("/api/session").body.find("\"is_owner\":false"), std::string::npos);
  const Answer answer = site.ask(
      {.path = "/api/session", .headers = {{"Host", site.address()}, {"Cookie", site.cookie()}}});
  EXPECT_NE(answer.body.find("\"is_owner\":true"), std::string::npos);
}

TEST(Login, AnotherSecretOpensNothing) {
  Site site;
  for (const char* body : {"{\"secret\": \"guess\"}", "{\"secret\": 5}", "{}", "[]", "x"}) {
    const Answer answer = site.ask(site.post_of("/api/login", body));
    EXPECT_EQ(answer.status, 401) << body;
    EXPECT_EQ(answer.header("Set-Cookie"), "") << body;
  }
}

TEST(Login, AfterFiveFailuresAnAddressMustWait) {
  Site site;
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(site.log_in("guess").status, 401);
  }
  EXPECT_EQ(site.log_in("guess").status, 429);
  EXPECT_EQ(site.log_in(kOwnerSecret).status, 429) << "the right one is not told from wrong ones";
  EXPECT_EQ(site.owner_questions, 5);
  EXPECT_EQ(site.log_in(kOwnerSecret, "127.0.0.2").status, 200)
      << "another address is not to blame";
}

TEST(Login, AnotherSitesPageCannotUseUpTheAttempts) {
  Site site;
  Ask ask = site.post_of("/api/login", "{\"secret\": \"guess\"}");
  ask.headers[1].second = "http://evil.example";
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(site.ask(ask).status, 403);
  }
  EXPECT_EQ(site.log_in(kOwnerSecret).status, 200);
}

TEST(Login, LoggingOutEndsTheSessionForGood) {
  Site site;
  const std::string mine = site.cookie();
  const std::string other = site.cookie();
  const Answer out = site.ask(site.post_of("/api/logout", "{}", mine));
  EXPECT_EQ(out.status, 200);
  EXPECT_NE(out.header("Set-Cookie").find("Max-Age=0"), std::string::npos);
  EXPECT_EQ(site.ask(site.post_of("/api/jobs/7/cancel", "{}", mine)).status, 401);
  EXPECT_EQ(site.ask(site.post_of("/api/jobs/7/cancel", "{}", other)).status, 200);
}

TEST(Login, TheCookieIsFoundAmongOthers) {
  Site site;
  const std::string cookie = site.cookie();
  const std::string name = cookie.substr(0, cookie.find('='));
  const auto status = [&](const std::string& header) {
    return site.ask(site.post_of("/api/jobs/7/cancel", "{}", header)).status;
  };
  EXPECT_EQ(status("a=b; " + cookie + "; c=d"), 200);
  EXPECT_EQ(status(name + "=old; " + cookie), 200);
  EXPECT_EQ(status("x" + cookie), 401);
  EXPECT_EQ(status(cookie + "0"), 401);
  EXPECT_EQ(status("a=" + cookie), 401);
}

TEST(SessionsUnit, AreGoodForTwelveHours) {
  Sessions sessions;
  const Sessions::TimePoint now{};
  const std::string word = sessions.open("a", now, [] { return true; }).word;
  EXPECT_TRUE(sessions.is_open(word, now + Sessions::kGoodFor - std::chrono::seconds{1}));
  EXPECT_FALSE(sessions.is_open(word, now + Sessions::kGoodFor));
  EXPECT_FALSE(sessions.is_open("", now));
}

TEST(SessionsUnit, TheOldestGoWhenThereAreTooMany) {
  Sessions sessions;
  Sessions::TimePoint now{};
  const std::string first = sessions.open("a", now, [] { return true; }).word;
  std::string last;
  for (int i = 0; i < 256; ++i) {
    now += std::chrono::seconds{1};
    last = sessions.open("a", now, [] { return true; }).word;
  }
  EXPECT_FALSE(sessions.is_open(first, now));
  EXPECT_TRUE(sessions.is_open(last, now));
}

TEST(SessionsUnit, AttemptsComeBackWithTime) {
  Sessions sessions;
  Sessions::TimePoint now{std::chrono::hours{1}};
  const auto guess = [&] { return sessions.open("a", now, [] { return false; }).may_try; };
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(guess());
  }
  EXPECT_FALSE(guess());
  now += std::chrono::seconds{60};
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(guess());
  }
  EXPECT_FALSE(guess());
}

TEST(SessionsUnit, AnIpv6NetworkIsOneHost) {
  EXPECT_EQ(counted_host("2001:db8:1:2::1"), counted_host("2001:db8:1:2:ffff::9"));
  EXPECT_NE(counted_host("2001:db8:1:2::1"), counted_host("2001:db8:1:3::1"));
  EXPECT_NE(counted_host("::ffff:10.0.0.1"), counted_host("::ffff:10.0.0.2"));
  EXPECT_EQ(counted_host("10.0.0.1"), "10.0.0.1");
}

}  // namespace
}  // namespace ravnest::dashboard
