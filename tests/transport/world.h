#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ravnest/base/error.h"
#include "ravnest/transport/grpc/grpc_transport.h"
#include "ravnest/transport/inbox.h"
#include "ravnest/transport/loopback/loopback.h"
#include "ravnest/transport/session/session_transport.h"
#include "tests/transport/faulty.h"

namespace ravnest::transport {

// Every wait of a test ends; one that should not come to it has this long.
inline constexpr Milliseconds kPatience{30'000};

// The kinds of network that the contract holds for. `reserve` gives an address that stays free, so
// that a node may be looked for before it has started. Where nodes prove who they are, each has a
// member id.
struct LoopbackWorld {
  std::shared_ptr<LoopbackNetwork> network = make_loopback_network();

  static std::string anywhere(const std::string& name) { return "loopback:" + name; }
  static std::string reserve(const std::string& name) { return "loopback:" + name; }
  std::unique_ptr<Carrier> make_carrier(const std::string&, const std::string& address) {
    return make_loopback_carrier(network, address);
  }
  static Members members() { return {}; }
  static std::string member_of(const std::string&) { return {}; }
  static std::string wrong_node() { return "this is node_2, and node_0 looks for node_1"; }
};

// A port that nobody else is given meanwhile: bound, and not listened on.
class ReservedPort {
 public:
  ReservedPort() : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    // The node that will listen there sets it too; only therefore may both be bound.
    const int on = 1;
    ::setsockopt(descriptor_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(::bind(descriptor_, reinterpret_cast<sockaddr*>(&address), size), 0);
    ::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address), &size);
    address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  ~ReservedPort() { ::close(descriptor_); }
  ReservedPort(const ReservedPort&) = delete;
  ReservedPort& operator=(const ReservedPort&) = delete;

  const std::string& address() const { return address_; }

 private:
  int descriptor_;
  std::string address_;
};

struct GrpcWorld {
  Milliseconds handshake{3000};
  std::list<ReservedPort> reserved{};

  static std::string anywhere(const std::string&) { return "127.0.0.1:0"; }
  std::string reserve(const std::string&) { return reserved.emplace_back().address(); }
  std::unique_ptr<Carrier> make_carrier(const std::string&, const std::string& address) const {
    return make_grpc_carrier({.listen = address}, handshake);
  }
  static Members members() { return {}; }
  static std::string member_of(const std::string&) { return {}; }
  static std::string wrong_node() { return "this is node_2, and node_0 looks for node_1"; }
};

// The same by TCP also within one machine, as between machines that trust their network.
struct TrustedGrpcWorld : GrpcWorld {
  std::unique_ptr<Carrier> make_carrier(const std::string&, const std::string& address) const {
    return make_grpc_carrier({.listen = address, .is_network_trusted = true}, handshake);
  }
};

// Remembers what it is told, and lets a test wait for it.
template <typename Entry>
class Log {
 public:
  void add(Entry entry) {
    const std::lock_guard lock(mutex_);
    entries_.push_back(std::move(entry));
    changed_.notify_all();
  }
  bool wait_for(const std::function<bool(const Entry&)>& wanted,
                Milliseconds patience = kPatience) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, deadline_in(patience),
                               [&] { return std::ranges::any_of(entries_, wanted); });
  }
  std::vector<Entry> entries() const {
    const std::lock_guard lock(mutex_);
    return entries_;
  }
  std::size_t count(const std::function<bool(const Entry&)>& wanted) const {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(std::ranges::count_if(entries_, wanted));
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    entries_.clear();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Entry> entries_;
};

// A node of a test: a transport that keeps its notices and can have faults.
class TestNode {
 public:
  template <typename World>
  TestNode(World& world, const std::string& name, const std::string& address,
           TransportOptions options = {})
      : name_(name), member_(world.member_of(name)) {
    options.name = name;
    options.plan = options.plan.empty() ? "plan" : options.plan;
    options.seed = 1;
    options.members = world.members();
    options.on_notice = [this, next = options.on_notice](const Notice& notice) {
      notices.add(notice);
      if (next) {
        next(notice);
      }
    };
    transport = std::make_unique<SessionTransport>(
        options, make_faulty_carrier(world.make_carrier(name, address), faults));
    address_ = transport->address();
  }

  template <typename World>
  TestNode(World& world, const std::string& name, TransportOptions options = {})
      : TestNode(world, name, world.anywhere(name), std::move(options)) {}

  Peer peer() const { return {.name = name_, .address = address_}; }
  // For who knows no members.
  Peer reached() const { return {.name = name_, .address = address_, .member = member_}; }

  bool wait_for(NoticeKind kind, const std::string& peer, Milliseconds patience = kPatience) {
    return notices.wait_for(
        [&](const Notice& notice) { return notice.kind == kind && notice.peer == peer; }, patience);
  }
  std::size_t count(NoticeKind kind) const {
    return notices.count([kind](const Notice& notice) { return notice.kind == kind; });
  }

  Log<Notice> notices;
  std::shared_ptr<Faults> faults = std::make_shared<Faults>();
  std::unique_ptr<Transport> transport;

 private:
  std::string name_;
  std::string member_;
  std::string address_;
};

inline Bytes pattern(std::size_t nbytes, unsigned seed = 1) {
  std::vector<std::byte> bytes(nbytes);
  unsigned state = seed;
  for (std::byte& byte : bytes) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<std::byte>(state >> 24);
  }
  return Bytes::take(std::move(bytes));
}

inline Tensor byte_tensor(std::size_t nbytes, unsigned seed = 1) {
  return {.dtype = graph::DType::kUInt8,
          .shape = {static_cast<std::int64_t>(nbytes)},
          .bytes = pattern(nbytes, seed)};
}

inline Message numbered(std::int64_t pass, std::size_t nbytes = 0) {
  Message message{.kind = MessageKind::kForward, .pass = pass};
  if (nbytes > 0) {
    message.tensors.push_back(byte_tensor(nbytes, static_cast<unsigned>(pass)));
  }
  return message;
}

inline bool equal(const Bytes& a, const Bytes& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

// Takes `count` messages and returns their passes. Checks that the tensors are what numbered made.
inline std::vector<std::int64_t> take_passes(Inbox& inbox, std::size_t count) {
  std::vector<std::int64_t> passes;
  while (passes.size() < count) {
    const auto delivery = inbox.take(kPatience);
    if (!delivery) {
      break;
    }
    const Message& message = delivery->message;
    for (const Tensor& tensor : message.tensors) {
      EXPECT_TRUE(
          equal(tensor.bytes, pattern(tensor.bytes.size(), static_cast<unsigned>(message.pass))));
    }
    passes.push_back(message.pass);
  }
  return passes;
}

inline std::vector<std::int64_t> passes_to(std::int64_t last) {
  std::vector<std::int64_t> passes;
  for (std::int64_t pass = 1; pass <= last; ++pass) {
    passes.push_back(pass);
  }
  return passes;
}

// What a call throws, as text; empty where it does not throw.
template <typename Thrown>
std::string text_thrown(const std::function<void()>& call) {
  try {
    call();
  } catch (const Thrown& error) {
    return error.what();
  }
  return "";
}

inline ErrorKind kind_thrown(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.kind();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorKind::kIo;
}

}  // namespace ravnest::transport
