#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>

namespace ravnest::transport {

// What secures the connections of a carrier: made by whoever has keys, given to GrpcOptions. Seen
// by code in this folder alone, since it names gRPC's types.
struct GrpcCredentials {
  std::shared_ptr<::grpc::ChannelCredentials> client;
  std::shared_ptr<::grpc::ServerCredentials> server;
};

}  // namespace ravnest::transport
