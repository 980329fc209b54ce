#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ravnest::dashboard {

// What there is to ask for, as data: the server obeys this table, and a test walks through it.

enum class Method : std::uint8_t {
  kGet,  // and HEAD
  kPost,
};

// What whoever asks must show, besides a Host that is ours. For all but kNothing also: an Origin
// equal to the Host, JSON as the content type, at most 64 KiB.
enum class Needs : std::uint8_t {
  kNothing,
  kSecret,   // the owner's, in the body
  kSession,  // the cookie that the secret was exchanged for
};

enum class Task : std::uint8_t {
  kFile,
  kHealth,
  kMetrics,
  kState,
  kJob,
  kEvents,
  kSession,
  kLogin,
  kLogout,
  kPauseProvider,
  kResumeProvider,
  kRemoveProvider,
  kCancelJob,
  kForgetJob,
};

struct Route {
  std::string_view path;  // a part in <> stands for a name or number
  Method method = Method::kGet;
  Needs needs = Needs::kNothing;
  Task task = Task::kFile;
  std::string_view file = {};  // of the page
  std::string_view type = {};  // of the content
};

std::span<const Route> routes();

struct Found {
  const Route* route = nullptr;
  std::string argument;  // what stood in place of the <> part
};

// The route of a path and method; where there is none, `allowed` is what the path can be asked
// with: "GET, HEAD", "POST", or empty for a path that is not known.
struct Lookup {
  std::optional<Found> found;
  std::string allowed;
};
Lookup find_route(std::string_view method, std::string_view path);

}  // namespace ravnest::dashboard
