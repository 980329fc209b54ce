#include <gtest/gtest.h>

#include "tests/dashboard/site.h"

namespace ravnest::dashboard {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

constexpr milliseconds kSoon{1};

class Watch : public Wire {
 public:
  explicit Watch(const Site& site, int buffer = 0) : Wire(site.address(), "127.0.0.1", buffer) {
    send(text_of({.path = "/api/events", .headers = {{"Host", site.address()}}}));
  }
};

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

TEST(Events, BeginWithHowThingsStand) {
  Site site({}, "{\"a\":1}");
  Watch watch(site);
  const std::string got = watch.read_until("data: {\"a\":1}\n\n");
  EXPECT_EQ(parse_answer(got).status, 200);
  EXPECT_EQ(parse_answer(got).header("Content-Type"), "text/event-stream");
  EXPECT_NE(got.find("event: state\n"), std::string::npos);
}

TEST(Events, FollowEveryChange) {
  Site site({.limits = {.between_events = kSoon}}, "{\"a\":0}");
  Watch watch(site);
  watch.read_until("{\"a\":0}");
  for (int i = 1; i <= 5; ++i) {
    const std::string view = concat("{\"a\":", i, "}");
    site.set_view(view);
    site.server().notify();
    watch.read_until("data: " + view + "\n\n");
  }
}

TEST(Events, ManyChangesAreOneEvent) {
  Site site({.limits = {.between_events = hours{1}, .heartbeat = kSoon}});
  Watch watch(site);
  watch.read_until("event: state");
  watch.forget();
  site.server().notify();
  watch.read_until("event: state");
  const int views = site.views;
  watch.forget();
  for (int i = 0; i < 1000; ++i) {
    site.server().notify();
  }
  watch.read_until(":\n\n");
  watch.forget();
  EXPECT_EQ(count(watch.read_until(":\n\n"), "event: state"), 2U);
  EXPECT_EQ(site.views, views);
}

TEST(Events, OneViewServesAllWatchers) {
  Site site({.limits = {.between_events = kSoon}}, "{\"a\":0}");
  std::vector<std::unique_ptr<Watch>> watches;
  for (int i = 0; i < 20; ++i) {
    watches.push_back(std::make_unique<Watch>(site));
    watches.back()->read_until("{\"a\":0}");
  }
  const int views = site.views;
  site.set_view("{\"a\":1}");
  site.server().notify();
  for (const auto& watch : watches) {
    watch->read_until("{\"a\":1}");
  }
  EXPECT_EQ(site.views, views + 1);
}

TEST(Events, NobodyWatchingCostsNothing) {
  Site site({.limits = {.between_events = kSoon}});
  for (int i = 0; i < 100; ++i) {
    site.server().notify();
    EXPECT_EQ(site.get("/healthz").status, 200);
  }
  EXPECT_EQ(site.views, 0);
}

TEST(Events, AHeartbeatShowsThatTheServerLives) {
  Site site({.limits = {.heartbeat = kSoon}});
  Watch watch(site);
  watch.read_until("event: state");
  for (int i = 0; i < 3; ++i) {
    watch.read_until(":\n\n");
    watch.forget();
  }
  EXPECT_FALSE(watch.is_closed());
}

TEST(Events, BeyondTheLimitAWatcherIsRefusedAndAFreeSeatIsGiven) {
  Site site({.limits = {.between_events = kSoon, .heartbeat = kSoon}});
  std::vector<std::unique_ptr<Watch>> watches;
  for (std::size_t i = 0; i < HttpLimits{}.watchers; ++i) {
    watches.push_back(std::make_unique<Watch>(site));
    EXPECT_EQ(parse_answer(watches.back()->read_until("event: state")).status, 200) << i;
  }
  const Answer refused = site.get("/api/events");
  EXPECT_EQ(refused.status, 503);
  EXPECT_NE(refused.header("Retry-After"), "");
  EXPECT_EQ(site.get("/api/state").status, 200) << "everything else is served";
  watches.pop_back();
  // The server finds out by its next words.
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  int status = 503;
  while (status == 503 && std::chrono::steady_clock::now() < deadline) {
    status = parse_answer(Watch(site).read_until("\r\n\r\n")).status;
  }
  EXPECT_EQ(status, 200);
}

TEST(Events, AWatcherThatDoesNotReadIsLetGo) {
  Site site({.limits = {.watchers = 1, .write = milliseconds{50}, .between_events = kSoon}},
            "\"" + std::string(8 << 20, 'x') + "\"");
  Watch lazy(site, 4096);
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (site.views == 0 && std::chrono::steady_clock::now() < deadline) {
    EXPECT_EQ(site.get("/healthz").status, 200);
  }
  int status = 503;
  while (status == 503 && std::chrono::steady_clock::now() < deadline) {
    status = parse_answer(Watch(site).read_until("\r\n\r\n")).status;
  }
  EXPECT_EQ(status, 200) << "its seat is free again";
}

TEST(Events, AViewThatFailsEndsNoWatcherThatIsThere) {
  Site site({.limits = {.between_events = kSoon, .heartbeat = kSoon}}, "{\"a\":0}");
  Watch watch(site);
  watch.read_until("{\"a\":0}");
  site.is_broken = true;
  const int views = site.views;
  site.server().notify();
  while (site.views == views) {
    watch.forget();
    watch.read_until(":\n\n");
  }
  Watch unlucky(site);
  unlucky.read_until();
  EXPECT_TRUE(unlucky.is_closed());
  site.is_broken = false;
  site.set_view("{\"a\":1}");
  site.server().notify();
  watch.read_until("{\"a\":1}");
}

TEST(Events, AServerThatEndsLetsItsWatchersGo) {
  auto site = std::make_unique<Site>(HttpOptions{.limits = {.request = hours{1}}});
  Wire idle(site->address());
  Wire half(site->address());
  half.send("GET / HT");
  Watch watch(*site);
  watch.read_until("event: state");
  site.reset();
  watch.read_until();
  EXPECT_TRUE(watch.is_closed());
  idle.read_until();
  EXPECT_TRUE(idle.is_closed());
}

}  // namespace
}  // namespace ravnest::dashboard
