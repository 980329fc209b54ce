#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ravnest::trust {

// What a member of a server's pool may be. Numbered as in a token.
enum class Role : std::uint8_t { kServer = 1, kProvider = 2, kRequester = 3 };

std::string_view name_of(Role role);
std::optional<Role> find_role(std::string_view name);
std::optional<Role> find_role(unsigned number);

// Who a certificate speaks for. The id is the server's word for one machine; it never changes and
// is never given twice. (What people call the machine is its name.)
struct Member {
  std::string id;
  Role role = Role::kProvider;

  bool operator==(const Member&) const = default;
};

// An id that nobody else has: 32 hexadecimal digits.
std::string make_member_id();
// 1 to 63 lower-case letters, digits and inner '-'. Throws std::invalid_argument.
void check_member_id(std::string_view id);

// "ravnest:provider:3f09…", as it stands in the certificate, and back.
std::string uri_of(const Member& member);
std::optional<Member> find_member(std::string_view uri);

// The names that TLS looks for in the certificate of who is called. An id has no dots, so that no
// member can have the server's.
std::string tls_name_of(std::string_view member_id);
inline constexpr const char* kServerTlsName = "server.ravnest";

// What people call a machine: 1 to 64 letters, digits, '.', '_' and '-', of which the first is a
// letter or digit. Throws std::invalid_argument.
void check_machine_name(std::string_view name);

}  // namespace ravnest::trust
