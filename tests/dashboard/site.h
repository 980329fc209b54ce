#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/base/error.h"
#include "ravnest/dashboard/http_server.h"

namespace ravnest::dashboard {

inline constexpr std::chrono::seconds kPatience{20};
inline constexpr const char* kOwnerSecret = "the owner's secret";

// Bytes to and from a server, whatever they mean.
class Wire {
 public:
  explicit Wire(const std::string& address, const char* from = "127.0.0.1", int buffer = 0) {
    descriptor_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (buffer > 0) {
      ::setsockopt(descriptor_, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer));
    }
    const sockaddr_in here = socket_address(from, 0);
    const auto port = static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
    const sockaddr_in there = socket_address("127.0.0.1", port);
    if (::bind(descriptor_, reinterpret_cast<const sockaddr*>(&here), sizeof(here)) != 0 ||
        ::connect(descriptor_, reinterpret_cast<const sockaddr*>(&there), sizeof(there)) != 0) {
      throw Error(ErrorKind::kIo, "cannot connect to " + address);
    }
  }
  ~Wire() { ::close(descriptor_); }
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  // False when the server has closed.
  bool send(const std::string& text) const {
    return ::send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }

  // All that came, until the server closes or the text is among it.
  std::string read_until(const std::string& text = "") {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (text.empty() || got_.find(text, seen_) == std::string::npos) {
      if (std::chrono::steady_clock::now() >= deadline) {
        ADD_FAILURE() << "waited in vain for '" << text << "', got '" << got_ << "'";
        break;
      }
      pollfd wanted{.fd = descriptor_, .events = POLLIN};
      ::poll(&wanted, 1, 100);
      char part[4096];
      const ssize_t size = ::recv(descriptor_, part, sizeof(part), MSG_DONTWAIT);
      if (size == 0 || (size < 0 && errno != EAGAIN)) {
        is_closed_ = true;
        was_reset_ = size < 0;
        break;
      }
      got_.append(part, static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    }
    return got_;
  }
  // What was read so far does not count for the next read_until().
  void forget() { seen_ = got_.size(); }
  bool is_closed() const { return is_closed_; }
  // Closed with a reset, upon which a client may drop what came before.
  bool was_reset() const { return was_reset_; }

 private:
  static sockaddr_in socket_address(const char* host, std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    ::inet_pton(AF_INET, host, &address.sin_addr);
    return address;
  }

  int descriptor_ = -1;
  std::string got_;
  std::size_t seen_ = 0;
  bool is_closed_ = false;
  bool was_reset_ = false;
};

struct Ask {
  std::string method = "GET";
  std::string path = "/";
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
};

struct Answer {
  int status = 0;
  std::multimap<std::string, std::string> headers;
  std::string body;

  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

inline std::string text_of(const Ask& ask) {
  std::string text = ask.method + " " + ask.path + " HTTP/1.1\r\n";
  for (const auto& [name, value] : ask.headers) {
    text += name + ": " + value + "\r\n";
  }
  return text + "\r\n" + ask.body;
}

inline Answer parse_answer(const std::string& text) {
  Answer answer;
  const std::size_t end = text.find("\r\n\r\n");
  if (!text.starts_with("HTTP/1.1 ") || end == std::string::npos) {
    return answer;
  }
  answer.status = std::stoi(text.substr(9, 3));
  answer.body = text.substr(end + 4);
  for (std::size_t at = text.find("\r\n") + 2; at < end + 2;) {
    const std::size_t stop = text.find("\r\n", at);
    const std::size_t colon = text.find(": ", at);
    answer.headers.emplace(text.substr(at, colon - at), text.substr(colon + 2, stop - colon - 2));
    at = stop + 2;
  }
  return answer;
}

// A server that shows and records.
class Site {
 public:
  explicit Site(HttpOptions options = {}) : Site(std::move(options), "{\"jobs\":[]}") {}
  Site(HttpOptions options, std::string view) : view_(std::move(view)) {
    options.listen = "127.0.0.1:0";
    server_ = std::make_unique<HttpServer>(options, make_source());
  }

  HttpServer& server() { return *server_; }
  const std::string& address() const { return server_->address(); }
  std::string port() const { return address().substr(address().rfind(':') + 1); }
  void set_view(std::string view) {
    const std::scoped_lock lock(mutex_);
    view_ = std::move(view);
  }
  std::vector<Wish> wishes() const {
    const std::scoped_lock lock(mutex_);
    return wishes_;
  }

  Answer ask(const Ask& ask, const char* from = "127.0.0.1") const {
    Wire wire(address(), from);
    EXPECT_TRUE(wire.send(text_of(ask)));
    return parse_answer(wire.read_until());
  }
  Answer get(const std::string& path) const {
    return ask({.path = path, .headers = {{"Host", address()}}});
  }
  // As the page does it.
  Ask post_of(const std::string& path, const std::string& body = "{}",
              const std::string& cookie = "") const {
    Ask post{.method = "POST",
             .path = path,
             .headers = {{"Host", address()},
                         {"Origin", "http://" + address()},
                         {"Content-Type", "application/json"},
                         {"Content-Length", std::to_string(body.size())}},
             .body = body};
    if (!cookie.empty()) {
      post.headers.emplace_back("Cookie", cookie);
    }
    return post;
  }
  Answer log_in(const std::string& secret, const char* from = "127.0.0.1") const {
    return ask(post_of("/api/login", "{\"secret\": \"" + secret + "\"}"), from);
  }
  // "name=word", as a browser sends it back.
  std::string cookie() const {
    const std::string set = log_in(kOwnerSecret).header("Set-Cookie");
    return set.substr(0, set.find(';'));
  }

  std::atomic<bool> is_ready{true};
  std::atomic<bool> is_broken{false};
  std::atomic<int> views{0};  // that were made
  std::atomic<int> owner_questions{0};

 private:
  Source make_source() {
    return {.is_ready = [this] { return is_ready.load(); },
            .view =
                [this] {
                  ++views;
                  if (is_broken) {
                    throw std::runtime_error("/home/owner: no such file");
                  }
                  const std::scoped_lock lock(mutex_);
                  return view_;
                },
            .job_view = [](std::int64_t job) -> std::optional<std::string> {
              return job == 7 ? std::optional<std::string>("{\"id\":7}") : std::nullopt;
            },
            .metrics = [] { return std::string("ravnest_boots 1\n"); },
            .is_owner =
                [this](std::string_view secret) {
                  ++owner_questions;
                  return secret == kOwnerSecret;
                },
            .change = [this](const Wish& wish) -> std::optional<std::string> {
              const std::scoped_lock lock(mutex_);
              wishes_.push_back(wish);
              return wish.provider == "nobody"
                         ? std::optional<std::string>("nobody is not a member.")
                         : std::nullopt;
            }};
  }

  mutable std::mutex mutex_;
  std::string view_;
  std::vector<Wish> wishes_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace ravnest::dashboard
