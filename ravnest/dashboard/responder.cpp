#include "ravnest/dashboard/responder.h"

#include <nlohmann/json.hpp>

#include "ravnest/base/error.h"
#include "ravnest/base/json_text.h"
#include "ravnest/dashboard/page.h"

namespace ravnest::dashboard {

namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr const char* kJsonType = "application/json";
constexpr std::size_t kDeepest = 8;

// No script, style or picture but our own files; nobody may frame the page or read it from another
// origin; text is never taken for markup.
const httplib::Headers kHeaders = {
    {"Content-Security-Policy",
     "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
     "object-src 'none'; require-trusted-types-for 'script'"},
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Cache-Control", "no-store"},
    {"Accept-Ranges", "none"}};

void say(httplib::Response& response, const Json& json) {
  response.set_content(json.dump(-1, ' ', false, Json::error_handler_t::replace), kJsonType);
}

void refuse(httplib::Response& response, int status, const std::string& reason) {
  response.status = status;
  say(response, {{"error", reason}});
}

std::string secret_in(const std::string& body) {
  const Json json = is_deeper_than(body, kDeepest) ? Json() : Json::parse(body, nullptr, false);
  const auto secret = json.is_object() ? json.find("secret") : json.end();
  return secret != json.end() && secret->is_string() ? secret->get<std::string>() : "";
}

Wish wish_of(const Found& found) {
  const auto of_provider = [&](Wish::Kind kind) {
    return Wish{.kind = kind, .provider = found.argument};
  };
  const auto of_job = [&](Wish::Kind kind) {
    return Wish{.kind = kind, .job = std::stoll(found.argument)};
  };
  switch (found.route->task) {
    case Task::kPauseProvider:
      return of_provider(Wish::Kind::kPauseProvider);
    case Task::kResumeProvider:
      return of_provider(Wish::Kind::kResumeProvider);
    case Task::kRemoveProvider:
      return of_provider(Wish::Kind::kRemoveProvider);
    case Task::kCancelJob:
      return of_job(Wish::Kind::kCancelJob);
    case Task::kForgetJob:
      return of_job(Wish::Kind::kForgetJob);
    default:
      RAVNEST_CHECK(false);
  }
}

std::int64_t wall_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

}  // namespace

Responder::Responder(const std::string& address, const HttpOptions& options, const Source& source)
    : source_(source),
      guard_(address, options.hosts),
      // Browsers do not tell the ports of one host apart.
      cookie_("ravnest_" + address.substr(address.rfind(':') + 1)),
      since_(wall_seconds()),
      feed_(source.view, options.limits) {
  svr_sock_ = 0;  // the library's word for: is not shutting down
  set_default_headers(kHeaders);
  set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
    return answer_head(request, response) ? HandlerResponse::Handled : HandlerResponse::Unhandled;
  });
  Post("/api/.*",
       [this](const httplib::Request& request, httplib::Response& response,
              const httplib::ContentReader& read) { answer_body(request, response, read); });
  set_exception_handler(
      [](const httplib::Request&, httplib::Response& response, const std::exception_ptr&) {
        refuse(response, 500, "the server could not answer.");
      });
}

void Responder::serve(Connection& connection) {
  bool is_closed = false;
  try {
    process_request(connection, true, is_closed, [](httplib::Request& request) {
      request.headers.erase("Accept-Encoding");
      request.ranges.clear();
    });
  } catch (const std::exception&) {
    // A view that fails while a watcher waits for it: the watcher comes back.
  }
  connection.finish();
}

void Responder::stop() {
  svr_sock_ = INVALID_SOCKET;
  feed_.close();
}

bool Responder::answer_head(const httplib::Request& request, httplib::Response& response) {
  const Lookup lookup = find_route(request.method, request.path);
  if (const auto fault = guard_.find_fault(request, lookup)) {
    if (!fault->allowed.empty()) {
      response.set_header("Allow", fault->allowed);
    }
    refuse(response, fault->status, fault->reason);
    return true;
  }
  const Needs needs = lookup.found->route->needs;
  if (needs == Needs::kSession && !has_session(request)) {
    refuse(response, 401, "log in with the owner's secret first.");
    return true;
  }
  if (needs != Needs::kNothing) {
    return false;
  }
  answer_get(*lookup.found, request, response);
  return true;
}

void Responder::answer_get(const Found& found, const httplib::Request& request,
                           httplib::Response& response) {
  const std::string type(found.route->type);
  switch (found.route->task) {
    case Task::kFile: {
      const std::string_view file = find_page_file(found.route->file);
      response.set_content(file.data(), file.size(), type);
      return;
    }
    case Task::kHealth: {
      const bool is_ready = source_.is_ready();
      response.status = is_ready ? 200 : 503;
      response.set_content(is_ready ? "ok\n" : "not ready\n", type);
      return;
    }
    case Task::kMetrics:
      response.set_content(source_.metrics(), type);
      return;
    case Task::kState:
      response.set_content(source_.view(), type);
      return;
    case Task::kJob:
      if (const auto job = source_.job_view(std::stoll(found.argument))) {
        response.set_content(*job, type);
      } else {
        refuse(response, 404, "there is no such job.");
      }
      return;
    case Task::kSession:
      say(response, {{"is_owner", has_session(request)}, {"since", since_}});
      return;
    case Task::kEvents:
      answer_events(request, response);
      return;
    default:
      RAVNEST_CHECK(false);
  }
}

void Responder::answer_events(const httplib::Request& request, httplib::Response& response) {
  if (request.method == "HEAD") {
    response.set_header("Content-Type", "text/event-stream");
    return;
  }
  auto watcher = feed_.find_seat();
  if (watcher == nullptr) {
    response.set_header("Retry-After", "10");
    refuse(response, 503, "there are as many watchers as this server takes.");
    return;
  }
  response.set_chunked_content_provider(
      "text/event-stream", [watcher = std::move(watcher)](std::size_t, httplib::DataSink& sink) {
        const std::string event = watcher->next();
        return !event.empty() && sink.write(event.data(), event.size());
      });
}

void Responder::answer_body(const httplib::Request& request, httplib::Response& response,
                            const httplib::ContentReader& read) {
  std::string body;
  const bool is_whole = read([&body](const char* data, std::size_t size) {
    body.append(data, size);
    return true;
  });
  if (!is_whole) {
    refuse(response, 408, "expected the whole body, and in time.");
    return;
  }
  const Found found = find_route(request.method, request.path).found.value();
  if (found.route->task == Task::kLogin) {
    log_in(request, body, response);
  } else if (found.route->task == Task::kLogout) {
    log_out(request, response);
  } else {
    change(wish_of(found), response);
  }
}

void Responder::log_in(const httplib::Request& request, const std::string& body,
                       httplib::Response& response) {
  const auto opened = sessions_.open(counted_host(request.remote_addr), Clock::now(), [&] {
    const std::string secret = secret_in(body);
    return !secret.empty() && source_.is_owner(secret);
  });
  if (!opened.may_try) {
    response.set_header("Retry-After", "60");
    refuse(response, 429, "too many attempts; wait a minute.");
  } else if (opened.word.empty()) {
    refuse(response, 401, "this is not the owner's secret.");
  } else {
    const std::chrono::seconds good_for = Sessions::kGoodFor;
    response.set_header("Set-Cookie", concat(cookie_, "=", opened.word, "; Path=/; Max-Age=",
                                             good_for.count(), "; HttpOnly; SameSite=Strict"));
    say(response, Json::object());
  }
}

void Responder::log_out(const httplib::Request& request, httplib::Response& response) {
  for (const std::string& word : cookies(request, cookie_)) {
    sessions_.close(word);
  }
  response.set_header("Set-Cookie",
                      concat(cookie_, "=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"));
  say(response, Json::object());
}

void Responder::change(const Wish& wish, httplib::Response& response) {
  if (const auto why_not = source_.change(wish)) {
    refuse(response, 409, *why_not);
  } else {
    say(response, Json::object());
  }
}

bool Responder::has_session(const httplib::Request& request) const {
  const auto words = cookies(request, cookie_);
  return std::ranges::any_of(
      words, [&](const std::string& word) { return sessions_.is_open(word, Clock::now()); });
}

}  // namespace ravnest::dashboard
