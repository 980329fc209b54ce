#include "ravnest/dashboard/routes.h"

#include <algorithm>
#include <array>

namespace ravnest::dashboard {

namespace {

constexpr std::size_t kLongestArgument = 64;
constexpr std::string_view kText = "text/plain; charset=utf-8";
constexpr std::string_view kScript = "text/javascript; charset=utf-8";
constexpr std::string_view kJson = "application/json";

constexpr std::array kRoutes = {
    Route{.path = "/", .file = "index.html", .type = "text/html; charset=utf-8"},
    Route{.path = "/app.js", .file = "app.js", .type = kScript},
    Route{.path = "/view.js", .file = "view.js", .type = kScript},
    Route{.path = "/dom.js", .file = "dom.js", .type = kScript},
    Route{.path = "/picture.js", .file = "picture.js", .type = kScript},
    Route{.path = "/chart.js", .file = "chart.js", .type = kScript},
    Route{.path = "/style.css", .file = "style.css", .type = "text/css; charset=utf-8"},
    Route{.path = "/favicon.svg", .file = "favicon.svg", .type = "image/svg+xml"},
    Route{.path = "/healthz", .task = Task::kHealth, .type = kText},
    Route{.path = "/metrics", .task = Task::kMetrics, .type = "text/plain; version=0.0.4"},
    Route{.path = "/api/state", .task = Task::kState, .type = kJson},
    Route{.path = "/api/jobs/<job>", .task = Task::kJob, .type = kJson},
    Route{.path = "/api/events", .task = Task::kEvents, .type = "text/event-stream"},
    Route{.path = "/api/session", .task = Task::kSession, .type = kJson},
    Route{"/api/login", Method::kPost, Needs::kSecret, Task::kLogin, {}, kJson},
    Route{"/api/logout", Method::kPost, Needs::kSession, Task::kLogout, {}, kJson},
    Route{"/api/providers/<provider>/pause",
          Method::kPost,
          Needs::kSession,
          Task::kPauseProvider,
          {},
          kJson},
    Route{"/api/providers/<provider>/resume",
          Method::kPost,
          Needs::kSession,
          Task::kResumeProvider,
          {},
          kJson},
    Route{"/api/providers/<provider>/remove",
          Method::kPost,
          Needs::kSession,
          Task::kRemoveProvider,
          {},
          kJson},
    Route{"/api/jobs/<job>/cancel", Method::kPost, Needs::kSession, Task::kCancelJob, {}, kJson},
    Route{"/api/jobs/<job>/forget", Method::kPost, Needs::kSession, Task::kForgetJob, {}, kJson},
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_argument(std::string_view kind, std::string_view text) {
  if (kind == "job") {
    constexpr std::size_t kMostDigits = 15;
    return !text.empty() && text.size() <= kMostDigits && std::ranges::all_of(text, is_digit);
  }
  return !text.empty() && text.size() <= kLongestArgument && std::ranges::all_of(text, [](char c) {
    return is_digit(c) || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '.' ||
           c == '_' || c == '-';
  });
}

// What stands in place of the <> part; nothing where the path is another.
std::optional<std::string> match(std::string_view pattern, std::string_view path) {
  const std::size_t open = pattern.find('<');
  if (open == std::string_view::npos) {
    return pattern == path ? std::optional<std::string>("") : std::nullopt;
  }
  const std::size_t close = pattern.find('>');
  const std::string_view before = pattern.substr(0, open);
  const std::string_view after = pattern.substr(close + 1);
  if (path.size() < before.size() + after.size() || !path.starts_with(before) ||
      !path.ends_with(after)) {
    return std::nullopt;
  }
  const auto argument = path.substr(before.size(), path.size() - before.size() - after.size());
  return is_argument(pattern.substr(open + 1, close - open - 1), argument)
             ? std::optional<std::string>(argument)
             : std::nullopt;
}

bool is_asked_with(const Route& route, std::string_view method) {
  return route.method == Method::kGet ? method == "GET" || method == "HEAD" : method == "POST";
}

}  // namespace

std::span<const Route> routes() { return kRoutes; }

Lookup find_route(std::string_view method, std::string_view path) {
  Lookup lookup;
  for (const Route& route : kRoutes) {
    auto argument = match(route.path, path);
    if (!argument) {
      continue;
    }
    if (is_asked_with(route, method)) {
      return {.found = Found{&route, *std::move(argument)}};
    }
    lookup.allowed = route.method == Method::kGet ? "GET, HEAD" : "POST";
  }
  return lookup;
}

}  // namespace ravnest::dashboard
