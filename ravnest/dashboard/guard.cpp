#include "ravnest/dashboard/guard.h"

#include <httplib.h>

#include <algorithm>
#include <charconv>
#include <ranges>

#include "ravnest/base/address.h"
#include "ravnest/base/error.h"

namespace ravnest::dashboard {

namespace {

constexpr std::size_t kMostBodyBytes = 64 * 1024;
constexpr std::size_t kLongestPath = 256;

std::string lower(std::string_view text) {
  std::string small(text);
  std::ranges::transform(small, small.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return small;
}

std::string with_port(const std::string& host, const std::string& port) {
  const auto colon = host.rfind(':');
  const auto bracket = host.rfind(']');
  const bool has_port =
      colon != std::string::npos && (bracket == std::string::npos || bracket < colon);
  return has_port ? host : concat(host, ":", port);
}

// The value of a header that is there exactly once; empty otherwise.
std::string single(const httplib::Request& request, const char* name) {
  return request.get_header_value_count(name) == 1 ? request.get_header_value(name) : "";
}

bool is_json(const httplib::Request& request) {
  const std::string type = lower(single(request, "Content-Type"));
  return type == "application/json" || type.starts_with("application/json;");
}

bool is_same_origin(const httplib::Request& request) {
  const std::string origin = lower(single(request, "Origin"));
  const std::string host = lower(request.get_header_value("Host"));
  return origin == "http://" + host || origin == "https://" + host;
}

std::optional<Refusal> find_body_fault(const httplib::Request& request) {
  const std::string text = single(request, "Content-Length");
  std::size_t nbytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), nbytes);
  if (request.has_header("Transfer-Encoding") || text.empty() || error != std::errc() ||
      end != text.data() + text.size()) {
    return Refusal{411, "expected a body whose length is told."};
  }
  if (request.has_header("Content-Encoding")) {
    return Refusal{415, "expected a body as it is, not an encoded one."};
  }
  if (nbytes > kMostBodyBytes) {
    return Refusal{413, concat("expected at most ", kMostBodyBytes, " bytes.")};
  }
  return std::nullopt;
}

}  // namespace

Guard::Guard(const std::string& address, const std::vector<std::string>& hosts) {
  const std::string port = address.substr(address.rfind(':') + 1);
  hosts_ = {"localhost:" + port, "127.0.0.1:" + port, "[::1]:" + port, lower(address)};
  for (const std::string& host : hosts) {
    std::string name = with_port(lower(host), port);
    static_cast<void>(parse_address(name));
    hosts_.insert(std::move(name));
  }
}

bool Guard::is_our_host(const httplib::Request& request) const {
  return hosts_.contains(with_port(lower(single(request, "Host")), "80"));
}

std::optional<Refusal> Guard::find_fault(const httplib::Request& request,
                                         const Lookup& lookup) const {
  if (!is_our_host(request)) {
    return Refusal{421, "this server is not called so; its owner can allow further names."};
  }
  if (request.path.size() > kLongestPath || (!lookup.found && lookup.allowed.empty())) {
    return Refusal{404, "there is nothing here."};
  }
  if (!lookup.found) {
    return Refusal{405, "expected another method.", lookup.allowed};
  }
  if (lookup.found->route->needs == Needs::kNothing) {
    return std::nullopt;
  }
  if (!is_same_origin(request)) {
    return Refusal{403, "expected a request of this page, got one of another origin."};
  }
  if (!is_json(request)) {
    return Refusal{415, "expected JSON."};
  }
  return find_body_fault(request);
}

std::vector<std::string> cookies(const httplib::Request& request, std::string_view name) {
  std::vector<std::string> values;
  for (std::size_t i = 0; i < request.get_header_value_count("Cookie"); ++i) {
    const std::string header = request.get_header_value("Cookie", i);
    for (const auto part : std::views::split(std::string_view(header), ';')) {
      std::string_view pair(part.begin(), part.end());
      pair.remove_prefix(std::min(pair.find_first_not_of(' '), pair.size()));
      if (pair.starts_with(name) && pair.substr(name.size()).starts_with('=')) {
        values.emplace_back(pair.substr(name.size() + 1));
      }
    }
  }
  return values;
}

}  // namespace ravnest::dashboard
