#include "ravnest/transport/grpc/guarded_server.h"

#include "ravnest/base/error.h"
#include "ravnest/transport/grpc/local_socket.h"

namespace ravnest::transport {

GuardedServer::GuardedServer(const std::string& address, const AcceptLimits& limits,
                             std::chrono::milliseconds handshake)
    : handshake_(handshake), accept_loop_(address, limits) {}

GuardedServer::~GuardedServer() {
  stop_accepting();
  shut_down();
  server_.reset();
  local_acceptor_.reset();
  acceptor_.reset();
}

void GuardedServer::start(::grpc::ServerBuilder& builder,
                          const std::shared_ptr<::grpc::ServerCredentials>& credentials,
                          const std::shared_ptr<::grpc::ServerCredentials>& local) {
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             static_cast<int>(handshake_.count()));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, static_cast<int>(handshake_.count()));
  // A message that says it is compressed is not believed: it might be a bomb.
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  const auto accept_with = [&](const std::shared_ptr<::grpc::ServerCredentials>& given) {
    return builder.experimental().AddExternalConnectionAcceptor(
        ::grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, given);
  };
  acceptor_ = accept_with(credentials);
  local_acceptor_ = local ? accept_with(local) : nullptr;
  server_ = builder.BuildAndStart();
  if (!server_) {
    throw Error(ErrorKind::kIo, "[transport] gRPC could not start a server.");
  }
  accept_loop_.start([this](int descriptor) {
    ::grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
    parameters.fd = descriptor;
    const bool is_other = local_acceptor_ && is_local_socket(descriptor);
    (is_other ? local_acceptor_ : acceptor_)->HandleNewConnection(&parameters);
  });
}

void GuardedServer::shut_down() {
  if (server_) {
    server_->Shutdown(std::chrono::system_clock::now());
  }
}

}  // namespace ravnest::transport
