#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>

#include <memory>
#include <mutex>
#include <string>

#include "ravnest/transport/carrier.h"
#include "ravnest/transport/grpc/baton.h"
#include "ravnest/transport/grpc/stream_set.h"
#include "ravnest/transport/session/pump_gate.h"

namespace ravnest::transport {

inline constexpr const char* kCarryMethod = "/ravnest.wire.Wire/Carry";

// A stream that we opened, on a connection of its own. gRPC calls the On… methods on its threads:
// reads one after the other, writes one after the other. The set keeps it alive until OnDone.
class ClientStream final : public Stream,
                           public ::grpc::ClientBidiReactor<::grpc::ByteBuffer, ::grpc::ByteBuffer>,
                           public std::enable_shared_from_this<ClientStream> {
 public:
  ClientStream(const std::shared_ptr<::grpc::Channel>& channel, Peer peer,
               std::shared_ptr<StreamOwner> owner, std::shared_ptr<StreamSet> set);

  void start();

  void wake() override;
  void abort(const std::string& reason) override;
  std::string remote() const override { return peer_.address; }

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const ::grpc::Status& status) override;

 private:
  // gRPC lets us start operations from outside its calls only while we hold the call open. False
  // once it is over.
  bool hold();
  void pump();
  void refuse(StreamOwner& owner, std::string text);

  const Peer peer_;
  const std::shared_ptr<StreamSet> set_;
  std::shared_ptr<StreamOwner> owner_;  // until OnDone
  ::grpc::GenericStub stub_;
  ::grpc::ClientContext context_;
  ::grpc::ByteBuffer in_;
  ::grpc::ByteBuffer out_;
  PumpGate gate_;
  Baton baton_;
  bool is_ending_ = false;  // of the thread that pumps

  std::mutex mutex_;  // guards what follows
  bool is_over_ = false;
  std::string reason_;
};

}  // namespace ravnest::transport
