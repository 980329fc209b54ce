#pragma once

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <memory>
#include <string>

#include "ravnest/transport/grpc/accept_loop.h"

namespace ravnest::transport {

// A gRPC server behind an accept loop of our own: limits on connections, and a deadline for who
// connects and says nothing. The port is taken at once.
class GuardedServer {
 public:
  // Throws Error(kIo) that names the port when it is taken.
  GuardedServer(const std::string& address, const AcceptLimits& limits,
                std::chrono::milliseconds handshake);
  ~GuardedServer();
  GuardedServer(const GuardedServer&) = delete;
  GuardedServer& operator=(const GuardedServer&) = delete;

  // With services, limits and arguments in the builder. `local` are for who comes by the local
  // socket; without them it is `credentials`, too. Throws Error(kIo) where gRPC refuses.
  void start(::grpc::ServerBuilder& builder,
             const std::shared_ptr<::grpc::ServerCredentials>& credentials,
             const std::shared_ptr<::grpc::ServerCredentials>& local = nullptr);
  // Takes no more connections.
  void stop_accepting() { accept_loop_.stop(); }
  // Ends all calls; their handlers run to their end, for which destruction waits.
  void shut_down();

  // As given, with the real port.
  const std::string& address() const { return accept_loop_.address(); }

 private:
  const std::chrono::milliseconds handshake_;
  AcceptLoop accept_loop_;
  std::unique_ptr<::grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<::grpc::experimental::ExternalConnectionAcceptor> local_acceptor_;  // or null
  std::unique_ptr<::grpc::Server> server_;
};

}  // namespace ravnest::transport
