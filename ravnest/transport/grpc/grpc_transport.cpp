#include "ravnest/transport/grpc/grpc_transport.h"

#include <grpc/support/log.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/resource_quota.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "ravnest/base/error.h"
#include "ravnest/transport/grpc/client_stream.h"
#include "ravnest/transport/grpc/credentials.h"
#include "ravnest/transport/grpc/frame_format.h"
#include "ravnest/transport/grpc/guarded_server.h"
#include "ravnest/transport/grpc/local_socket.h"
#include "ravnest/transport/grpc/server_stream.h"
#include "ravnest/transport/session/session_transport.h"
#include "ravnest/trust/member.h"

namespace ravnest::transport {

namespace {

// A connection carries one stream; a second lets a peer reconnect before the first has ended.
constexpr int kStreamsPerConnection = 2;
// Of all that gRPC holds for frames that are not whole yet.
constexpr std::size_t kQuotaBytes = std::size_t{512} << 20;
// So much may be on its way before it is read.
constexpr int kLookaheadBytes = 4 << 20;

// A call of another method, or after the end.
class Turned final : public ::grpc::ServerGenericBidiReactor {
 public:
  Turned() { Finish(::grpc::Status(::grpc::StatusCode::UNIMPLEMENTED, "no such method")); }
  void OnDone() override { delete this; }
};

class Service final : public ::grpc::CallbackGenericService {
 public:
  Service(Carrier::Accept accept, std::shared_ptr<StreamSet> streams)
      : accept_(std::move(accept)), streams_(std::move(streams)) {
    baton_.pass();
  }

  ::grpc::ServerGenericBidiReactor* CreateReactor(
      ::grpc::GenericCallbackServerContext* context) override {
    baton_.take();
    const auto stream = context->method() == kCarryMethod
                            ? streams_->make<ServerStream>(context, streams_)
                            : nullptr;
    if (!stream) {
      return new Turned;
    }
    stream->start(accept_(stream));
    return stream.get();
  }

 private:
  const Carrier::Accept accept_;
  const std::shared_ptr<StreamSet> streams_;
  Baton baton_;
};

std::shared_ptr<const GrpcCredentials> no_credentials() {
  return std::make_shared<GrpcCredentials>(
      GrpcCredentials{.client = ::grpc::InsecureChannelCredentials(),
                      .server = ::grpc::InsecureServerCredentials()});
}

// What gRPC has to say of strangers' connections is not for a user's terminal.
void silence_grpc() {
  if (std::getenv("GRPC_VERBOSITY") == nullptr) {
    ::gpr_set_log_function([](gpr_log_func_args*) {});
  }
}

// gRPC takes fresh memory for all that it receives. glibc would hand it back to the kernel as
// often, and page faults would cost a third of the speed. The free of one large block raises its
// thresholds (mallopt(3)) to where a process that trains has them anyway, because of its tensors.
void keep_freed_memory() {
  constexpr std::size_t kLargestThatCounts = (std::size_t{32} << 20) - 8192;
  void* volatile block = std::malloc(kLargestThatCounts);
  std::free(block);
}

class GrpcCarrier : public Carrier {
 public:
  GrpcCarrier(const GrpcOptions& options, Milliseconds handshake)
      : options_(options),
        handshake_(handshake),
        is_this_machine_only_(!options.credentials && !options.is_network_trusted),
        credentials_(options.credentials ? options.credentials : no_credentials()),
        server_(std::make_unique<GuardedServer>(options.listen, with_reach(options.limits),
                                                handshake)) {}
  ~GrpcCarrier() override { GrpcCarrier::stop(); }
  GrpcCarrier(const GrpcCarrier&) = delete;
  GrpcCarrier& operator=(const GrpcCarrier&) = delete;

  void start(Accept accept) override;
  bool proves_members() const override { return options_.credentials != nullptr; }
  void check(const Peer& peer) const override;
  std::shared_ptr<Stream> connect(const Peer& peer, std::shared_ptr<StreamOwner> owner) override;
  std::string address() const override { return address_; }
  void stop() override;

 private:
  AcceptLimits with_reach(AcceptLimits limits) const {
    limits.this_machine_only = limits.this_machine_only || is_this_machine_only_;
    limits.has_local_socket = is_this_machine_only_;
    return limits;
  }
  std::shared_ptr<::grpc::Channel> open_channel(const Peer& peer,
                                                const ::grpc::ChannelArguments& arguments) const;

  const GrpcOptions options_;
  const Milliseconds handshake_;
  const bool is_this_machine_only_;
  const std::shared_ptr<const GrpcCredentials> credentials_;
  const std::shared_ptr<StreamSet> streams_ = std::make_shared<StreamSet>();
  std::unique_ptr<Service> service_;
  std::unique_ptr<GuardedServer> server_;  // until stop
  const std::string address_ = server_->address();
};

void GrpcCarrier::start(Accept accept) {
  service_ = std::make_unique<Service>(std::move(accept), streams_);
  ::grpc::ServerBuilder builder;
  builder.RegisterCallbackGenericService(service_.get());
  builder.SetMaxReceiveMessageSize(kMaxFrameBytes);
  builder.SetResourceQuota(::grpc::ResourceQuota("ravnest").Resize(kQuotaBytes));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsPerConnection);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kLookaheadBytes);
  server_->start(builder, credentials_->server);
}

void GrpcCarrier::check(const Peer& peer) const {
  const HostPort parts = split_address(peer.address);
  if (proves_members() && peer.member.empty()) {
    throw_invalid("[transport] expected a peer that is in the plan, got ", peer.name,
                  "; with credentials only its members are spoken with.");
  }
  if (!is_this_machine_only_) {
    return;
  }
  const auto found = resolve(parts);
  if (!std::ranges::all_of(found, [](const auto& at) { return is_this_machine(at.host()); })) {
    throw_invalid("[transport] expected a peer on this machine, got ", peer.address,
                  "; without credentials nothing leaves it, unless the network is trusted.");
  }
}

std::shared_ptr<Stream> GrpcCarrier::connect(const Peer& peer, std::shared_ptr<StreamOwner> owner) {
  ::grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxFrameBytes);
  // A connection of its own, made now: when to try again is the session's to say.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, static_cast<int>(handshake_.count()));
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  if (proves_members()) {
    // The name that the certificate of who answers must bear, whatever the address is.
    arguments.SetString(GRPC_SSL_TARGET_NAME_OVERRIDE_ARG, trust::tls_name_of(peer.member));
  }
  auto stream =
      streams_->make<ClientStream>(open_channel(peer, arguments), peer, std::move(owner), streams_);
  RAVNEST_CHECK(stream != nullptr);  // nobody connects after stop
  stream->start();
  return stream;
}

// What does not leave this machine goes by the shorter way where it can.
std::shared_ptr<::grpc::Channel> GrpcCarrier::open_channel(
    const Peer& peer, const ::grpc::ChannelArguments& arguments) const {
  const int descriptor = is_this_machine_only_ ? connect_locally(peer.address) : -1;
  if (descriptor >= 0) {
    return ::grpc::CreateCustomInsecureChannelFromFd(peer.address, descriptor, arguments);
  }
  return ::grpc::CreateCustomChannel("dns:///" + peer.address, credentials_->client, arguments);
}

void GrpcCarrier::stop() {
  if (server_) {
    server_->stop_accepting();
  }
  streams_->abort_all("the transport is gone");
  if (server_) {
    server_->shut_down();
  }
  streams_->wait_until_empty();
  server_.reset();
}

}  // namespace

std::unique_ptr<Carrier> make_grpc_carrier(const GrpcOptions& options, Milliseconds handshake) {
  static std::once_flag once;
  std::call_once(once, [] {
    silence_grpc();
    keep_freed_memory();
  });
  return std::make_unique<GrpcCarrier>(options, handshake);
}

std::unique_ptr<Transport> make_grpc_transport(const GrpcOptions& grpc,
                                               const TransportOptions& options) {
  return std::make_unique<SessionTransport>(options,
                                            make_grpc_carrier(grpc, options.timeouts.handshake));
}

}  // namespace ravnest::transport
