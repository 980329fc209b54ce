#include "ravnest/transport/grpc/credentials.h"

#include <grpc/grpc_security_constants.h>

#include <iterator>
#include <string>
#include <string_view>

#include "ravnest/transport/grpc/tls_credentials.h"

namespace ravnest::transport {

namespace {

constexpr const char* kMemberKey = "ravnest-member";
// As gRPC calls it, in no header of its own that is installed.
constexpr const char* kLocalSecurity = "local";

// With the authority, although whoever knows us has it: who only knows its fingerprint can then
// tell whether we are the right one (pinned_authority.h).
std::string chain_of(const trust::Identity& identity) {
  return identity.certificate.to_pem() + identity.authority.to_pem();
}

}  // namespace

std::shared_ptr<::grpc::ServerCredentials> make_server_credentials(const trust::Identity& identity,
                                                                   Callers callers) {
  ::grpc::SslServerCredentialsOptions options(
      callers == Callers::kMembers ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                   : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = identity.authority.to_pem();
  options.pem_key_cert_pairs.push_back(
      {.private_key = identity.key.to_pem(), .cert_chain = chain_of(identity)});
  return ::grpc::SslServerCredentials(options);
}

std::shared_ptr<::grpc::ChannelCredentials> make_channel_credentials(
    const trust::Identity& identity) {
  return ::grpc::SslCredentials({.pem_root_certs = identity.authority.to_pem(),
                                 .pem_private_key = identity.key.to_pem(),
                                 .pem_cert_chain = chain_of(identity)});
}

std::shared_ptr<::grpc::ChannelCredentials> make_channel_credentials(
    const trust::Certificate& authority) {
  return ::grpc::SslCredentials(
      {.pem_root_certs = authority.to_pem(), .pem_private_key = {}, .pem_cert_chain = {}});
}

std::optional<trust::Member> find_member(const ::grpc::AuthContext& context) {
  const auto certificates = context.FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  if (!context.IsPeerAuthenticated() || certificates.size() != 1) {
    return std::nullopt;
  }
  try {
    const std::string_view pem(certificates.front().data(), certificates.front().size());
    return trust::Certificate::parse(pem).member();
  } catch (const std::invalid_argument&) {
    return std::nullopt;  // of our authority, and yet nobody's
  }
}

std::shared_ptr<::grpc::ServerCredentials> make_local_credentials() {
  return ::grpc::experimental::LocalServerCredentials(UDS);
}

bool is_local(const ::grpc::AuthContext& context) {
  const auto kinds = context.FindPropertyValues(GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME);
  return kinds.size() == 1 && kinds.front() == kLocalSecurity;
}

void say_member(const trust::Member& member, ::grpc::ClientContext& context) {
  context.AddMetadata(kMemberKey, trust::uri_of(member));
}

std::optional<trust::Member> find_said_member(const ::grpc::ServerContextBase& context) {
  const auto said = context.client_metadata().equal_range(kMemberKey);
  if (!is_local(*context.auth_context()) || std::distance(said.first, said.second) != 1) {
    return std::nullopt;
  }
  const ::grpc::string_ref uri = said.first->second;
  return trust::find_member({uri.data(), uri.size()});
}

std::shared_ptr<const GrpcCredentials> make_tls_credentials(const trust::Identity& identity,
                                                            trust::WallTime now) {
  trust::check_identity(identity, now);
  return std::make_shared<GrpcCredentials>(
      GrpcCredentials{.client = make_channel_credentials(identity),
                      .server = make_server_credentials(identity, Callers::kMembers)});
}

}  // namespace ravnest::transport
