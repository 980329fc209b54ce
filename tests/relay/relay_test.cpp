#include <filesystem>
#include <random>

#include "ravnest/base/error.h"
#include "tests/relay/world.h"

namespace ravnest::relay {

namespace {

std::string random_text(std::size_t nbytes, unsigned seed) {
  std::mt19937_64 random(seed);
  std::string text(nbytes, '\0');
  for (std::size_t i = 0; i + 8 <= nbytes; i += 8) {
    const std::uint64_t word = random();
    std::memcpy(text.data() + i, &word, 8);
  }
  return text;
}

std::size_t open_descriptors() {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

TEST(Relay, BringsBytesThereAndBack) {
  const Program program;
  World world(program.port());
  const auto socket = world.connect();
  for (const std::string text : {"hello", "and", "more"}) {
    EXPECT_TRUE(socket->send(bytes_of(text)));
    EXPECT_EQ(read(*socket, text.size()), text);
  }
}

TEST(Relay, BringsMuchBothWaysAtOnce) {
  const Program program;
  World world(program.port());
  const auto socket = world.connect();
  const std::string text = random_text(64 << 20, 1);
  const std::jthread sender([&] { EXPECT_TRUE(socket->send(bytes_of(text))); });
  EXPECT_TRUE(read(*socket, text.size()) == text);
}

TEST(Relay, ServesAHundredAtOnce) {
  const Program program;
  World world(program.port());
  std::vector<std::unique_ptr<Socket>> sockets;
  for (int i = 0; i < 100; ++i) {
    sockets.push_back(world.connect());
    EXPECT_TRUE(sockets.back()->send(bytes_of("number " + std::to_string(1000 + i))));
  }
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(read(*sockets[static_cast<std::size_t>(i)], 11),
              "number " + std::to_string(1000 + i));
  }
  EXPECT_EQ(world.board.size(), 100U);
}

TEST(Relay, BringsAllBeforeTheEnd) {
  const std::string text = random_text(5 << 20, 2);
  const Program program([&](const Socket& socket) { socket.send(bytes_of(text)); });
  World world(program.port());
  const auto socket = world.connect();
  EXPECT_TRUE(read(*socket, text.size()) == text);
  EXPECT_TRUE(sees_end(*socket));
}

TEST(Relay, EndsWithTheOneWhoConnected) {
  std::promise<bool> ended;
  const Program program([&](const Socket& socket) { ended.set_value(sees_end(socket)); });
  World world(program.port());
  world.connect().reset();
  EXPECT_TRUE(ended.get_future().get());
}

TEST(Relay, EndsWhereNobodyListens) {
  const std::uint16_t port = Program().port();
  World world(port);
  EXPECT_TRUE(sees_end(*world.connect()));
}

TEST(Relay, EndsWithTheWayIn) {
  const Program program;
  World world(program.port());
  const auto socket = world.connect();
  EXPECT_TRUE(socket->send(bytes_of("x")));
  EXPECT_EQ(read(*socket, 1), "x");
  world.inward = std::make_unique<Inward>();
  EXPECT_TRUE(sees_end(*socket));
  EXPECT_EQ(world.board.size(), 0U);
}

TEST(Relay, KeepsNoDescriptors) {
  const Program program([](const Socket&) {});
  World world(program.port());
  world.outward->address_for("b");
  const std::size_t most = open_descriptors() + 10;  // sanitizers take some of their own
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(sees_end(*world.connect()));
  }
  const auto latest = deadline();
  while (open_descriptors() > most && std::chrono::steady_clock::now() < latest) {
    std::this_thread::yield();
  }
  EXPECT_LE(open_descriptors(), most);
}

TEST(Outward, EndsWhereNoPipeCanBeOpened) {
  Outward outward([](const std::string&, const PipeEvents&) -> std::unique_ptr<Pipe> {
    throw Error(ErrorKind::kPeerLost, "[test] nobody is there.");
  });
  EXPECT_TRUE(sees_end(*connect_to(outward.address_for("b"), deadline())));
}

TEST(Outward, HasADoorForEachMember) {
  std::promise<std::string> called;
  Outward outward([&](const std::string& member, const PipeEvents&) {
    called.set_value(member);
    return std::make_unique<StuckPipe>();
  });
  const std::string address = outward.address_for("b");
  EXPECT_EQ(outward.address_for("b"), address);
  EXPECT_NE(outward.address_for("c"), address);
  const auto socket = connect_to(outward.address_for("c"), deadline());
  EXPECT_EQ(called.get_future().get(), "c");
}

TEST(Outward, RemovesAMemberWhoseConnectionIsBlocked) {
  const auto stuck = std::make_shared<StuckPipe>();
  Outward outward(
      [&](const std::string&, const PipeEvents&) { return std::make_unique<BorrowedPipe>(stuck); });
  const std::string address = outward.address_for("b");
  const auto socket = connect_to(address, deadline());
  EXPECT_TRUE(socket->send(bytes_of("x")));
  stuck->wait_for_writer();
  outward.remove("b");
  EXPECT_TRUE(stuck->is_closed());
  EXPECT_TRUE(sees_end(*socket));
  EXPECT_EQ(connect_to(address, deadline()), nullptr);
}

TEST(Outward, AcceptsUpToItsLimit) {
  const Program program;
  Outward outward(
      [](const std::string&, const PipeEvents&) { return std::make_unique<StuckPipe>(); }, 2);
  std::vector<std::unique_ptr<Socket>> sockets;
  for (int i = 0; i < 3; ++i) {
    sockets.push_back(connect_to(outward.address_for("b"), deadline()));
  }
  EXPECT_TRUE(sees_end(*sockets[2]));
}

TEST(Inward, EndsAPipeThatIsBlocked) {
  const Program program([](const Socket& socket) {
    socket.send(bytes_of("x"));
    sees_end(socket);
  });
  const auto stuck = std::make_shared<StuckPipe>();
  {
    Inward inward;
    inward.accept(program.port(),
                  [&](const PipeEvents&) { return std::make_unique<BorrowedPipe>(stuck); });
    stuck->wait_for_writer();
  }
  EXPECT_TRUE(stuck->is_closed());
}

TEST(Inward, ClosesPipesOverItsLimit) {
  const Program program;
  const auto first = std::make_shared<StuckPipe>();
  const auto second = std::make_shared<StuckPipe>();
  Inward inward(1);
  inward.accept(program.port(),
                [&](const PipeEvents&) { return std::make_unique<BorrowedPipe>(first); });
  inward.accept(program.port(),
                [&](const PipeEvents&) { return std::make_unique<BorrowedPipe>(second); });
  EXPECT_FALSE(first->is_closed());
  EXPECT_TRUE(second->is_closed());
}

}  // namespace

}  // namespace ravnest::relay
