#include "ravnest/server/caller.h"

#include <algorithm>

#include "ravnest/transport/grpc/credentials.h"

namespace ravnest::server {

namespace {

using ::grpc::StatusCode;

// "ipv4:192.0.2.1:41234" → "192.0.2.1"; "ipv6:%5B::1%5D:41234" → "[::1]".
std::string host_of(const std::string& peer) {
  const auto scheme = peer.find(':');
  std::string host = peer.substr(scheme + 1, peer.rfind(':') - scheme - 1);
  for (const auto& [code, letter] : {std::pair("%5B", "["), std::pair("%5D", "]")}) {
    if (const auto at = host.find(code); at != std::string::npos) {
      host.replace(at, 3, letter);
    }
  }
  return host;
}

Verdict judge(const std::optional<trust::Member>& member, const std::string& peer,
              std::initializer_list<trust::Role> roles) {
  if (!member) {
    return {.caller = {},
            .status = {StatusCode::UNAUTHENTICATED,
                       "Expected a certificate of this server's authority: enrol first."}};
  }
  if (std::ranges::find(roles, member->role) == roles.end()) {
    return {.caller = {},
            .status = {StatusCode::PERMISSION_DENIED, std::string("This is not for a ") +
                                                          std::string(name_of(member->role)) +
                                                          " to do."}};
  }
  return {.caller = Caller{.member = *member, .host = host_of(peer)}, .status = {}};
}

}  // namespace

Verdict identify(const ::grpc::AuthContext& context, const std::string& peer,
                 std::initializer_list<trust::Role> roles) {
  return judge(transport::find_member(context), peer, roles);
}

Verdict identify_here_too(const ::grpc::ServerContextBase& context, const std::string& peer,
                          std::initializer_list<trust::Role> roles) {
  const auto auth = context.auth_context();
  return judge(transport::is_local(*auth) ? transport::find_said_member(context)
                                          : transport::find_member(*auth),
               peer, roles);
}

bool is_member(const Desk& desk, const Caller& caller) {
  return caller.is_owner() || desk.state().durable.members.contains(caller.member.id);
}

::grpc::Status no_member() {
  return {
      StatusCode::PERMISSION_DENIED,
      "Expected a member of this server's pool, got one that was removed: enrol again with a new "
      "token, in a new folder (`ravnest join --data`), or after removing the old identity file "
      "(of a requester)."};
}

::grpc::Status server_ends() { return {StatusCode::UNAVAILABLE, "The server ends."}; }

}  // namespace ravnest::server
