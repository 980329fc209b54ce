#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "ravnest/trust/certificate.h"
#include "ravnest/trust/key.h"

namespace ravnest::trust {

// What a member needs to prove who it is, and to tell whether others are who they say.
struct Identity {
  PrivateKey key;
  Certificate certificate;
  Certificate authority;  // who issued it, and whom alone it believes
};

// Three PEM blocks: key, certificate, authority.
std::string to_text(const Identity& identity);
// Throws std::invalid_argument unless the text is exactly that.
Identity parse_identity(std::string_view text);

// That the parts belong together and are valid now. Throws std::invalid_argument that says which
// does not: key, authority, dates.
void check_identity(const Identity& identity, WallTime now);

// One file, so that it is whole or not there; readable by its owner alone. Reading checks all of
// the above, and the permissions too. Throws std::invalid_argument that names the file, Error(kIo)
// where it cannot be read or written.
Identity read_identity(const std::filesystem::path& file, WallTime now);
void write_identity(const std::filesystem::path& file, const Identity& identity);

}  // namespace ravnest::trust
