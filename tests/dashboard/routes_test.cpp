#include "ravnest/dashboard/routes.h"

#include <gtest/gtest.h>

#include "tests/dashboard/site.h"

namespace ravnest::dashboard {
namespace {

std::string path_of(const Route& route) {
  std::string path(route.path);
  const std::size_t open = path.find('<');
  if (open == std::string::npos) {
    return path;
  }
  const bool is_job = path.substr(open, 5) == "<job>";
  return path.replace(open, path.find('>') - open + 1, is_job ? "7" : "ada-1");
}

const std::vector<std::string> kMethods = {"GET",   "HEAD",    "POST",  "PUT",    "DELETE",
                                           "PATCH", "OPTIONS", "TRACE", "CONNECT"};

void set(Ask& ask, const std::string& name, const std::string& value) {
  std::erase_if(ask.headers, [&](const auto& header) { return header.first == name; });
  if (!value.empty()) {
    ask.headers.emplace_back(name, value);
  }
}

// How a request differs from one of the page, and what comes of it where the method is right.
struct Difference {
  std::string name;
  std::function<void(Ask&)> make;
  int to_watch = 200;
  int to_log_in = 200;
  int to_change = 200;
};

std::vector<Difference> differences(const Site& site) {
  const std::string port = site.port();
  const auto with = [](const char* name, const std::string& value) {
    return [=](Ask& ask) { set(ask, name, value); };
  };
  const std::string wrong = "ravnest_" + port + "=" + std::string(64, '0');
  return {
      {"nothing", [](Ask&) {}},
      {"no cookie", with("Cookie", ""), 200, 200, 401},
      {"a wrong cookie", with("Cookie", wrong), 200, 200, 401},
      {"an empty cookie", with("Cookie", "ravnest_" + port + "="), 200, 200, 401},
      {"no origin", with("Origin", ""), 200, 403, 403},
      {"another origin", with("Origin", "http://evil.example:" + port), 200, 403, 403},
      {"another port as origin", with("Origin", "http://127.0.0.1:1"), 200, 403, 403},
      {"null as origin", with("Origin", "null"), 200, 403, 403},
      {"another type", with("Content-Type", "text/plain"), 200, 415, 415},
      {"a form", with("Content-Type", "application/x-www-form-urlencoded"), 200, 415, 415},
      {"no type", with("Content-Type", ""), 200, 415, 415},
      {"no host", with("Host", ""), 421, 421, 421},
      {"another host", with("Host", "evil.example:" + port), 421, 421, 421},
      {"another host with its origin",
       [=](Ask& ask) {
         set(ask, "Host", "evil.example:" + port);
         set(ask, "Origin", "http://evil.example:" + port);
       },
       421, 421, 421},
      {"another port", with("Host", "127.0.0.1:1"), 421, 421, 421},
      {"no port", with("Host", "127.0.0.1"), 421, 421, 421},
  };
}

int wanted(const Route& route, const std::string& method, const Difference& difference) {
  const bool is_get = method == "GET" || method == "HEAD";
  if (difference.to_watch == 421) {
    return 421;
  }
  if (route.method == Method::kGet) {
    return is_get ? difference.to_watch : 405;
  }
  if (method != "POST") {
    return 405;
  }
  return route.needs == Needs::kSecret ? difference.to_log_in : difference.to_change;
}

// Every route, every method, every way to be wrong. A route that is added is in it at once.
TEST(Routes, OpenToThoseWhoMayAlone) {
  Site site;
  std::size_t allowed = 0;
  std::size_t asked = 0;
  for (const Route& route : routes()) {
    for (const std::string& method : kMethods) {
      for (const Difference& difference : differences(site)) {
        const std::string body =
            route.task == Task::kLogin ? concat("{\"secret\": \"", kOwnerSecret, "\"}") : "{}";
        Ask ask = site.post_of(path_of(route), body, site.cookie());
        ask.method = method;
        difference.make(ask);
        const std::size_t before = site.wishes().size();
        Answer answer;
        if (route.task == Task::kEvents && method == "GET") {
          Wire wire(site.address());
          wire.send(text_of(ask));
          answer = parse_answer(wire.read_until("\r\n\r\n"));
        } else {
          answer = site.ask(ask);
        }
        const int status = wanted(route, method, difference);
        EXPECT_EQ(answer.status, status)
            << method << " " << ask.path << ", differing by " << difference.name;
        const bool is_change = route.needs == Needs::kSession && route.task != Task::kLogout;
        EXPECT_EQ(site.wishes().size() - before, is_change && status == 200 ? 1U : 0U)
            << method << " " << ask.path << ", differing by " << difference.name;
        allowed += status == 200 ? 1 : 0;
        ++asked;
      }
    }
  }
  EXPECT_EQ(asked, routes().size() * kMethods.size() * differences(site).size());
  EXPECT_GT(allowed, routes().size());
}

TEST(Routes, ThoseThatChangeNeedASession) {
  for (const Route& route : routes()) {
    const bool is_login = route.task == Task::kLogin;
    EXPECT_EQ(route.needs, route.method == Method::kGet ? Needs::kNothing
                           : is_login                   ? Needs::kSecret
                                                        : Needs::kSession)
        << route.path;
  }
}

TEST(Routes, WishesArriveAsTheyWereMeant) {
  Site site;
  const std::string cookie = site.cookie();
  for (const char* path :
       {"/api/providers/ada-1/pause", "/api/providers/ada-1/resume", "/api/providers/ada-1/remove",
        "/api/jobs/12/cancel", "/api/jobs/34/forget"}) {
    EXPECT_EQ(site.ask(site.post_of(path, "{}", cookie)).status, 200);
  }
  const auto wishes = site.wishes();
  ASSERT_EQ(wishes.size(), 5U);
  EXPECT_EQ(wishes[0].kind, Wish::Kind::kPauseProvider);
  EXPECT_EQ(wishes[1].kind, Wish::Kind::kResumeProvider);
  EXPECT_EQ(wishes[2].kind, Wish::Kind::kRemoveProvider);
  EXPECT_EQ(wishes[3].kind, Wish::Kind::kCancelJob);
  EXPECT_EQ(wishes[4].kind, Wish::Kind::kForgetJob);
  EXPECT_EQ(wishes[0].provider, "ada-1");
  EXPECT_EQ(wishes[3].job, 12);
  EXPECT_EQ(wishes[4].job, 34);
  const Answer refused = site.ask(site.post_of("/api/providers/nobody/pause", "{}", cookie));
  EXPECT_EQ(refused.status, 409);
  EXPECT_EQ(refused.body, "{\"error\":\"nobody is not a member.\"}");
}

TEST(Routes, AnswerWhatTheyAreAskedFor) {
  Site site;
  EXPECT_EQ(site.get("/healthz").body, "ok\n");
  EXPECT_EQ(site.get("/metrics").body, "ravnest_boots 1\n");
  EXPECT_EQ(site.get("/api/state").body, "{\"jobs\":[]}");
  EXPECT_EQ(site.get("/api/jobs/7").body, "{\"id\":7}");
  EXPECT_EQ(site.get("/api/jobs/8").status, 404);
  EXPECT_EQ(site.get("/").header("Content-Type"), "text/html; charset=utf-8");
  EXPECT_NE(site.get("/").body.find("<!doctype html>"), std::string::npos);
  EXPECT_EQ(site.get("/app.js").header("Content-Type"), "text/javascript; charset=utf-8");
  site.is_ready = false;
  EXPECT_EQ(site.get("/healthz").status, 503);
}

TEST(Routes, HeadIsGetWithoutTheBody) {
  Site site;
  for (const char* path : {"/", "/api/state", "/metrics", "/style.css"}) {
    const Answer get = site.get(path);
    const Answer head =
        site.ask({.method = "HEAD", .path = path, .headers = {{"Host", site.address()}}});
    EXPECT_EQ(head.status, 200);
    EXPECT_EQ(head.body, "");
    EXPECT_EQ(head.header("Content-Length"), std::to_string(get.body.size()));
    EXPECT_EQ(head.header("Content-Type"), get.header("Content-Type"));
  }
}

TEST(Routes, EveryAnswerHasTheHeadersThatProtect) {
  Site site;
  for (const char* path : {"/", "/app.js", "/api/state", "/api/jobs/8", "/nowhere", "/metrics"}) {
    const Answer answer = site.get(path);
    const std::string policy = answer.header("Content-Security-Policy");
    EXPECT_NE(policy.find("default-src 'self'"), std::string::npos) << path;
    EXPECT_EQ(policy.find("unsafe"), std::string::npos) << path;
    EXPECT_EQ(answer.header("X-Content-Type-Options"), "nosniff") << path;
    EXPECT_EQ(answer.header("X-Frame-Options"), "DENY") << path;
    EXPECT_EQ(answer.header("Referrer-Policy"), "no-referrer") << path;
    EXPECT_EQ(answer.header("Cache-Control"), "no-store") << path;
    EXPECT_EQ(answer.header("Access-Control-Allow-Origin"), "") << path;
  }
}

TEST(Routes, ThereIsNothingElse) {
  Site site;
  for (const char* path : {"/index.html",
                           "//",
                           "/.",
                           "/..",
                           "/../etc/passwd",
                           "/%2e%2e/etc/passwd",
                           "/app.js/",
                           "/app.js%00.html",
                           "/API/state",
                           "/api",
                           "/api/",
                           "/api/jobs",
                           "/api/jobs/",
                           "/api/jobs/x",
                           "/api/jobs/-1",
                           "/api/jobs/1e3",
                           "/api/jobs/9999999999999999999",
                           "/api/jobs/7/",
                           "/api/jobs/7/8",
                           "/page/app.js",
                           "http://evil.example/",
                           "*",
                           "/favicon.ico"}) {
    EXPECT_EQ(site.get(path).status, 404) << path;
  }
  const std::string cookie = site.cookie();
  for (const std::string& path :
       {std::string("/api/providers//pause"), std::string("/api/providers/a/b/pause"),
        std::string("/api/providers/a%2Fb/pause"), std::string("/api/providers/<b>/pause"),
        std::string("/api/providers/a%20b/pause"),
        "/api/providers/" + std::string(65, 'a') + "/pause", std::string("/api/providers/pause"),
        std::string("/api/jobs/x/cancel")}) {
    EXPECT_EQ(site.ask(site.post_of(path, "{}", cookie)).status, 404) << path;
  }
  EXPECT_TRUE(site.wishes().empty());
  EXPECT_EQ(site.get("/" + std::string(4000, 'a')).status, 404);
}

TEST(Routes, AWrongMethodIsToldTheRightOne) {
  Site site;
  Ask ask = site.post_of("/api/state");
  EXPECT_EQ(site.ask(ask).header("Allow"), "GET, HEAD");
  ask.path = "/api/login";
  ask.method = "GET";
  EXPECT_EQ(site.ask(ask).header("Allow"), "POST");
}

TEST(Routes, AFailureIsToldWithoutItsText) {
  Site site;
  site.is_broken = true;
  const Answer answer = site.get("/api/state");
  EXPECT_EQ(answer.status, 500);
  EXPECT_EQ(answer.body, "{\"error\":\"the server could not answer.\"}");
  for (const auto& [name, value] : answer.headers) {
    EXPECT_EQ(value.find("/home"), std::string::npos) << name;
  }
  site.is_broken = false;
  EXPECT_EQ(site.get("/api/state").status, 200);
}

}  // namespace
}  // namespace ravnest::dashboard
