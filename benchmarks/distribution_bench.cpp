// A sub-model on its way from a server to a provider, on loopback, against a plain TCP copy of the
// same file, in turns. Prints JSON: pairs of GB/s, and what each side's memory grew by since before
// the upload, the mapped file apart.
//
//   distribution_bench SERVER DATA PID MEGABYTES ROUNDS tls|local
//
// Over TLS, as between machines, or by the local socket. SERVER is the address of a `ravnest serve`
// whose folder is DATA and process PID; what is fetched is fetched as its owner.

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "ravnest/base/bytes.h"
#include "ravnest/base/error.h"
#include "ravnest/control/client.h"
#include "ravnest/trust/authority.h"
#include "ravnest/trust/identity.h"

namespace {

using namespace ravnest;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kPiece = std::size_t{1} << 20;

double seconds_of(const auto& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// What a process has in memory that is in no file, in MB.
double own_megabytes(const std::string& pid) {
  std::ifstream status("/proc/" + pid + "/status");
  std::string key;
  double kilobytes = 0.0;
  while (status >> key) {
    if (key == "RssAnon:") {
      status >> kilobytes;
      break;
    }
  }
  return kilobytes / 1024.0;
}

// The most that a process has grown by since the start. It looks all the time, in both sides'
// turns.
class Growth {
 public:
  explicit Growth(std::string pid)
      : pid_(std::move(pid)), before_(own_megabytes(pid_)), thread_([this](std::stop_token stop) {
          while (!stop.stop_requested()) {
            most_ = std::max(most_.load(), own_megabytes(pid_) - before_);
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
          }
        }) {}
  double most() const { return most_; }

 private:
  const std::string pid_;
  const double before_;
  std::atomic<double> most_ = 0.0;
  std::jthread thread_;
};

void check(bool is_well, const char* what) {
  if (!is_well) {
    throw Error(ErrorKind::kIo, concat("[benchmarks] cannot ", what, "."));
  }
}

void write_all(int descriptor, const std::byte* data, std::size_t size) {
  while (size > 0) {
    const ssize_t count = ::write(descriptor, data, std::min(size, kPiece));
    check(count > 0, "write");
    data += count;
    size -= static_cast<std::size_t>(count);
  }
}

// From a mapped file to a socket; from the socket to a file.
void copy_plainly(const fs::path& from, const fs::path& to) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* where = reinterpret_cast<sockaddr*>(&address);
  check(::bind(listener, where, length) == 0 && ::listen(listener, 1) == 0 &&
            ::getsockname(listener, where, &length) == 0,
        "listen");
  const std::jthread sender([&] {
    const int out = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    check(::connect(out, where, length) == 0, "connect");
    const Bytes bytes = Bytes::map_file(from);
    write_all(out, bytes.data(), bytes.size());
    ::close(out);
  });
  const int in = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  const int file = ::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  check(in >= 0 && file >= 0, "open");
  std::vector<std::byte> piece(kPiece);
  ssize_t count = 0;
  while ((count = ::read(in, piece.data(), piece.size())) > 0) {
    write_all(file, piece.data(), static_cast<std::size_t>(count));
  }
  for (const int descriptor : {in, file, listener}) {
    ::close(descriptor);
  }
}

void write_noise(const fs::path& path, std::size_t megabytes) {
  std::mt19937_64 random(1);
  std::vector<std::uint64_t> piece(kPiece / sizeof(std::uint64_t));
  std::ofstream file(path, std::ios::binary);
  for (std::size_t i = 0; i < megabytes; ++i) {
    std::ranges::generate(piece, std::ref(random));
    file.write(reinterpret_cast<const char*>(piece.data()), kPiece);
  }
}

void run(const std::vector<std::string>& words) {
  const auto now = std::chrono::system_clock::now();
  const trust::Authority authority = trust::Authority::open(words.at(1), now);
  const control::Client client(
      words.at(0), authority.make_identity({trust::make_member_id(), trust::Role::kServer},
                                           trust::valid_for(std::chrono::days(1), now)));
  const Growth server(words.at(2));
  const Growth own(std::to_string(::getpid()));
  const auto megabytes = static_cast<std::size_t>(std::stoul(words.at(3)));
  const fs::path folder = fs::path(words.at(1)) / "bench";
  fs::create_directories(folder);
  const fs::path model = folder / "model";
  write_noise(model, megabytes);
  const double gigabytes = static_cast<double>(megabytes * kPiece) / 1e9;
  coordinator::Hash hash;
  const double up = seconds_of([&] { hash = client.upload(model); });
  std::string pairs;
  const auto ours = [&] {
    const control::TransferOptions options{.is_encrypted = words.at(5) == "tls"};
    const double rate =
        gigabytes / seconds_of([&] { client.download(hash, folder / "ours", options); });
    fs::remove(folder / "ours");
    return rate;
  };
  const auto theirs = [&] {
    const double rate = gigabytes / seconds_of([&] { copy_plainly(model, folder / "theirs"); });
    fs::remove(folder / "theirs");
    return rate;
  };
  static_cast<void>(theirs());
  static_cast<void>(ours());
  const int rounds = std::stoi(words.at(4));
  for (int i = 0; i < rounds; ++i) {
    double a = i % 2 == 0 ? ours() : 0.0;
    const double b = theirs();
    a = i % 2 == 0 ? a : ours();
    pairs += concat(i == 0 ? "" : ", ", "[", a, ", ", b, "]");
  }
  fs::remove_all(folder);
  std::cout << concat("{\"pairs\": [", pairs, "], \"upload\": ", gigabytes / up,
                      ", \"server_mb\": ", server.most(), ", \"own_mb\": ", own.most(), "}\n");
}

}  // namespace

int main(int count, char** words) {
  try {
    run({words + 1, words + count});
  } catch (const std::exception& error) {
    std::cerr << "distribution_bench: " << error.what() << "\n";
    return 1;
  }
}
