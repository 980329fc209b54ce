#include "ravnest/control/client.h"

#include <fcntl.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/create_channel_posix.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <random>
#include <utility>

#include "ravnest/base/error.h"
#include "ravnest/base/fault_point.h"
#include "ravnest/base/table.h"
#include "ravnest/control/part_file.h"
#include "ravnest/control/pipe_call.h"
#include "ravnest/control/stream.h"
#include "ravnest/transport/grpc/credentials.h"
#include "ravnest/transport/grpc/local_socket.h"
#include "ravnest/trust/digest.h"

namespace ravnest::control {

namespace fs = std::filesystem;
using coordinator::Hash;

namespace {

constexpr std::size_t kPartBytes = std::size_t{1} << 20;
constexpr const char* kGet = "/ravnest.control.Files/Get";
constexpr std::uint64_t kProbeBytes = std::uint64_t{8} << 20;
constexpr std::chrono::seconds kShortCall{10};
constexpr Milliseconds kFirstPause{200};
constexpr Milliseconds kLongestPause{2000};

::grpc::ChannelArguments make_arguments() {
  ::grpc::ChannelArguments arguments;
  arguments.SetString(GRPC_SSL_TARGET_NAME_OVERRIDE_ARG, trust::kServerTlsName);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  arguments.SetMaxReceiveMessageSize(static_cast<int>(5 * kPartBytes));
  // What may wait here unread: enough for a fast link that is far.
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, static_cast<int>(4 * kPartBytes));
  return arguments;
}

std::shared_ptr<::grpc::Channel> open_channel(const std::string& server,
                                              const trust::Identity& identity) {
  return ::grpc::CreateCustomChannel(
      "dns:///" + server, transport::make_channel_credentials(identity), make_arguments());
}

// To a server of our own user on this machine, by its local socket; null where there is none. It
// does not come back once it is lost.
std::shared_ptr<::grpc::Channel> open_local_channel(const std::string& server) {
  const int descriptor = transport::connect_locally(server);
  return descriptor < 0
             ? nullptr
             : ::grpc::CreateCustomInsecureChannelFromFd(server, descriptor, make_arguments());
}

class OpenStream final : public Stream {
 public:
  OpenStream(const std::string& server, StreamEvents events, const StreamCall::Begin& begin)
      : call_(std::make_unique<StreamCall>(server, std::move(events))) {
    call_->start(begin);
  }
  ~OpenStream() override { call_->end(); }
  void say(std::string text) override { call_->say(std::move(text)); }

 private:
  std::unique_ptr<StreamCall> call_;
};

void check_wanted(const std::stop_token& stop) {
  if (stop.stop_requested()) {
    throw Error(ErrorKind::kIo, "[control] what was on its way was given up.");
  }
}

void wait(Milliseconds pause, const std::stop_token& stop) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any nothing;
  nothing.wait_for(lock, stop, pause, [] { return false; });
}

// One try after the other, as the options say.
void persist(const TransferOptions& options, const std::function<void()>& attempt) {
  std::minstd_rand random{std::random_device{}()};
  std::uniform_real_distribution<double> jitter(0.5, 1.0);
  bool is_told = false;
  for (Milliseconds pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    try {
      return attempt();
    } catch (const Error& error) {
      check_wanted(options.stop);
      if (!options.on_lost || error.kind() == ErrorKind::kIo) {
        throw;
      }
      if (!std::exchange(is_told, true)) {
        options.on_lost(error);
      }
    }
    wait(std::chrono::duration_cast<Milliseconds>(pause * jitter(random)), options.stop);
    check_wanted(options.stop);
  }
}

void tell(const TransferOptions& options, std::uint64_t done, std::uint64_t size) {
  check_wanted(options.stop);
  if (options.progress) {
    options.progress(static_cast<std::int64_t>(done), static_cast<std::int64_t>(size));
  }
}

// Read, and never mapped: a file that its writer cuts short would end this process.
class SentFile {
 public:
  explicit SentFile(const fs::path& path)
      : path_(path.string()), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct stat status{};
    if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0) {
      throw_io(path_, "read");
    }
    size_ = static_cast<std::uint64_t>(status.st_size);
  }
  ~SentFile() { ::close(descriptor_); }
  SentFile(const SentFile&) = delete;
  SentFile& operator=(const SentFile&) = delete;

  std::uint64_t size() const { return size_; }

  // The part that begins there.
  void read(std::uint64_t offset, std::string& part) const {
    part.resize(std::min<std::uint64_t>(kPartBytes, size_ - offset));
    for (std::size_t done = 0; done < part.size();) {
      const ssize_t count = ::pread(descriptor_, part.data() + done, part.size() - done,
                                    static_cast<off_t>(offset + done));
      if (count == 0) {
        throw Error(ErrorKind::kIo, concat("[control] '", path_, "' was cut short meanwhile."));
      }
      if (count < 0 && errno != EINTR) {
        throw_io(path_, "read");
      }
      done += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
    }
  }

  Hash hash(const std::stop_token& stop) const {
    trust::Sha256 hash;
    std::string part;
    for (std::uint64_t offset = 0; offset < size_; offset += part.size()) {
      check_wanted(stop);
      read(offset, part);
      hash.add(part);
    }
    return trust::to_hex(hash.finish());
  }

 private:
  const std::string path_;
  const int descriptor_;
  std::uint64_t size_ = 0;
};

}  // namespace

struct Client::Impl {
  Impl(std::string given, const trust::Identity& identity)
      : server(std::move(given)),
        control(Control::NewStub(open_channel(server, identity))),
        files_channel(open_channel(server, identity)),
        files(Files::NewStub(files_channel)),
        relay(Relay::NewStub(open_channel(server, identity))),
        member(identity.certificate.member()) {}

  void check(const ::grpc::Status& status) const {
    if (!status.ok()) {
      throw_status(status, server);
    }
  }

  // Files.Get, with parts as they come: protobuf would copy them.
  static std::unique_ptr<::grpc::ClientReader<::grpc::ByteBuffer>> get(
      ::grpc::ChannelInterface* channel, ::grpc::ClientContext* context, const FileName& name) {
    return std::unique_ptr<::grpc::ClientReader<::grpc::ByteBuffer>>(
        ::grpc::internal::ClientReaderFactory<::grpc::ByteBuffer>::Create(
            channel,
            ::grpc::internal::RpcMethod(kGet, ::grpc::internal::RpcMethod::SERVER_STREAMING),
            context, name));
  }

  // What the server does not have yet of a file.
  void send(const SentFile& source, const Hash& hash, const TransferOptions& options) const {
    FileName name;
    name.set_hash(hash);
    name.set_size(source.size());
    const std::uint64_t there = find(name, options.stop);
    if (there == source.size() && source.size() > 0) {
      return;
    }
    ::grpc::ClientContext context;
    const std::stop_callback cancel(options.stop, [&] { context.TryCancel(); });
    FileSize reply;
    const auto writer = files->Put(&context, &reply);
    std::uint64_t offset = there;
    FilePart part;
    *part.mutable_name() = name;
    part.mutable_name()->set_offset(offset);
    do {  // an empty file has a part, too
      source.read(offset, *part.mutable_payload());
      if (!writer->Write(part)) {
        break;
      }
      part.clear_name();
      offset += part.payload().size();
      fault_point("upload");
      tell(options, offset, source.size());
    } while (offset < source.size());
    writer->WritesDone();
    const ::grpc::Status status = writer->Finish();
    if (status.error_code() == ::grpc::StatusCode::INVALID_ARGUMENT) {  // though it was asked first
      throw Error(ErrorKind::kPeerLost, concat("[control] the server at ", server,
                                               " has had more of a file from an earlier try: ",
                                               printable(status.error_message())));
    }
    check(status);
  }

  std::uint64_t find(const FileName& name, const std::stop_token& stop) const {
    ::grpc::ClientContext context;
    const std::stop_callback cancel(stop, [&] { context.TryCancel(); });
    context.set_deadline(std::chrono::system_clock::now() + kShortCall);
    FileSize there;
    check(files->Find(&context, name, &there));
    return there.nbytes();
  }

  // What is not here yet of a file.
  void fetch(const Hash& hash, PartFile& file, const TransferOptions& options) const {
    ::grpc::ClientContext context;
    const std::stop_callback cancel(options.stop, [&] { context.TryCancel(); });
    FileName name;
    name.set_hash(hash);
    name.set_offset(file.nbytes());
    // What does not leave this machine is not encrypted where that can be helped.
    const auto local = options.is_encrypted ? nullptr : open_local_channel(server);
    if (local) {
      transport::say_member(member, context);
    }
    const auto reader = get(local ? local.get() : files_channel.get(), &context, name);
    auto buffer = std::make_unique<::grpc::ByteBuffer>();
    while (reader->Read(buffer.get())) {
      ReceivedPart part = read_part(std::exchange(buffer, std::make_unique<::grpc::ByteBuffer>()));
      const std::uint64_t size = part.file_size;
      file.add(std::move(part));
      tell(options, file.nbytes(), size);
    }
    const ::grpc::Status status = reader->Finish();
    if (status.error_code() == ::grpc::StatusCode::INVALID_ARGUMENT) {
      fs::remove(file.path());  // whatever it is, it is no part of that file
    }
    check(status);
  }

  const std::string server;
  // A connection each: files and relayed bytes must not hold words up.
  const std::unique_ptr<Control::Stub> control;
  const std::shared_ptr<::grpc::Channel> files_channel;
  const std::unique_ptr<Files::Stub> files;
  const std::unique_ptr<Relay::Stub> relay;
  const trust::Member member;  // we are
};

Client::Client(std::string server, const trust::Identity& identity)
    : impl_(std::make_unique<Impl>(std::move(server), identity)) {}
Client::~Client() = default;

const std::string& Client::server() const { return impl_->server; }

std::string Client::ask(const coordinator::Question& question, Milliseconds timeout) const {
  ::grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + timeout);
  Word in;
  in.set_text(coordinator::to_text(question));
  Word out;
  impl_->check(impl_->control->Ask(&context, in, &out));
  return std::move(*out.mutable_text());
}

std::unique_ptr<Stream> Client::attend(StreamEvents events) const {
  return std::make_unique<OpenStream>(impl_->server, std::move(events),
                                      [this](::grpc::ClientContext* context, StreamCall* call) {
                                        impl_->control->async()->Attend(context, call);
                                      });
}

std::unique_ptr<Stream> Client::feed(StreamEvents events) const {
  return std::make_unique<OpenStream>(impl_->server, std::move(events),
                                      [this](::grpc::ClientContext* context, StreamCall* call) {
                                        impl_->control->async()->Feed(context, call);
                                      });
}

std::unique_ptr<relay::Pipe> Client::call(const std::string& member,
                                          relay::PipeEvents events) const {
  PipePart first;
  first.set_connect(member);
  return std::make_unique<PipeCall>(*impl_->relay, first, std::move(events));
}

std::unique_ptr<relay::Pipe> Client::answer(std::int64_t call, relay::PipeEvents events) const {
  PipePart first;
  first.set_answer(static_cast<std::uint64_t>(call));
  return std::make_unique<PipeCall>(*impl_->relay, first, std::move(events));
}

Hash Client::upload(const fs::path& file, const TransferOptions& options) const {
  const SentFile source(file);
  Hash hash = source.hash(options.stop);
  persist(options, [&] { impl_->send(source, hash, options); });
  return hash;
}

void Client::download(const Hash& hash, const fs::path& file,
                      const TransferOptions& options) const {
  if (fs::exists(file)) {
    return;
  }
  PartFile part_file(file.string() + ".part");
  persist(options, [&] { impl_->fetch(hash, part_file, options); });
  if (trust::to_hex(part_file.finish()) != hash) {
    fs::remove(part_file.path());
    throw Error(ErrorKind::kIo, concat("[control] the server at ", impl_->server,
                                       " gave another file than ", hash.substr(0, 12), "…"));
  }
  fs::rename(part_file.path(), file);
}

Client::LinkSpeed Client::measure(Milliseconds patience) const {
  using Clock = std::chrono::steady_clock;
  const auto seconds_since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  LinkSpeed speed;
  speed.latency_ms = 1e9;
  for (int i = 0; i < 4; ++i) {
    const auto start = Clock::now();
    ask(coordinator::WantsTime{});
    speed.latency_ms = std::min(speed.latency_ms, 1e3 * seconds_since(start) / 2.0);
  }
  ::grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + patience);
  FileSize size;
  size.set_nbytes(kProbeBytes);
  const auto start = Clock::now();
  const auto reader = impl_->files->Probe(&context, size);
  FilePart part;
  std::uint64_t received = 0;
  while (reader->Read(&part)) {
    received += part.payload().size();
  }
  const ::grpc::Status status = reader->Finish();
  if (status.error_code() != ::grpc::StatusCode::DEADLINE_EXCEEDED) {
    impl_->check(status);
  }
  speed.mbps = std::max(0.1, static_cast<double>(received) * 8e-6 / seconds_since(start));
  return speed;
}

}  // namespace ravnest::control
