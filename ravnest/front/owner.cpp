#include "ravnest/front/owner.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "ravnest/base/address.h"
#include "ravnest/base/atomic_file.h"
#include "ravnest/base/error.h"
#include "ravnest/control/identities.h"
#include "ravnest/trust/authority.h"

namespace ravnest::front {

namespace fs = std::filesystem;

namespace {

constexpr const char* kWhere = "server.json";

[[noreturn]] void throw_no_folder(const fs::path& data) {
  throw_invalid("expected the folder of a server or provider of ravnest, got '", data.string(),
                "'.");
}

// Where `serve` and `join` put their folders when nothing else is said.
fs::path find_usual(const std::vector<fs::path>& usual) {
  std::string names;
  for (const fs::path& data : usual) {
    if (fs::exists(data / kWhere)) {
      return data;
    }
    names += concat(names.empty() ? "'" : " or '", data.string(), "'");
  }
  throw_invalid("expected the folder ", names, " here, or --data FOLDER",
                usual.size() > 1 ? ", or --server HOST:PORT" : "", ".");
}

std::string read_server(const fs::path& data) {
  std::ifstream file(data / kWhere);
  const auto json = nlohmann::json::parse(file, nullptr, false);
  if (!json.is_object() || !json.contains("address") || !json["address"].is_string()) {
    throw_no_folder(data);
  }
  Address address = parse_address(json["address"].get<std::string>());
  if (address.host == "0.0.0.0" || address.host == "[::]") {
    address.host = "127.0.0.1";
  }
  return concat(address.host, ":", address.port);
}

}  // namespace

std::optional<trust::Identity> find_identity(const fs::path& data) {
  const auto now = std::chrono::system_clock::now();
  if (fs::exists(data / "identity.pem")) {
    return trust::read_identity(data / "identity.pem", now);
  }
  if (!fs::exists(data / "ca.key")) {
    return std::nullopt;
  }
  // Who has the authority's key is the owner.
  return trust::Authority::open(data, now).make_identity(
      {trust::make_member_id(), trust::Role::kServer}, trust::valid_for(std::chrono::days(1), now));
}

void add_who(CLI::App& command, WhoFlags& flags) {
  command
      .add_option("--data", flags.data,
                  "The folder of a server, or of a provider; default: the one that is here")
      ->type_name("FOLDER");
  command.add_option("--server", flags.server, "As a requester: where the server is")
      ->type_name("HOST:PORT");
  command.add_option("--token", flags.token, "Of a requester; needed the first time")
      ->envname("RAVNEST_TOKEN")
      ->type_name("TOKEN");
}

std::unique_ptr<control::Client> connect(const WhoFlags& flags) {
  if (!flags.server.empty()) {
    return std::make_unique<control::Client>(flags.server,
                                             control::find_requester(flags.server, flags.token));
  }
  const fs::path data = flags.data.empty() ? find_usual(flags.usual) : flags.data;
  const std::string server = read_server(data);
  const auto identity = find_identity(data);
  if (!identity) {
    throw_no_folder(data);
  }
  return std::make_unique<control::Client>(server, *identity);
}

void remember_server(const fs::path& data, const std::string& server) {
  AtomicFile file(data / kWhere);
  file.write(nlohmann::json{{"address", server}}.dump() + "\n");
  file.commit();
}

}  // namespace ravnest::front
