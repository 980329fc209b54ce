#include "ravnest/transport/grpc/local_socket.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <future>

#include "ravnest/transport/grpc/accept_loop.h"
#include "tests/transport/world.h"

namespace ravnest::transport {
namespace {

constexpr AcceptLimits kLocal{.has_local_socket = true};

std::string port_of(const std::string& address) { return split_address(address).port; }

// Whether a connection is made; it is closed again.
bool connects(const std::string& address) {
  const int descriptor = connect_locally(address);
  if (descriptor >= 0) {
    ::close(descriptor);
  }
  return descriptor >= 0;
}

TEST(LocalSocket, StandsBesideThePort) {
  const AcceptLoop loop("127.0.0.1:0", kLocal);
  EXPECT_TRUE(connects(loop.address()));
  EXPECT_TRUE(connects("localhost:" + port_of(loop.address())));
  EXPECT_TRUE(connects("0.0.0.0:" + port_of(loop.address())));
  EXPECT_FALSE(connects("127.0.0.2:" + port_of(loop.address())));
}

TEST(LocalSocket, IsReachedByEveryAddressWhereAllAreListenedAt) {
  const AcceptLoop loop("0.0.0.0:0", kLocal);
  EXPECT_TRUE(connects("127.0.0.1:" + port_of(loop.address())));
  EXPECT_TRUE(connects("127.0.0.2:" + port_of(loop.address())));
  EXPECT_FALSE(connects("[::1]:" + port_of(loop.address())));  // nor is it by TCP
}

TEST(LocalSocket, OfIPv6IsReachedByBoth) {
  const AcceptLoop loop("[::]:0", kLocal);
  EXPECT_TRUE(connects("127.0.0.1:" + port_of(loop.address())));
  EXPECT_TRUE(connects("[::1]:" + port_of(loop.address())));
  EXPECT_FALSE(connects("a.name.that.would.be.asked.for:" + port_of(loop.address())));
}

TEST(LocalSocket, IsGoneWithItsLoop) {
  AcceptLoop loop("127.0.0.1:0", kLocal);
  loop.stop();
  EXPECT_FALSE(connects(loop.address()));
}

TEST(LocalSocket, IsThereOnRequestAlone) {
  const AcceptLoop loop("127.0.0.1:0", {});
  EXPECT_FALSE(connects(loop.address()));
}

TEST(LocalSocket, KnowsTheUserOfTheOtherEnd) {
  AcceptLoop loop("127.0.0.1:0", kLocal);
  std::promise<int> taken;
  loop.start([&](int descriptor) { taken.set_value(descriptor); });
  const int ours = connect_locally(loop.address());
  ASSERT_GE(ours, 0);
  auto theirs = taken.get_future();
  ASSERT_EQ(theirs.wait_for(kPatience), std::future_status::ready);
  for (const int descriptor : {ours, theirs.get()}) {
    EXPECT_TRUE(is_of_user(descriptor, ::geteuid()));
    EXPECT_FALSE(is_of_user(descriptor, ::geteuid() + 1));
    ::close(descriptor);
  }
}

// The stream's far end, as the carrier that took it tells.
template <typename World>
std::string remote_in(World world) {
  class Nobody : public StreamOwner {
   public:
    NextFrame next_frame() override { return {}; }
    void on_frame(const InFrame&) override {}
    void on_end(const std::string&) override {}
  };
  std::promise<std::string> remote;
  const auto server = world.make_carrier("node_1", World::anywhere("node_1"));
  server->start([&](const std::shared_ptr<Stream>& stream) {
    remote.set_value(stream->remote());
    return std::make_shared<Nobody>();
  });
  const auto client = world.make_carrier("node_0", World::anywhere("node_0"));
  client->start([](const auto&) { return std::make_shared<Nobody>(); });
  auto stream = client->connect({"node_1", server->address()}, std::make_shared<Nobody>());
  auto found = remote.get_future();
  EXPECT_EQ(found.wait_for(kPatience), std::future_status::ready);
  const std::string text = found.get();
  stream.reset();  // whoever holds one is waited for
  client->stop();
  server->stop();
  return text;
}

TEST(LocalSocket, CarriesWhatMayNotLeaveTheMachine) {
  EXPECT_EQ(remote_in(GrpcWorld()), "this machine");
  EXPECT_TRUE(remote_in(TrustedGrpcWorld()).starts_with("127.0.0.1:"));
}

}  // namespace
}  // namespace ravnest::transport
