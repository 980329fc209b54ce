#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "tests/sandbox/inside.h"

namespace ravnest::sandbox {

namespace {

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

// Somebody who listens on this machine.
class Listener {
 public:
  Listener() : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof(address);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(descriptor_, generic, size), 0);
    EXPECT_EQ(::listen(descriptor_, 8), 0);
    EXPECT_EQ(::getsockname(descriptor_, generic, &size), 0);
    port_ = ntohs(address.sin_port);
  }
  ~Listener() { ::close(descriptor_); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  std::uint16_t port() const { return port_; }

 private:
  int descriptor_;
  std::uint16_t port_ = 0;
};

using UseAddress = int (*)(int, const sockaddr*, socklen_t);

int use_port(UseAddress use, std::uint16_t port) {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM, 0);
  const sockaddr_in address = loopback(port);
  return answer(use(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)));
}

int socket_answer(int domain, int type, int protocol = 0) {
  return answer(::socket(domain, type, protocol));
}

// Refused where the kernel can.
int closed_port() { return abi() >= 4 ? EACCES : 0; }

TEST(Network, ConnectsToItsPortsAlone) {
  const Listener friendly;
  const Listener other;
  const SandboxOptions options{.connect_ports = {{friendly.port()}}};
  EXPECT_EQ(inside(options, [&] { return use_port(::connect, friendly.port()); }), 0);
  EXPECT_EQ(inside(options, [&] { return use_port(::connect, other.port()); }), closed_port());
  EXPECT_EQ(inside({}, [&] { return use_port(::connect, other.port()); }), 0);
}

TEST(Network, DoesNotConnectByTheBackDoor) {
  const Listener other;
  const auto send_early = [&] {
    const int descriptor = ::socket(AF_INET, SOCK_STREAM, 0);
    const sockaddr_in address = loopback(other.port());
    return answer(::sendto(descriptor, "x", 1, MSG_FASTOPEN,
                           reinterpret_cast<const sockaddr*>(&address), sizeof(address)));
  };
  EXPECT_EQ(inside({}, send_early), EPERM);
  EXPECT_EQ(inside({}, [] { return socket_answer(AF_INET, SOCK_STREAM, IPPROTO_MPTCP); }), EPERM);
}

TEST(Network, ListensAtItsPortsAlone) {
  const std::uint16_t free_port = Listener().port();
  const SandboxOptions options{.bind_ports = {free_port}};
  EXPECT_EQ(inside(options, [&] { return use_port(::bind, free_port); }), 0);
  EXPECT_EQ(inside(options, [&] { return use_port(::bind, 0); }), closed_port());
  EXPECT_EQ(inside({.bind_ports = {0}}, [&] { return use_port(::bind, 0); }), 0);
}

TEST(Network, HasNoOtherSockets) {
  EXPECT_EQ(inside({}, [] { return socket_answer(AF_UNIX, SOCK_STREAM); }), EPERM);
  EXPECT_EQ(inside({}, [] { return socket_answer(AF_NETLINK, SOCK_RAW); }), EPERM);
  EXPECT_EQ(inside({}, [] { return socket_answer(AF_NETLINK, SOCK_DGRAM); }), EPERM);
  EXPECT_EQ(inside({}, [] { return socket_answer(AF_PACKET, SOCK_DGRAM); }), EPERM);
  EXPECT_EQ(inside({}, [] { return socket_answer(AF_VSOCK, SOCK_STREAM); }), EPERM);
  EXPECT_EQ(inside({}, [] { return socket_answer(AF_INET, SOCK_RAW, IPPROTO_TCP); }), EPERM);
  EXPECT_EQ(inside({}, [] { return socket_answer(AF_INET6, SOCK_RAW | SOCK_CLOEXEC, 58); }), EPERM);
  EXPECT_EQ(in_child([] { return socket_answer(AF_UNIX, SOCK_STREAM); }), 0);
  EXPECT_EQ(in_child([] { return socket_answer(AF_NETLINK, SOCK_DGRAM); }), 0);
}

TEST(Network, HasTheSocketsOfATransport) {
  EXPECT_EQ(inside({}, [] { return socket_answer(AF_INET, SOCK_STREAM | SOCK_NONBLOCK); }), 0);
  EXPECT_EQ(inside({}, [] { return socket_answer(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 6); }), 0);
  EXPECT_EQ(inside({}, [] { return socket_answer(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC); }), 0);
  EXPECT_EQ(inside({},
                   [] {
                     int ends[2];
                     return answer(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
                   }),
            0);
}

TEST(Network, LooksUpNames) {
  EXPECT_EQ(inside({},
                   [] {
                     addrinfo* found = nullptr;
                     const int result = ::getaddrinfo("localhost", "80", nullptr, &found);
                     ::freeaddrinfo(found);
                     return result == 0 ? 0 : 1;
                   }),
            0);
}

}  // namespace

}  // namespace ravnest::sandbox
