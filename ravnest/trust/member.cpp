#include "ravnest/trust/member.h"

#include <algorithm>
#include <array>

#include "ravnest/base/error.h"
#include "ravnest/base/table.h"
#include "ravnest/trust/random.h"

namespace ravnest::trust {

namespace {

constexpr std::string_view kScheme = "ravnest:";
constexpr std::size_t kMaxId = 63;
constexpr std::size_t kMaxName = 64;
constexpr std::size_t kMaxShown = 80;

constexpr std::array kRoles{Role::kServer, Role::kProvider, Role::kRequester};

bool is_lower_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
bool is_letter_or_digit(char c) { return is_lower_or_digit(c) || (c >= 'A' && c <= 'Z'); }

bool is_member_id(std::string_view id) {
  return !id.empty() && id.size() <= kMaxId && id.front() != '-' && id.back() != '-' &&
         std::ranges::all_of(id, [](char c) { return is_lower_or_digit(c) || c == '-'; });
}

bool is_machine_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxName && is_letter_or_digit(name.front()) &&
         std::ranges::all_of(name, [](char c) {
           return is_letter_or_digit(c) || c == '.' || c == '_' || c == '-';
         });
}

std::string shown(std::string_view text) { return printable(text.substr(0, kMaxShown)); }

}  // namespace

std::string_view name_of(Role role) {
  switch (role) {
    case Role::kServer:
      return "server";
    case Role::kProvider:
      return "provider";
    case Role::kRequester:
      return "requester";
  }
  RAVNEST_CHECK(false);
}

std::optional<Role> find_role(std::string_view name) {
  const auto found = std::ranges::find(kRoles, name, [](Role role) { return name_of(role); });
  return found == kRoles.end() ? std::nullopt : std::optional(*found);
}

std::optional<Role> find_role(unsigned number) {
  const auto found =
      std::ranges::find(kRoles, number, [](Role role) { return static_cast<unsigned>(role); });
  return found == kRoles.end() ? std::nullopt : std::optional(*found);
}

std::string make_member_id() { return random_hex(16); }

void check_member_id(std::string_view id) {
  if (!is_member_id(id)) {
    throw_invalid("[trust] expected a member id of 1 to ", kMaxId,
                  " lower-case letters, digits and inner '-', got '", shown(id), "'.");
  }
}

std::string uri_of(const Member& member) {
  return concat(kScheme, name_of(member.role), ":", member.id);
}

std::optional<Member> find_member(std::string_view uri) {
  if (!uri.starts_with(kScheme)) {
    return std::nullopt;
  }
  uri.remove_prefix(kScheme.size());
  const auto colon = uri.find(':');
  if (colon == std::string_view::npos) {
    return std::nullopt;
  }
  const auto role = find_role(uri.substr(0, colon));
  const std::string_view id = uri.substr(colon + 1);
  if (!role || !is_member_id(id)) {
    return std::nullopt;
  }
  return Member{.id = std::string(id), .role = *role};
}

std::string tls_name_of(std::string_view member_id) { return concat(member_id, ".member.ravnest"); }

void check_machine_name(std::string_view name) {
  if (!is_machine_name(name)) {
    throw_invalid("[trust] expected a name of 1 to ", kMaxName,
                  " letters, digits, '.', '_' and '-', got '", shown(name), "'.");
  }
}

}  // namespace ravnest::trust
