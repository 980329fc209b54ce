#pragma once

#include <memory>
#include <string>

#include "ravnest/transport/grpc/accept_loop.h"
#include "ravnest/transport/options.h"
#include "ravnest/trust/enrolment.h"

namespace ravnest::transport {

struct EnrolmentServerOptions {
  std::string listen = "127.0.0.1:0";
  AcceptLimits limits;
  Milliseconds handshake{3000};  // from a new connection to its first call
  Milliseconds longest_call{5000};
};

// Enrolment alone, on a port of its own. Listens from its construction to its destruction; gRPC's
// threads call the desk.
class EnrolmentServer {
 public:
  // `identity` is of the role server, from the desk's authority: std::invalid_argument otherwise.
  // Throws Error(kIo) where the port is taken.
  EnrolmentServer(const trust::Identity& identity, std::shared_ptr<trust::EnrolmentDesk> desk,
                  const EnrolmentServerOptions& options);
  ~EnrolmentServer();
  EnrolmentServer(const EnrolmentServer&) = delete;
  EnrolmentServer& operator=(const EnrolmentServer&) = delete;

  // With the real port.
  const std::string& address() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ravnest::transport
