#pragma once

#include <filesystem>
#include <string>

#include "ravnest/trust/identity.h"

namespace ravnest::control {

// Where a user's identities are kept: $RAVNEST_HOME, else $XDG_DATA_HOME/ravnest, else
// ~/.local/share/ravnest.
std::filesystem::path home_folder();

// Where a requester's identity for this server is, or would be.
std::filesystem::path requester_file(const std::string& server);

// Who a requester is to this server: as it enrolled before, else by the token, once. Throws
// std::invalid_argument where neither is there, Error where the server is not. It is kept in
// `file`; empty: requester_file(server).
trust::Identity find_requester(const std::string& server, const std::string& token,
                               std::filesystem::path file = {});

}  // namespace ravnest::control
