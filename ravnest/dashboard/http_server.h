#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ravnest::dashboard {

struct HttpLimits {
  std::size_t watchers = 64;                  // of /api/events, at once
  std::chrono::milliseconds request{10'000};  // from the connection to a request's last byte
  std::chrono::milliseconds write{10'000};    // for a reader to take an answer, or one event
  std::chrono::milliseconds between_events{250};
  std::chrono::milliseconds heartbeat{5000};  // of a connection on which nothing happens
};

struct HttpOptions {
  std::string listen = "127.0.0.1:7780";
  // Further names that a Host header may bear, "name" with the port of `listen`, or "name:port".
  std::vector<std::string> hosts;
  HttpLimits limits;
};

// A wish to change something.
struct Wish {
  enum class Kind : std::uint8_t {
    kPauseProvider,
    kResumeProvider,
    kRemoveProvider,
    kCancelJob,
    kForgetJob,
  };
  Kind kind = Kind::kPauseProvider;
  std::string provider;
  std::int64_t job = 0;
};

// What the page shows and asks for. Called on HTTP threads, any of them. What they throw is an
// answer 500, whose text does not repeat it.
struct Source {
  std::function<bool()> is_ready;
  std::function<std::string()> view;                                     // coordinator::view
  std::function<std::optional<std::string>(std::int64_t job)> job_view;  // nothing: no such job
  std::function<std::string()> metrics;                                  // Prometheus text
  std::function<bool(std::string_view secret)> is_owner;
  std::function<std::optional<std::string>(const Wish&)> change;  // nothing: done; else why not
};

// Serves the page, its JSON and the metrics on threads of its own until it is destroyed. Who may do
// what is in routes.h. Anybody who reaches the port can watch; changing needs the owner's secret.
class HttpServer {
 public:
  // Throws std::invalid_argument for an address or name that is none, Error(kIo) that names the
  // port when it is taken.
  HttpServer(const HttpOptions& options, const Source& source);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // As given, with the real port.
  const std::string& address() const;
  // Something has changed: watchers hear of it. Any thread; returns at once.
  void notify();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ravnest::dashboard
