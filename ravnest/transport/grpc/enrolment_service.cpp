#include "ravnest/transport/grpc/enrolment_service.h"

#include <arpa/inet.h>
#include <enrol.grpc.pb.h>

#include <chrono>
#include <cstring>
#include <utility>

#include "ravnest/base/version.h"
#include "ravnest/transport/grpc/socket_address.h"

namespace ravnest::transport {

namespace {

using ::grpc::StatusCode;

// "ipv4:192.0.2.1:41234" → "192.0.2.1"; of IPv6 the network, "ipv6:%5B2001:db8::1%5D:41234" → its
// first eight bytes: it is as easy to have many addresses there as one.
std::string host_of(const std::string& peer) {
  const auto scheme = peer.find(':');
  std::string rest = peer.substr(scheme + 1, peer.rfind(':') - scheme - 1);
  if (!peer.starts_with("ipv6:")) {
    return rest;
  }
  const auto begin = rest.find_first_of("[B");
  const auto end = rest.find_last_of("]%");
  std::string host =
      begin == std::string::npos || end <= begin ? rest : rest.substr(begin + 1, end - begin - 1);
  SocketAddress address;
  sockaddr_in6 parsed{.sin6_family = AF_INET6};
  if (::inet_pton(AF_INET6, host.c_str(), &parsed.sin6_addr) != 1) {
    return host;
  }
  std::memcpy(&address.storage, &parsed, sizeof(parsed));
  return address.host().substr(0, 8);  // all four bytes of an IPv4 host within IPv6
}

StatusCode code_of(trust::EnrolmentOutcome outcome) {
  switch (outcome) {
    case trust::EnrolmentOutcome::kAdmitted:
      return StatusCode::OK;
    case trust::EnrolmentOutcome::kMalformed:
      return StatusCode::INVALID_ARGUMENT;
    case trust::EnrolmentOutcome::kRefused:
      return StatusCode::PERMISSION_DENIED;
    case trust::EnrolmentOutcome::kTooMany:
      return StatusCode::RESOURCE_EXHAUSTED;
  }
  return StatusCode::INTERNAL;
}

class EnrolmentService final : public enrol::Enrolment::CallbackService {
 public:
  explicit EnrolmentService(std::shared_ptr<trust::EnrolmentDesk> desk) : desk_(std::move(desk)) {}

  ::grpc::ServerUnaryReactor* Enrol(::grpc::CallbackServerContext* context,
                                    const enrol::EnrolRequest* request,
                                    enrol::EnrolReply* reply) override {
    auto* reactor = context->DefaultReactor();
    reactor->Finish(answer(host_of(context->peer()), *request, *reply));
    return reactor;
  }

  ::grpc::ServerUnaryReactor* Greet(::grpc::CallbackServerContext* context,
                                    const enrol::GreetRequest* /*request*/,
                                    enrol::GreetReply* reply) override {
    reply->set_seconds(std::chrono::duration_cast<std::chrono::seconds>(
                           std::chrono::system_clock::now().time_since_epoch())
                           .count());
    reply->set_program(version());
    auto* reactor = context->DefaultReactor();
    reactor->Finish(::grpc::Status::OK);
    return reactor;
  }

 private:
  ::grpc::Status answer(std::string host, const enrol::EnrolRequest& request,
                        enrol::EnrolReply& reply) {
    try {
      const trust::EnrolmentAnswer answer = desk_->enrol({.secret = request.secret(),
                                                          .name = request.name(),
                                                          .request = request.certificate_request(),
                                                          .host = std::move(host)});
      if (answer.certificate) {
        reply.set_certificate(answer.certificate->to_pem());
        reply.set_authority(desk_->authority().certificate().to_pem());
      }
      return {code_of(answer.outcome), answer.text};
    } catch (const std::exception&) {
      return {StatusCode::INTERNAL, "the server could not look at the token; try again later."};
    }
  }

  const std::shared_ptr<trust::EnrolmentDesk> desk_;
};

}  // namespace

std::unique_ptr<::grpc::Service> make_enrolment_service(
    std::shared_ptr<trust::EnrolmentDesk> desk) {
  return std::make_unique<EnrolmentService>(std::move(desk));
}

}  // namespace ravnest::transport
