#pragma once

#include <grpcpp/security/auth_context.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <initializer_list>
#include <optional>
#include <string>

#include "ravnest/server/desk.h"
#include "ravnest/trust/member.h"

namespace ravnest::server {

// Who calls, as proven by its certificate. The role kServer is the owner's: who has the authority's
// key can make such a certificate, and nobody else.
struct Caller {
  trust::Member member;
  std::string host;  // that it calls from, as the server sees it

  bool is_owner() const { return member.role == trust::Role::kServer; }
};

struct Verdict {
  std::optional<Caller> caller;
  ::grpc::Status status;  // where there is none: why not
};

// That a certificate was shown, and is of one of these roles. Whether the member is still one is
// for the desk to say: is_member.
Verdict identify(const ::grpc::AuthContext& context, const std::string& peer,
                 std::initializer_list<trust::Role> roles);
// The same for a call that may come by the local socket, too.
Verdict identify_here_too(const ::grpc::ServerContextBase& context, const std::string& peer,
                          std::initializer_list<trust::Role> roles);
// On the desk's thread.
bool is_member(const Desk& desk, const Caller& caller);

::grpc::Status no_member();
::grpc::Status server_ends();

}  // namespace ravnest::server
