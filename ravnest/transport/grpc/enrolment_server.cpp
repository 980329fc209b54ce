#include "ravnest/transport/grpc/enrolment_server.h"

#include <grpcpp/resource_quota.h>

#include <utility>

#include "ravnest/base/error.h"
#include "ravnest/transport/grpc/credentials.h"
#include "ravnest/transport/grpc/enrolment_service.h"
#include "ravnest/transport/grpc/guarded_server.h"

namespace ravnest::transport {

namespace {

constexpr int kMaxFormBytes = 16 << 10;
constexpr int kEnrolmentStreams = 4;
constexpr std::size_t kEnrolmentBytes = std::size_t{64} << 20;

void check_server(const trust::Identity& identity, const trust::EnrolmentDesk& desk) {
  trust::check_identity(identity, std::chrono::system_clock::now());
  const bool is_ours =
      identity.authority.fingerprint() == desk.authority().certificate().fingerprint();
  if (!is_ours || identity.certificate.member().role != trust::Role::kServer) {
    throw_invalid("[trust] expected an identity of a server of the desk's authority, got another.");
  }
}

}  // namespace

struct EnrolmentServer::Impl {
  Impl(std::shared_ptr<trust::EnrolmentDesk> desk, const EnrolmentServerOptions& options)
      : service(make_enrolment_service(std::move(desk))),
        server(options.listen, options.limits, options.handshake) {}

  const std::unique_ptr<::grpc::Service> service;  // outlives the server
  GuardedServer server;
};

EnrolmentServer::EnrolmentServer(const trust::Identity& identity,
                                 std::shared_ptr<trust::EnrolmentDesk> desk,
                                 const EnrolmentServerOptions& options) {
  check_server(identity, *desk);
  impl_ = std::make_unique<Impl>(std::move(desk), options);
  ::grpc::ServerBuilder builder;
  builder.RegisterService(impl_->service.get());
  builder.SetMaxReceiveMessageSize(kMaxFormBytes);
  builder.SetResourceQuota(::grpc::ResourceQuota("enrolment").Resize(kEnrolmentBytes));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kEnrolmentStreams);
  // A call that is never finished by who made it ends with its connection.
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS,
                             static_cast<int>(options.longest_call.count()));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, 0);
  impl_->server.start(builder, make_server_credentials(identity, Callers::kAnybody));
}

EnrolmentServer::~EnrolmentServer() = default;

const std::string& EnrolmentServer::address() const { return impl_->server.address(); }

}  // namespace ravnest::transport
