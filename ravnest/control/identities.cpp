#include "ravnest/control/identities.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "ravnest/base/address.h"
#include "ravnest/base/error.h"
#include "ravnest/transport/grpc/enrolment_client.h"
#include "ravnest/trust/token.h"

namespace ravnest::control {

namespace fs = std::filesystem;

namespace {

std::string text_of(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

// A name that nobody has: several requesters may be of one user.
std::string make_name() {
  std::string user = text_of("USER");
  std::erase_if(user,
                [](char letter) { return std::isalnum(static_cast<unsigned char>(letter)) == 0; });
  return concat(user.empty() ? "requester" : user.substr(0, 32), "-",
                trust::make_member_id().substr(0, 8));
}

}  // namespace

fs::path home_folder() {
  if (const std::string home = text_of("RAVNEST_HOME"); !home.empty()) {
    return home;
  }
  if (const std::string data = text_of("XDG_DATA_HOME"); !data.empty()) {
    return fs::path(data) / "ravnest";
  }
  if (const std::string home = text_of("HOME"); !home.empty()) {
    return fs::path(home) / ".local" / "share" / "ravnest";
  }
  throw_invalid("[control] expected RAVNEST_HOME or HOME to be set, got neither.");
}

fs::path requester_file(const std::string& server) {
  const Address address = parse_address(server);  // safe as the name of a file
  return home_folder() / concat("requester-", address.host, "-", address.port, ".pem");
}

trust::Identity find_requester(const std::string& server, const std::string& token, fs::path file) {
  if (file.empty()) {
    file = requester_file(server);
  }
  const auto now = std::chrono::system_clock::now();
  const std::optional<trust::Token> given =
      token.empty() ? std::nullopt : std::optional(trust::parse_token(token));
  if (given && given->role != trust::Role::kRequester) {
    throw_invalid("[control] expected a token for a requester (`ravnest token --role requester`), ",
                  "got one for a ", trust::name_of(given->role), ".");
  }
  if (fs::exists(file)) {
    trust::Identity known = trust::read_identity(file, now);
    // A token of another authority is of another server at the same address.
    if (!given || known.authority.fingerprint() == given->fingerprint) {
      return known;
    }
  }
  if (!given) {
    throw_invalid("[control] expected a token for ", server,
                  ", got none: `ravnest token --role requester` on the server prints one.");
  }
  fs::create_directories(file.parent_path());
  trust::Identity identity = transport::enrol(*given, {.server = server, .name = make_name()});
  trust::write_identity(file, identity);
  return identity;
}

}  // namespace ravnest::control
