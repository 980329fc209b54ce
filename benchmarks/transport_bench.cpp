// The gRPC transport against a plain TCP socket, side by side between the same two processes:
// 16 MB tensors one way in GB/s, and round trips of 4 KB. TCP reads a tensor as most programs do,
// with one call for all that is left, and also in pieces of 64 KiB, which stay in the cache.
//
//   transport_bench [--json] [--pairs N] [--chunk BYTES]
//
// Every pair runs one measurement of ours and one of TCP next to each other, so that a noisy
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
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "ravnest/base/error.h"
#include "ravnest/transport/grpc/grpc_transport.h"
#include "ravnest/transport/inbox.h"

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

// The peer: prints its two addresses, then answers.
int run_peer(const std::string& back) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const Socket listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof(address);
  check(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) == 0, "bind");
  check(::listen(listener.get(), 1) == 0, "listen");
  ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size);
  const auto transport = make_grpc_transport({}, {.name = "peer", .plan = "bench"});
  std::printf("%d %s\n", ntohs(address.sin_port), transport->address().c_str());
  std::fflush(stdout);

  std::jthread tcp([&] { serve_tcp(Socket(::accept(listener.get(), nullptr, nullptr))); });
  const Peer main{.name = "main", .address = back};
  Inbox inbox;
  const auto stream = transport->receive(main, "stream", inbox.handler());
  const auto ping = transport->receive(main, "ping", inbox.handler());
  const auto pong = transport->open(main, "pong");
  while (auto delivery = inbox.take(Milliseconds::max())) {
    if (delivery->message.kind == MessageKind::kControl) {
      pong->send(delivery->message, kLong);
    }
  }
  return 0;
}

// The other process, for as long as this lives.
class PeerProcess {
 public:
  explicit PeerProcess(const std::string& back) {
    int ends[2];
    check(::pipe(ends) == 0, "pipe");
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    std::string words[]{"transport_bench", "--peer", back};
    char* arguments[]{words[0].data(), words[1].data(), words[2].data(), nullptr};
    check(::posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, arguments, environ) == 0,
          "spawn");
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    std::FILE* lines = ::fdopen(ends[0], "r");
    char grpc[256];
    check(std::fscanf(lines, "%d %255s", &tcp_port_, grpc) == 2, "the peer did not start");
    grpc_address_ = grpc;
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

 private:
  pid_t pid_ = -1;
  int tcp_port_ = 0;
  std::string grpc_address_;
};

class Bench {
 public:
  explicit Bench(const Settings& settings)
      : settings_(settings),
        transport_(make_grpc_transport({}, options())),
        peer_(transport_->address()),
        socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_in to = loopback(static_cast<std::uint16_t>(peer_.tcp_port()));
    check(::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0,
          "connect");
    const Peer peer{.name = "peer", .address = peer_.grpc_address()};
    stream_ = transport_->open(peer, "stream");
    ping_ = transport_->open(peer, "ping");
    pong_ = transport_->receive(peer, "pong", inbox_.handler());
  }

  double tensors_ours() {
    return seconds_of([&] {
      for (int i = 0; i < settings_.tensors; ++i) {
        stream_->send({.kind = MessageKind::kForward, .tensors = {tensor_}}, kLong);
      }
      stream_->flush(kLong);
    });
  }
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
  double round_trips_ours() {
    const Message message{.tensors = {{.dtype = graph::DType::kUInt8,
                                       .shape = {kSmallBytes},
                                       .bytes = tensor_.bytes.slice(0, kSmallBytes)}}};
    return seconds_of([&] {
      for (int i = 0; i < settings_.round_trips; ++i) {
        ping_->send(message, kLong);
        static_cast<void>(inbox_.take(kLong));
      }
    });
  }
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

  const Settings settings_;
  const Tensor tensor_{.dtype = graph::DType::kFloat32,
                       .shape = {kTensorBytes / 4},
                       .bytes = Bytes::take(std::vector<std::byte>(kTensorBytes, std::byte{1}))};
  const std::unique_ptr<Transport> transport_;
  const PeerProcess peer_;
  const Socket socket_;
  Inbox inbox_;
  std::unique_ptr<Sender> stream_;
  std::unique_ptr<Sender> ping_;
  std::unique_ptr<Receiver> pong_;
};

double percentile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
}

struct Figure {
  std::string name;
  std::string unit;
  std::vector<double> ours;
  std::vector<double> tcp;

  std::vector<double> ratios() const {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < ours.size(); ++i) {
      ratios.push_back(ours[i] / tcp[i]);
    }
    return ratios;
  }
};

void print(const Figure& figure, bool json) {
  const auto ratios = figure.ratios();
  std::printf(json ? "{\"name\": \"%s\", \"unit\": \"%s\", \"ratio\": %.3f, \"p10\": %.3f, "
                     "\"p90\": %.3f, \"ours\": %.3f, \"tcp\": %.3f}\n"
                   : "%s, %s: %.3f of TCP (10-90 %%: %.3f-%.3f); ours %.2f, TCP %.2f\n",
              figure.name.c_str(), figure.unit.c_str(), percentile(ratios, 0.5),
              percentile(ratios, 0.1), percentile(ratios, 0.9), percentile(figure.ours, 0.5),
              percentile(figure.tcp, 0.5));
}

int run(const Settings& settings) {
  Bench bench(settings);
  Figure stream{.name = "16 MB tensors", .unit = "GB/s"};
  Figure pieces{.name = "16 MB tensors, TCP in pieces", .unit = "GB/s"};
  Figure trip{.name = "4 KB round trip", .unit = "us"};
  const double gigabytes = static_cast<double>(kTensorBytes) * settings.tensors / 1e9;
  const double microseconds = 1e6 / settings.round_trips;
  for (int pair = -1; pair < settings.pairs; ++pair) {
    const double ours = gigabytes / bench.tensors_ours();
    const double tcp = gigabytes / bench.tensors_tcp(Wanted::kTensor);
    const double tcp_pieces = gigabytes / bench.tensors_tcp(Wanted::kTensorInPieces);
    const double our_trip = microseconds * bench.round_trips_ours();
    const double tcp_trip = microseconds * bench.round_trips_tcp();
    if (pair >= 0) {  // the first warms up
      stream.ours.push_back(ours);
      stream.tcp.push_back(tcp);
      pieces.ours.push_back(ours);
      pieces.tcp.push_back(tcp_pieces);
      trip.ours.push_back(our_trip);
      trip.tcp.push_back(tcp_trip);
    }
  }
  print(stream, settings.json);
  print(pieces, settings.json);
  print(trip, settings.json);
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
      if (word == "--peer" && has_value) {
        return run_peer(words[i + 1]);
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
