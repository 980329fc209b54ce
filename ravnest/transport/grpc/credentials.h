#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_context.h>

#include <memory>
#include <optional>

#include "ravnest/trust/identity.h"

namespace ravnest::transport {

// What secures the connections of a carrier: made by make_tls_credentials (tls_credentials.h),
// given to GrpcOptions. Seen by code in this folder alone, since it names gRPC's types.
struct GrpcCredentials {
  std::shared_ptr<::grpc::ChannelCredentials> client;
  std::shared_ptr<::grpc::ServerCredentials> server;
};

// Whom a server lets in: members alone, or also those who want to become one, who then may call
// what looks at their token (find_member tells them apart).
enum class Callers { kMembers, kAnybody };

// All of these speak TLS 1.2 or 1.3 and believe one authority, never those of the system. A
// certificate that is shown must be valid.
std::shared_ptr<::grpc::ServerCredentials> make_server_credentials(const trust::Identity& identity,
                                                                   Callers callers);
std::shared_ptr<::grpc::ChannelCredentials> make_channel_credentials(
    const trust::Identity& identity);
// Of somebody who is not a member yet.
std::shared_ptr<::grpc::ChannelCredentials> make_channel_credentials(
    const trust::Certificate& authority);

// Who calls, by the certificate that it has shown; nothing where it has shown none.
std::optional<trust::Member> find_member(const ::grpc::AuthContext& context);

// Of who comes by the local socket (local_socket.h): a process of our own user. It could read our
// keys, so that it is asked for no proof of who it says it is: see docs/security.md for what it may
// call. Nothing is encrypted.
std::shared_ptr<::grpc::ServerCredentials> make_local_credentials();
bool is_local(const ::grpc::AuthContext& context);
void say_member(const trust::Member& member, ::grpc::ClientContext& context);
std::optional<trust::Member> find_said_member(const ::grpc::ServerContextBase& context);

}  // namespace ravnest::transport
