#pragma once

#include <grpcpp/generic/async_generic_service.h>

#include <memory>
#include <mutex>
#include <string>

#include "ravnest/transport/carrier.h"
#include "ravnest/transport/grpc/baton.h"
#include "ravnest/transport/grpc/stream_set.h"
#include "ravnest/transport/session/pump_gate.h"

namespace ravnest::transport {

// A stream that somebody opened to us. gRPC calls the On… methods on its threads: reads one after
// the other, writes one after the other. The set keeps it alive until OnDone.
class ServerStream final : public Stream,
                           public ::grpc::ServerGenericBidiReactor,
                           public std::enable_shared_from_this<ServerStream> {
 public:
  ServerStream(::grpc::GenericCallbackServerContext* context, std::shared_ptr<StreamSet> set);

  void start(std::shared_ptr<StreamOwner> owner);

  void wake() override;
  void abort(const std::string& reason) override;
  std::string remote() const override { return remote_; }
  std::string member() const override { return member_; }

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone() override;

 private:
  std::shared_ptr<StreamOwner> find_owner();
  void pump();
  void finish(const ::grpc::Status& status);

  const std::shared_ptr<StreamSet> set_;
  const std::string remote_;
  const std::string member_;
  ::grpc::ByteBuffer in_;
  ::grpc::ByteBuffer out_;
  PumpGate gate_;
  Baton baton_;
  bool is_ending_ = false;  // of the thread that pumps

  std::mutex mutex_;                               // guards what follows
  ::grpc::GenericCallbackServerContext* context_;  // gRPC's, until OnDone
  std::shared_ptr<StreamOwner> owner_;             // until OnDone
  bool is_finished_ = false;                       // nothing may be started any more
  std::string reason_;
};

}  // namespace ravnest::transport
