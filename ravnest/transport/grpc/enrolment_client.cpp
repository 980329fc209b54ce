#include "ravnest/transport/grpc/enrolment_client.h"

#include <enrol.grpc.pb.h>
#include <grpcpp/create_channel.h>

#include <algorithm>
#include <chrono>

#include "ravnest/base/error.h"
#include "ravnest/transport/grpc/credentials.h"
#include "ravnest/transport/grpc/pinned_authority.h"
#include "ravnest/transport/session/channel_status.h"
#include "ravnest/trust/request.h"

namespace ravnest::transport {

namespace {

constexpr int kRoundTrips = 4;  // the first ones open the connection

std::shared_ptr<::grpc::Channel> open_channel(const std::string& server,
                                              const trust::Certificate& authority) {
  ::grpc::ChannelArguments arguments;
  arguments.SetString(GRPC_SSL_TARGET_NAME_OVERRIDE_ARG, trust::kServerTlsName);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  return ::grpc::CreateCustomChannel("dns:///" + server, make_channel_credentials(authority),
                                     arguments);
}

[[noreturn]] void throw_status(const ::grpc::Status& status, const std::string& server) {
  const std::string words = words_of(status.error_message());
  switch (status.error_code()) {
    case ::grpc::StatusCode::INVALID_ARGUMENT:
    case ::grpc::StatusCode::PERMISSION_DENIED:
      throw_invalid("[trust] the server at ", server, " refused: ", words);
    case ::grpc::StatusCode::DEADLINE_EXCEEDED:
      throw Error(ErrorKind::kTimeout,
                  concat("[trust] the server at ", server, " did not answer in time."));
    default:
      throw Error(ErrorKind::kPeerLost,
                  concat("[trust] the server at ", server, " did not answer: ", words));
  }
}

// The server is trusted by now; a reply that does not fit is its mistake, and better found here.
void check_reply(const trust::Identity& identity, const trust::Token& token) {
  trust::check_identity(identity, std::chrono::system_clock::now());
  const trust::Member member = identity.certificate.member();
  if (member.role != token.role) {
    throw_invalid("[trust] expected a certificate of a ", trust::name_of(token.role),
                  ", got one of a ", trust::name_of(member.role), ".");
  }
}

}  // namespace

trust::Identity enrol(const trust::Token& token, const EnrolOptions& options) {
  trust::check_machine_name(options.name);
  const auto deadline = std::chrono::system_clock::now() + options.timeout;
  trust::Certificate authority =
      fetch_authority(options.server, token.fingerprint, options.timeout);
  trust::PrivateKey key = trust::PrivateKey::make();

  enrol::EnrolRequest request;
  request.set_secret(token.secret.bytes().data(), token.secret.bytes().size());
  request.set_name(options.name);
  request.set_certificate_request(trust::Request::make(key).to_pem());
  enrol::EnrolReply reply;
  ::grpc::ClientContext context;
  context.set_deadline(deadline);
  const auto stub = enrol::Enrolment::NewStub(open_channel(options.server, authority));
  const ::grpc::Status status = stub->Enrol(&context, request, &reply);
  if (!status.ok()) {
    throw_status(status, options.server);
  }
  trust::Identity identity{.key = std::move(key),
                           .certificate = trust::Certificate::parse(reply.certificate()),
                           .authority = std::move(authority)};
  check_reply(identity, token);
  return identity;
}

ServerGreeting greet(const std::string& server, const trust::Certificate& authority,
                     Milliseconds timeout) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = std::chrono::system_clock::now() + timeout;
  const auto stub = enrol::Enrolment::NewStub(open_channel(server, authority));
  auto least = Clock::duration::max();
  enrol::GreetReply reply;
  for (int i = 0; i < kRoundTrips; ++i) {
    ::grpc::ClientContext context;
    context.set_deadline(deadline);
    const auto start = Clock::now();
    const ::grpc::Status status = stub->Greet(&context, {}, &reply);
    if (!status.ok()) {
      throw_status(status, server);
    }
    least = std::min(least, Clock::now() - start);
  }
  return {.seconds = reply.seconds(),
          .program = reply.program(),
          .latency_ms = std::chrono::duration<double, std::milli>(least).count() / 2.0};
}

}  // namespace ravnest::transport
