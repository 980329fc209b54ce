#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ravnest/control/client.h"

namespace ravnest::front {

// Who asks, and whom: the owner of a server, from its folder; a provider, from its own; a
// requester, by the server's address.
struct WhoFlags {
  std::filesystem::path data;  // empty: the first of `usual` that is in the current folder
  std::vector<std::filesystem::path> usual = {"ravnest-server", "ravnest-provider"};
  std::string server;
  std::string token;
};

// Of a provider's folder, or of the owner in a server's; nothing where it is neither. Throws where
// it is there and not good.
std::optional<trust::Identity> find_identity(const std::filesystem::path& data);

void add_who(CLI::App& command, WhoFlags& flags);
// Throws std::invalid_argument where the flags name nobody, or a folder that is neither.
std::unique_ptr<control::Client> connect(const WhoFlags& flags);

// Beside a provider's identity: whom `pause` and `resume` ask.
void remember_server(const std::filesystem::path& data, const std::string& server);

}  // namespace ravnest::front
