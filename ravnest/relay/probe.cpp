#include "ravnest/relay/probe.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "ravnest/relay/socket.h"
#include "ravnest/transport/grpc/accept_loop.h"
#include "ravnest/trust/digest.h"

namespace ravnest::relay {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// What a peer asks for, a byte each.
constexpr std::byte kPing{'p'};
constexpr std::byte kFill{'f'};

constexpr int kPings = 4;  // the first only shows that it is our turn
constexpr std::size_t kMostBytes = std::size_t{8} << 20;
constexpr std::size_t kFillPiece = std::size_t{64} << 10;
constexpr milliseconds kKnockTime{250};
constexpr milliseconds kServeTime{2000};
constexpr milliseconds kConnectTime{1000};
// Far links take some round trips to reach their speed.
constexpr int kFillTrips = 6;
constexpr milliseconds kLeastFill{100};
constexpr milliseconds kMostFill{300};
constexpr double kLeastSeconds = 1e-4;  // no clock is trusted with less

// The secret itself would let a member choose what others say to whichever address it names.
trust::Digest knock_of(const Nonce& secret) {
  trust::Sha256 hash;
  hash.add("ravnest probe");
  hash.add(secret);
  return hash.finish();
}

bool hear(const Socket& socket, std::span<std::byte> bytes, Clock::time_point deadline) {
  while (!bytes.empty()) {
    const std::size_t size = Clock::now() < deadline ? socket.receive(bytes, deadline) : 0;
    if (size == 0) {
      return false;
    }
    bytes = bytes.subspan(size);
  }
  return true;
}

void fill(const Socket& socket) {
  const std::vector<std::byte> piece(kFillPiece);
  const auto deadline = Clock::now() + kMostFill;
  for (std::size_t sent = 0; sent < kMostBytes && Clock::now() < deadline; sent += piece.size()) {
    if (!socket.send(piece, deadline)) {
      return;
    }
  }
}

// False where it is not the one who is meant.
bool ping(const Socket& socket, Clock::time_point deadline) {
  std::byte answer{};
  return socket.send(std::span(&kPing, 1), deadline) &&
         hear(socket, std::span(&answer, 1), deadline) && answer == kPing;
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Nothing is believed but what comes in time.
std::optional<double> measure_mbps(const Socket& socket, std::chrono::duration<double> trip) {
  const auto asked = Clock::now();
  const auto time =
      std::clamp<std::chrono::duration<double>>(kFillTrips * trip, kLeastFill, kMostFill);
  const auto deadline = asked + std::chrono::duration_cast<Clock::duration>(trip + time);
  std::vector<std::byte> piece(kFillPiece);
  std::size_t total = 0;
  if (!socket.send(std::span(&kFill, 1), deadline)) {
    return std::nullopt;
  }
  while (total < kMostBytes && Clock::now() < deadline) {
    const std::size_t size = socket.receive(piece, deadline);
    if (size == 0) {
      break;
    }
    total += size;
  }
  const double seconds = std::max(seconds_since(asked) - trip.count(), kLeastSeconds);
  return total == 0 ? std::nullopt : std::optional(8e-6 * static_cast<double>(total) / seconds);
}

}  // namespace

class Probe::Loop {
 public:
  Loop(const std::string& address, const Nonce& secret)
      : knock_(knock_of(secret)), accept_(address, transport::AcceptLimits()) {
    accept_.start([this](int descriptor) { take(descriptor); });
  }
  ~Loop() {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    if (served_ != nullptr) {
      served_->shut_down();
    }
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  const std::string& address() const { return accept_.address(); }

 private:
  // On the thread that accepts: whoever comes meanwhile waits.
  void take(int descriptor) {
    const Socket socket(descriptor);
    if (set_served(&socket)) {
      serve(socket);
    }
    set_served(nullptr);
  }

  bool set_served(const Socket* socket) {
    const std::lock_guard lock(mutex_);
    served_ = socket;
    return !is_over_;
  }

  void serve(const Socket& socket) const {
    trust::Digest said{};
    if (!hear(socket, said, Clock::now() + kKnockTime) || !trust::is_equal(said, knock_)) {
      return;
    }
    const auto deadline = Clock::now() + kServeTime;
    std::byte wish{};
    for (int i = 0; i < kPings && hear(socket, std::span(&wish, 1), deadline); ++i) {
      if (wish != kPing || !socket.send(std::span(&wish, 1), deadline)) {
        return;
      }
    }
    if (hear(socket, std::span(&wish, 1), deadline) && wish == kFill) {
      fill(socket);
    }
  }

  const trust::Digest knock_;
  std::mutex mutex_;  // guards what follows
  bool is_over_ = false;
  const Socket* served_ = nullptr;

  transport::AcceptLoop accept_;  // ends first
};

Probe::Probe(const std::string& address, const Nonce& secret)
    : loop_(std::make_unique<Loop>(address, secret)) {}

Probe::~Probe() = default;

const std::string& Probe::address() const { return loop_->address(); }

std::optional<LinkSpeed> measure_link(const std::string& address, const Nonce& secret,
                                      const std::stop_token& stop, milliseconds patience) {
  const auto begun = Clock::now();
  const auto socket = connect_to(address, begun + std::min(kConnectTime, patience));
  if (!socket) {
    return std::nullopt;
  }
  const std::stop_callback cut(stop, [&socket] { socket->shut_down(); });
  const auto deadline = begun + patience;
  if (!socket->send(knock_of(secret), deadline) || !ping(*socket, deadline)) {
    return std::nullopt;
  }
  std::chrono::duration<double> trip = patience;
  for (int i = 1; i < kPings; ++i) {
    const auto start = Clock::now();
    if (!ping(*socket, start + kServeTime)) {
      return std::nullopt;
    }
    trip = std::min(trip, std::chrono::duration<double>(seconds_since(start)));
  }
  const auto mbps = measure_mbps(*socket, trip);
  return mbps && !stop.stop_requested()
             ? std::optional(LinkSpeed{.mbps = *mbps, .latency_ms = 500.0 * trip.count()})
             : std::nullopt;
}

}  // namespace ravnest::relay
