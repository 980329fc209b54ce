#pragma once

#include <memory>
#include <string>

#include "ravnest/transport/carrier.h"
#include "ravnest/transport/grpc/accept_loop.h"
#include "ravnest/transport/transport.h"

namespace ravnest::transport {

struct GrpcCredentials;

struct GrpcOptions {
  // "host:port"; port 0 takes a free one.
  std::string listen = "127.0.0.1:0";
  AcceptLimits limits;
  // From make_tls_credentials (tls_credentials.h): both sides of every connection prove which
  // member they are, and TransportOptions::members says who may be here. Without credentials
  // nothing is encrypted and nobody proves who they are. Such a carrier connects to this machine
  // alone, and accepts from this machine alone, whatever address it listens at, unless this says
  // that the network is trusted.
  std::shared_ptr<const GrpcCredentials> credentials;
  bool is_network_trusted = false;
};

// Streams of proto/wire.proto over HTTP/2. The port is taken at once, and not shared: Error(kIo)
// that names it. Owners are called on gRPC's threads, of which a process has as many as half its
// cores, two at least.
std::unique_ptr<Carrier> make_grpc_carrier(const GrpcOptions& options, Milliseconds handshake);

std::unique_ptr<Transport> make_grpc_transport(const GrpcOptions& grpc,
                                               const TransportOptions& options);

}  // namespace ravnest::transport
