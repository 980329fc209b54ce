// The gRPC transport against a plain TCP socket, side by side between the same two processes:
// 16 MB tensors one way in GB/s, and round trips of 4 KB. TCP reads a tensor as most programs do,
// with one call for all that is left, and also in pieces of 64 KiB, which stay in the cache. The
// same over TLS is measured against ours without.
//
//   transport_bench [--json] [--pairs N] [--chunk BYTES]
//
// Every pair runs one measurement of each kind next to the others, so that a noisy
// neighbour disturbs both; a figure is the median of the pairs' ratios, with the 10th and 90th
// percentile. Called with --peer it is the other process.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "ravnest/base/error.h"
#include "ravnest/transport/grpc/grpc_transport.h"
#include "ravnest/transport/grpc/tls_credentials.h"
#include "ravnest/transport/inbox.h"
#include "ravnest/trust/authority.h"

namespace ravnest::transport {
namespace {

constexpr Milliseconds kLong{60'000};
constexpr std::size_t kTensorBytes = std::size_t{16} << 20;
constexpr std::size_t kSmallBytes = 4096;
constexpr std::size_t kPieceBytes = std::size_t{64} << 10;

struct Settings {
  bool json = false;
  int pairs = 15;
  int tensors = 32;       // in one measurement
  int round_trips = 500;  // in one measurement
  std::size_t chunk = TransportOptions().largest_chunk;
};

using Clock = std::chrono::steady_clock;

double seconds_of(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Plain TCP.

void check(bool ok, const char* what) {
  if (!ok) {
    throw Error(ErrorKind::kIo, concat("[bench] ", what, ": ", std::strerror(errno)));
  }
}

class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {
    check(descriptor >= 0, "socket");
    const int on = 1;
    ::setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  ~Socket() { ::close(descriptor_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  int get() const { return descriptor_; }

  void write(const std::byte* data, std::size_t size) const {
    while (size > 0) {
      const ssize_t done = ::send(descriptor_, data, size, MSG_NOSIGNAL);
      check(done > 0, "send");
      data += done;
      size -= static_cast<std::size_t>(done);
    }
  }
  // False at the end of the connection.
  bool read(std::byte* data, std::size_t size, std::size_t piece = kTensorBytes) const {
    while (size > 0) {
      const ssize_t done = ::recv(descriptor_, data, std::min(size, piece), 0);
      check(done >= 0, "recv");
      if (done == 0) {
        return false;
      }
      data += done;
      size -= static_cast<std::size_t>(done);
    }
    return true;
  }

 private:
  int descriptor_;
};

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

// What a byte announces; the peer answers each, tensors with a byte.
enum class Wanted : std::uint8_t { kRoundTrip, kTensor, kTensorInPieces };

void serve_tcp(const Socket& connection) {
  std::vector<std::byte> memory(kTensorBytes);
  std::byte announced{};
  while (connection.read(&announced, 1)) {
    const auto wanted = static_cast<Wanted>(announced);
    const std::size_t piece = wanted == Wanted::kTensorInPieces ? kPieceBytes : kTensorBytes;
    const bool is_small = wanted == Wanted::kRoundTrip;
    if (!connection.read(memory.data(), is_small ? kSmallBytes : kTensorBytes, piece)) {
      return;
    }
    connection.write(memory.data(), is_small ? kSmallBytes : 1);
  }
}

const Members kMembers{{"main", "bench-main"}, {"peer", "bench-peer"}};

GrpcOptions with_tls(const trust::Identity& identity) {
  return {.credentials = make_tls_credentials(identity)};
}

// Answers what comes on the two channels of one transport.
class Answering {
 public:
  Answering(Transport& transport, const std::string& back)
      : main_{.name = "main", .address = back},
        stream_(transport.receive(main_, "stream", inbox_.handler())),
        ping_(transport.receive(main_, "ping", inbox_.handler())),
        pong_(transport.open(main_, "pong")) {}

  void run() {
    while (auto delivery = inbox_.take(Milliseconds::max())) {
      if (delivery->message.kind == MessageKind::kControl) {
        pong_->send(delivery->message, kLong);
      }
    }
  }

 private:
  const Peer main_;
  Inbox inbox_;
  const std::unique_ptr<Receiver> stream_;
  const std::unique_ptr<Receiver> ping_;
  const std::unique_ptr<Sender> pong_;
};

// The peer: prints its three addresses, then answers.
int run_peer(const std::string& back, const std::string& tls_back, const std::string& identity) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const Socket listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof(address);
  check(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) == 0, "bind");
  check(::listen(listener.get(), 1) == 0, "listen");
  ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size);
  const TransportOptions options{.name = "peer", .plan = "bench"};
  TransportOptions tls_options = options;
  tls_options.members = kMembers;
  const auto transport = make_grpc_transport({}, options);
  const auto tls = make_grpc_transport(
      with_tls(trust::read_identity(identity, std::chrono::system_clock::now())), tls_options);
  std::printf("%d %s %s\n", ntohs(address.sin_port), transport->address().c_str(),
              tls->address().c_str());
  std::fflush(stdout);

  std::jthread tcp([&] { serve_tcp(Socket(::accept(listener.get(), nullptr, nullptr))); });
  std::jthread over_tls([&] { Answering(*tls, tls_back).run(); });
  Answering(*transport, back).run();
  return 0;
}

// The other process, for as long as this lives.
class PeerProcess {
 public:
  PeerProcess(const std::string& back, const std::string& tls_back, const std::string& identity) {
    int ends[2];
    check(::pipe(ends) == 0, "pipe");
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    std::string words[]{"transport_bench", "--peer", back, tls_back, identity};
    char* arguments[]{words[0].data(), words[1].data(), words[2].data(),
                      words[3].data(), words[4].data(), nullptr};
    check(::posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, arguments, environ) == 0,
          "spawn");
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    std::FILE* lines = ::fdopen(ends[0], "r");
    char grpc[256];
    char tls[256];
    check(std::fscanf(lines, "%d %255s %255s", &tcp_port_, grpc, tls) == 3,
          "the peer did not start");
    grpc_address_ = grpc;
    tls_address_ = tls;
    std::fclose(lines);
  }
  ~PeerProcess() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  int tcp_port() const { return tcp_port_; }
  const std::string& grpc_address() const { return grpc_address_; }
  const std::string& tls_address() const { return tls_address_; }

 private:
  pid_t pid_ = -1;
  int tcp_port_ = 0;
  std::string grpc_address_;
  std::string tls_address_;
};

// Both processes' identities, of an authority for this run; the peer's in a file while this lives.
class Identities {
 public:
  Identities() {
    check(::mkdtemp(folder_.data()) != nullptr, "mkdtemp");
    trust::write_identity(file(), make("bench-peer"));
  }
  ~Identities() { std::filesystem::remove_all(folder_); }
  Identities(const Identities&) = delete;
  Identities& operator=(const Identities&) = delete;

  trust::Identity own() const { return make("bench-main"); }
  std::string file() const { return folder_ + "/identity.pem"; }

 private:
  trust::Identity make(const std::string& id) const {
    return authority_.make_identity({.id = id}, trust::valid_for(std::chrono::days(1), now_));
  }

  const trust::WallTime now_ = std::chrono::system_clock::now();
  const trust::Authority authority_ = trust::Authority::make(now_);
  std::string folder_ = (std::filesystem::temp_directory_path() / "ravnest-XXXXXX").string();
};

// Our channels to the peer, with or without TLS.
class Channels {
 public:
  Channels(Transport& transport, const std::string& address)
      : peer_{.name = "peer", .address = address},
        stream_(transport.open(peer_, "stream")),
        ping_(transport.open(peer_, "ping")),
        pong_(transport.receive(peer_, "pong", inbox_.handler())) {}

  double send_tensors(const Tensor& tensor, int count) {
    return seconds_of([&] {
      for (int i = 0; i < count; ++i) {
        stream_->send({.kind = MessageKind::kForward, .tensors = {tensor}}, kLong);
      }
      stream_->flush(kLong);
    });
  }
  double round_trips(const Message& message, int count) {
    return seconds_of([&] {
      for (int i = 0; i < count; ++i) {
        ping_->send(message, kLong);
        static_cast<void>(inbox_.take(kLong));
      }
    });
  }

 private:
  const Peer peer_;
  Inbox inbox_;
  const std::unique_ptr<Sender> stream_;
  const std::unique_ptr<Sender> ping_;
  const std::unique_ptr<Receiver> pong_;
};

class Bench {
 public:
  explicit Bench(const Settings& settings)
      : settings_(settings),
        transport_(make_grpc_transport({}, options())),
        tls_(make_grpc_transport(with_tls(identities_.own()), tls_options())),
        peer_(transport_->address(), tls_->address(), identities_.file()),
        channels_(*transport_, peer_.grpc_address()),
        tls_channels_(*tls_, peer_.tls_address()),
        socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_in to = loopback(static_cast<std::uint16_t>(peer_.tcp_port()));
    check(::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0,
          "connect");
  }

  double tensors_ours() { return channels_.send_tensors(tensor_, settings_.tensors); }
  double tensors_tls() { return tls_channels_.send_tensors(tensor_, settings_.tensors); }
  double tensors_tcp(Wanted wanted) {
    const auto announced = static_cast<std::byte>(wanted);
    std::vector<std::byte> answers(static_cast<std::size_t>(settings_.tensors));
    return seconds_of([&] {
      for (int i = 0; i < settings_.tensors; ++i) {
        socket_.write(&announced, 1);
        socket_.write(tensor_.bytes.data(), kTensorBytes);
      }
      socket_.read(answers.data(), answers.size());
    });
  }
  double round_trips_ours() { return channels_.round_trips(small_, settings_.round_trips); }
  double round_trips_tls() { return tls_channels_.round_trips(small_, settings_.round_trips); }
  double round_trips_tcp() {
    std::vector<std::byte> answer(kSmallBytes);
    const std::vector<std::byte> question(1 + kSmallBytes,
                                          static_cast<std::byte>(Wanted::kRoundTrip));
    return seconds_of([&] {
      for (int i = 0; i < settings_.round_trips; ++i) {
        socket_.write(question.data(), question.size());
        socket_.read(answer.data(), answer.size());
      }
    });
  }

 private:
  TransportOptions options() const {
    TransportOptions options{.name = "main", .plan = "bench"};
    options.largest_chunk = settings_.chunk;
    return options;
  }
  TransportOptions tls_options() const {
    TransportOptions tls = options();
    tls.members = kMembers;
    return tls;
  }

  const Settings settings_;
  const Tensor tensor_{.dtype = graph::DType::kFloat32,
                       .shape = {kTensorBytes / 4},
                       .bytes = Bytes::take(std::vector<std::byte>(kTensorBytes, std::byte{1}))};
  const Message small_{.tensors = {{.dtype = graph::DType::kUInt8,
                                    .shape = {kSmallBytes},
                                    .bytes = tensor_.bytes.slice(0, kSmallBytes)}}};
  const Identities identities_;
  const std::unique_ptr<Transport> transport_;
  const std::unique_ptr<Transport> tls_;
  const PeerProcess peer_;
  Channels channels_;
  Channels tls_channels_;
  const Socket socket_;
};

double percentile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
}

struct Figure {
  std::string name;
  std::string unit;
  std::string base;  // what it is measured against
  std::vector<double> ours;
  std::vector<double> others;

  std::vector<double> ratios() const {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < ours.size(); ++i) {
      ratios.push_back(ours[i] / others[i]);
    }
    return ratios;
  }
};

void print(const Figure& figure, bool json) {
  const auto ratios = figure.ratios();
  std::printf(json ? "{\"name\": \"%s\", \"unit\": \"%s\", \"ratio\": %.3f, \"p10\": %.3f, "
                     "\"p90\": %.3f, \"ours\": %.3f, \"%s\": %.3f}\n"
                   : "%s, %s: ratio %.3f (10-90 %%: %.3f-%.3f); ours %.2f, %s %.2f\n",
              figure.name.c_str(), figure.unit.c_str(), percentile(ratios, 0.5),
              percentile(ratios, 0.1), percentile(ratios, 0.9), percentile(figure.ours, 0.5),
              figure.base.c_str(), percentile(figure.others, 0.5));
}

int run(const Settings& settings) {
  Bench bench(settings);
  Figure stream{.name = "16 MB tensors", .unit = "GB/s", .base = "tcp"};
  Figure pieces{.name = "16 MB tensors, TCP in pieces", .unit = "GB/s", .base = "tcp"};
  Figure trip{.name = "4 KB round trip", .unit = "us", .base = "tcp"};
  Figure tls_stream{.name = "16 MB tensors over TLS", .unit = "GB/s", .base = "plain"};
  Figure tls_trip{.name = "4 KB round trip over TLS", .unit = "us", .base = "plain"};
  const double gigabytes = static_cast<double>(kTensorBytes) * settings.tensors / 1e9;
  const double microseconds = 1e6 / settings.round_trips;
  for (int pair = -1; pair < settings.pairs; ++pair) {
    const double ours = gigabytes / bench.tensors_ours();
    const double tls = gigabytes / bench.tensors_tls();
    const double tcp = gigabytes / bench.tensors_tcp(Wanted::kTensor);
    const double tcp_pieces = gigabytes / bench.tensors_tcp(Wanted::kTensorInPieces);
    const double our_trip = microseconds * bench.round_trips_ours();
    const double our_tls_trip = microseconds * bench.round_trips_tls();
    const double tcp_trip = microseconds * bench.round_trips_tcp();
    if (pair >= 0) {  // the first warms up
      stream.ours.push_back(ours);
      stream.others.push_back(tcp);
      pieces.ours.push_back(ours);
      pieces.others.push_back(tcp_pieces);
      trip.ours.push_back(our_trip);
      trip.others.push_back(tcp_trip);
      tls_stream.ours.push_back(tls);
      tls_stream.others.push_back(ours);
      tls_trip.ours.push_back(our_tls_trip);
      tls_trip.others.push_back(our_trip);
    }
  }
  for (const Figure& figure : {stream, pieces, trip, tls_stream, tls_trip}) {
    print(figure, settings.json);
  }
  return 0;
}

}  // namespace
}  // namespace ravnest::transport

int main(int count, char** words) {
  using namespace ravnest::transport;
  Settings settings;
  try {
    for (int i = 1; i < count; ++i) {
      const std::string word = words[i];
      const bool has_value = i + 1 < count;
      if (word == "--peer" && i + 3 < count) {
        return run_peer(words[i + 1], words[i + 2], words[i + 3]);
      }
      if (word == "--json") {
        settings.json = true;
      } else if (word == "--pairs" && has_value) {
        settings.pairs = std::stoi(words[++i]);
      } else if (word == "--chunk" && has_value) {
        settings.chunk = std::stoul(words[++i]);
      } else {
        std::fprintf(stderr, "transport_bench [--json] [--pairs N] [--chunk BYTES]\n");
        return 2;
      }
    }
    return run(settings);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
