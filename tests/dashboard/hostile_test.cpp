#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/dashboard/names.h"
#include "tests/dashboard/site.h"

namespace ravnest::dashboard {
namespace {

using std::chrono::milliseconds;
using std::string_literals::operator""s;

std::string head(const Site& site, const std::string& more) {
  return "GET /healthz HTTP/1.1\r\nHost: " + site.address() + "\r\n" + more;
}

TEST(Hostile, ARequestThatTricklesIsCutOff) {
  Site site({.limits = {.request = milliseconds{100}}});
  Wire wire(site.address());
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  wire.send(head(site, ""));
  // Every byte comes well before the one before it is forgotten; the whole never comes.
  while (wire.send("x") && std::chrono::steady_clock::now() < deadline) {
    ::poll(nullptr, 0, 1);
  }
  EXPECT_LT(std::chrono::steady_clock::now(), deadline) << "still listened to";
}

TEST(Hostile, ManyWhoSayNothingDoNotKeepOthersOut) {
  Site site({.limits = {.watchers = 4, .request = milliseconds{100}}});
  std::vector<std::unique_ptr<Wire>> idle;
  for (int i = 0; i < 300; ++i) {
    idle.push_back(std::make_unique<Wire>(site.address(), "127.0.0.2"));
    idle.back()->send("GET /he");
  }
  EXPECT_EQ(site.get("/healthz").status, 200);
  for (const auto& wire : idle) {
    wire->read_until();
    EXPECT_TRUE(wire->is_closed());
  }
}

TEST(Hostile, AHeadWithoutEndIsRefused) {
  constexpr std::size_t kMuch = 64 << 20;  // the sockets between hold a few
  Site site;
  for (const std::string& part :
       {std::string(1024, 'a'), std::string("a: b\r\n"), "a: " + std::string(1000, 'b') + "\r\n"}) {
    Wire wire(site.address());
    wire.send(head(site, ""));
    std::size_t sent = 0;
    while (sent < kMuch && wire.send(part)) {
      sent += part.size();
    }
    EXPECT_LT(sent, kMuch) << "took it all";
  }
  EXPECT_EQ(site.get("/healthz").status, 200);
}

TEST(Hostile, WhatIsNotHttpIsRefused) {
  Site site;
  for (const std::string& text :
       {"\r\n\r\n"s, "\0\0\0\0\r\n\r\n"s, "GET\r\n\r\n"s, "GET / HTTP/9.9\r\n\r\n"s,
        "BREW / HTTP/1.1\r\n\r\n"s, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"s,
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"s}) {
    Wire wire(site.address());
    wire.send(text);
    const Answer answer = parse_answer(wire.read_until());
    EXPECT_EQ(answer.status, 400) << text;
    EXPECT_EQ(answer.header("X-Content-Type-Options"), "nosniff") << text;
  }
}

TEST(Hostile, RangesAndEncodingsAreNotPlayedWith) {
  Site site;
  std::string ranges = "bytes=0-";
  for (int i = 0; i < 2600; ++i) {
    ranges += ",0-";
  }
  const Answer answer = site.ask(
      {.path = "/app.js",
       .headers = {{"Host", site.address()}, {"Range", ranges}, {"Accept-Encoding", "gzip, br"}}});
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, site.get("/app.js").body);
  EXPECT_EQ(answer.header("Content-Encoding"), "");
  EXPECT_EQ(answer.header("Accept-Ranges"), "none");
  EXPECT_EQ(site.get("/").header("Accept-Ranges"), "none");
}

TEST(Hostile, BodiesAreBounded) {
  Site site;
  const auto status = [&](const std::string& name, const std::string& value) {
    Ask ask = site.post_of("/api/login", "{\"secret\": \"guess\"}");
    std::erase_if(ask.headers, [&](const auto& header) { return header.first == name; });
    if (!value.empty()) {
      ask.headers.emplace_back(name, value);
    }
    return site.ask(ask).status;
  };
  EXPECT_EQ(status("Content-Length", "65537"), 413);
  EXPECT_EQ(status("Content-Length", "99999999999999999999999"), 411);
  EXPECT_EQ(status("Content-Length", "-1"), 411);
  EXPECT_EQ(status("Content-Length", "1,1"), 411);
  EXPECT_EQ(status("Content-Length", ""), 411);
  EXPECT_EQ(status("Transfer-Encoding", "chunked"), 411);
  EXPECT_EQ(status("Content-Encoding", "gzip"), 415);
  EXPECT_EQ(status("Content-Encoding", "br"), 415);
  EXPECT_EQ(site.owner_questions, 0);
  const std::string large = "{\"secret\": \"" + std::string(60'000, 'a') + "\"}";
  EXPECT_EQ(site.ask(site.post_of("/api/login", large)).status, 401);
}

TEST(Hostile, TheAnswerArrivesThoughTheBodyWasNotRead) {
  Site site;
  Ask ask = site.post_of("/api/login", std::string(60'000, 'a'));
  ask.headers[1].second = "http://evil.example";
  Wire wire(site.address());
  EXPECT_TRUE(wire.send(text_of(ask)));
  EXPECT_EQ(parse_answer(wire.read_until()).status, 403);
  EXPECT_FALSE(wire.was_reset());
}

TEST(Hostile, ABodyThatDoesNotComeIsNotWaitedForLong) {
  Site site({.limits = {.request = milliseconds{100}}});
  Ask ask = site.post_of("/api/login", "{}");
  ask.headers[3].second = "1000";
  EXPECT_EQ(site.ask(ask).status, 408);
}

TEST(Hostile, DeepJsonIsNotParsed) {
  Site site;
  EXPECT_EQ(site.ask(site.post_of("/api/login", std::string(50'000, '['))).status, 401);
}

TEST(Hostile, FiftyNamesComeThroughAsTheyAre) {
  using Json = nlohmann::json;
  const std::vector<std::string> names = hostile_names();
  ASSERT_GE(names.size(), 50U);
  Json providers = Json::array();
  for (const std::string& name : names) {
    providers.push_back({{"name", name}});
  }
  Site site({}, Json{{"providers", providers}}.dump());
  const Answer answer = site.get("/api/state");
  EXPECT_EQ(answer.header("Content-Type"), "application/json");
  EXPECT_EQ(Json::parse(answer.body)["providers"], providers);
  Wire wire(site.address());
  wire.send(text_of({.path = "/api/events", .headers = {{"Host", site.address()}}}));
  const std::string got = wire.read_until("\n\n\r\n");
  const std::size_t begin = got.find("data: ") + 6;
  EXPECT_EQ(Json::parse(got.substr(begin, got.find("\n\n", begin) - begin))["providers"], providers)
      << "none of them ends an event";
}

}  // namespace
}  // namespace ravnest::dashboard
