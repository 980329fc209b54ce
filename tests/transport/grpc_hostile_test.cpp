// Bytes that no node of ours would send, straight to the port.

#include <random>
#include <thread>

#include "ravnest/transport/grpc/frame_format.h"
#include "tests/transport/raw_stream.h"
#include "tests/transport/tcp_client.h"

namespace ravnest::transport {
namespace {

std::string random_bytes(std::size_t size, unsigned seed) {
  const Bytes bytes = pattern(size, seed);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class GrpcHostile : public ::testing::Test {
 protected:
  // An honest message still gets through.
  void expect_service() {
    TestNode honest(world_, "node_0");
    Inbox inbox;
    const auto receiver = node_.transport->receive(honest.peer(), "forward", inbox.handler());
    const auto sender = honest.transport->open(node_.peer(), "forward");
    sender->send(numbered(1), kPatience);
    EXPECT_EQ(take_passes(inbox, 1), passes_to(1));
    sender->close(kPatience);
  }
  TcpClient connect() const { return TcpClient(node_.transport->address()); }

  GrpcWorld world_{.handshake = Milliseconds(500)};
  TestNode node_{world_, "node_1", options()};

  static TransportOptions options() {
    TransportOptions options;
    options.timeouts.handshake = Milliseconds(500);
    return options;
  }
};

TEST_F(GrpcHostile, SurvivesRandomBytes) {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    const TcpClient client = connect();
    client.write(random_bytes(seed * 100, seed));
    EXPECT_TRUE(client.wait_for_end());
  }
  expect_service();
}

TEST_F(GrpcHostile, SurvivesOtherProtocols) {
  const std::string tls_hello("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), tls_hello + random_bytes(501, 7),
        std::string("SSH-2.0-OpenSSH_9.2\r\n"), std::string(100'000, 'A'), h2_preface()}) {
    const TcpClient client = connect();
    client.write(bytes);
    EXPECT_TRUE(client.wait_for_end());
  }
  expect_service();
}

TEST_F(GrpcHostile, SurvivesBrokenCalls) {
  const std::string call = h2_preface() + h2_call("/ravnest.wire.Wire/Carry");
  const std::string hello = write_head(hello_to("node_1"), 0);
  std::vector<TcpClient> clients;
  for (const std::string& bytes :
       {h2_preface() + random_bytes(5000, 3), h2_preface() + h2_call("/other/Method"),
        call + h2_message(random_bytes(1000, 5)), call + h2_message(""),
        call + h2_message(hello, 0xffffffff), call + h2_message(hello) + h2_message(hello),
        call + h2_message(hello.substr(0, hello.size() / 2)),
        call + h2_message(hello) + h2_message(random_bytes(2000, 9))}) {
    clients.push_back(connect());
    clients.back().write(bytes);
  }
  for (const TcpClient& client : clients) {
    EXPECT_TRUE(client.wait_for_end());
  }
  expect_service();
}

TEST_F(GrpcHostile, EndsConnectionsThatSayNothing) {
  std::vector<TcpClient> slow;
  for (int i = 0; i < 20; ++i) {
    slow.push_back(connect());
    slow.back().write(h2_preface().substr(0, static_cast<std::size_t>(i)));
  }
  for (const TcpClient& client : slow) {
    EXPECT_TRUE(client.wait_for_end());
  }
  expect_service();
}

TEST_F(GrpcHostile, EndsCallsThatSayNothing) {
  const TcpClient client = connect();
  client.write(h2_preface() + h2_call("/ravnest.wire.Wire/Carry"));
  EXPECT_TRUE(client.wait_for_end());
}

TEST_F(GrpcHostile, CapsConnectionsOfOneHost) {
  const auto carrier = make_grpc_carrier(
      {.limits = {.connections = 100, .connections_per_host = 5}}, Milliseconds(1000));
  carrier->start([](const std::shared_ptr<Stream>&) { return nullptr; });
  std::vector<TcpClient> clients;
  for (int i = 0; i < 6; ++i) {
    clients.emplace_back(carrier->address());
  }
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(clients[static_cast<std::size_t>(i)].wait_for_answer(), i < 5) << i;
  }
  // They go when they have not shaken hands. A moment later there is room again.
  for (const TcpClient& client : clients) {
    EXPECT_TRUE(client.wait_for_end());
  }
  const TimePoint deadline = deadline_in(kPatience);
  while (!TcpClient(carrier->address()).wait_for_answer()) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  }
  carrier->stop();
}

TEST_F(GrpcHostile, RefusesPeersElsewhereWithoutCredentials) {
  EXPECT_THROW(node_.transport->open({"node_2", "192.0.2.1:8080"}, "forward"),
               std::invalid_argument);
  EXPECT_THROW(node_.transport->open({"node_2", "no address"}, "forward"), std::invalid_argument);
  const auto trusting =
      make_grpc_transport({.is_network_trusted = true}, {.name = "node_3", .plan = "plan"});
  static_cast<void>(trusting->open({"node_2", "192.0.2.1:8080"}, "forward"));
}

TEST_F(GrpcHostile, NamesAPortThatIsTaken) {
  const std::string address = node_.transport->address();
  const std::string text =
      text_thrown<Error>([&] { make_grpc_carrier({.listen = address}, Milliseconds(500)); });
  EXPECT_NE(text.find("port " + address.substr(address.rfind(':') + 1) + " is taken"),
            std::string::npos)
      << text;
}

TEST_F(GrpcHostile, ListensWhereItIsTold) {
  for (const char* host : {"127.0.0.1", "0.0.0.0", "localhost", "[::1]", "[::]"}) {
    TestNode a(world_, "node_8", std::string(host) + ":0");
    EXPECT_EQ(a.transport->address().find(std::string(host) + ":"), 0U);
    EXPECT_NE(a.transport->address(), std::string(host) + ":0");
    TestNode b(world_, "node_9");
    Inbox inbox;
    const auto receiver = a.transport->receive(b.peer(), "forward", inbox.handler());
    const auto sender = b.transport->open({"node_8", a.transport->address()}, "forward");
    sender->send(numbered(1), kPatience);
    EXPECT_EQ(take_passes(inbox, 1), passes_to(1)) << host;
  }
}

}  // namespace
}  // namespace ravnest::transport
