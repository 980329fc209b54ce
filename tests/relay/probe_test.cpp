#include "ravnest/relay/probe.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "ravnest/base/error.h"
#include "tests/relay/world.h"

namespace ravnest::relay {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Nonce kSecret{std::byte{1}, std::byte{2}, std::byte{3}};
constexpr Nonce kGuess{std::byte{1}, std::byte{2}, std::byte{4}};
constexpr std::size_t kKnockBytes = 32;

std::string where(const Program& program) { return "127.0.0.1:" + std::to_string(program.port()); }

std::unique_ptr<Socket> connect(const Probe& probe) {
  return connect_to(probe.address(), deadline());
}

// A peer that is known by its secret, until it is asked for its bytes.
void answer_pings(const Socket& socket) {
  read(socket, kKnockBytes);
  for (int i = 0; i < 4; ++i) {
    socket.send(bytes_of(read(socket, 1)));
  }
  read(socket, 1);
}

TEST(Probe, WhoKnowsTheSecretMeasuresTheLink) {
  const Probe probe("127.0.0.1:0", kSecret);
  for (int i = 0; i < 3; ++i) {
    const auto link = measure_link(probe.address(), kSecret);
    ASSERT_TRUE(link);
    EXPECT_GT(link->mbps, 1.0);
    EXPECT_LT(link->mbps, 1e6);
    EXPECT_GT(link->latency_ms, 0.0);
    EXPECT_LT(link->latency_ms, 1000.0);
  }
}

TEST(Probe, SeveralAreServedOneAfterTheOther) {
  const Probe probe("127.0.0.1:0", kSecret);
  std::atomic<int> measured = 0;
  {
    std::vector<std::jthread> peers;
    for (int i = 0; i < 6; ++i) {
      peers.emplace_back([&] {
        measured += measure_link(probe.address(), kSecret, {}, seconds(30)).has_value() ? 1 : 0;
      });
    }
  }
  EXPECT_EQ(measured, 6);
}

TEST(Probe, WhoDoesNotKnowTheSecretIsToldNothing) {
  const Probe probe("127.0.0.1:0", kSecret);
  EXPECT_FALSE(measure_link(probe.address(), kGuess));
  for (const std::size_t nbytes : {0U, 31U, 32U, 100'000U}) {  // silence ends by itself
    const auto socket = connect(probe);
    ASSERT_TRUE(socket);
    socket->send(Bytes(nbytes));
    EXPECT_TRUE(sees_end(*socket)) << nbytes;
  }
  EXPECT_TRUE(measure_link(probe.address(), kSecret)) << "others are served afterwards";
}

TEST(Probe, GivesItsBytesOnceAndNoMoreThanThat) {
  const Probe probe("127.0.0.1:0", kSecret);
  const Program between([&](const Socket& socket) {  // hears what the peer says
    const auto there = connect(probe);
    const std::string knock = read(socket, kKnockBytes);
    there->send(bytes_of(knock));
    for (int i = 0; i < 4; ++i) {
      there->send(bytes_of(read(socket, 1)));
      socket.send(bytes_of(read(*there, 1)));
    }
    there->send(bytes_of(std::string(1000, 'f')));
    std::size_t size = 0;
    for (std::size_t more = 1; more != 0; size += more) {
      more = read(*there, 1 << 20).size();
    }
    EXPECT_GT(size, 0U);
    EXPECT_LE(size, std::size_t{8} << 20);
  });
  EXPECT_FALSE(measure_link(where(between), kSecret));
}

TEST(Probe, APeerThatReadsNothingIsNotAwaited) {
  const Probe probe("127.0.0.1:0", kSecret);
  std::unique_ptr<Socket> held;
  const Program between([&](const Socket& socket) {
    held = connect(probe);
    held->send(bytes_of(read(socket, kKnockBytes)));
    held->send(bytes_of("ppppf"));
  });
  EXPECT_FALSE(measure_link(where(between), kSecret));
  EXPECT_TRUE(measure_link(probe.address(), kSecret));
}

TEST(Probe, ThePortIsFreeAtOnceAlsoWhileSomebodyIsServed) {
  std::optional<Probe> probe(std::in_place, "127.0.0.1:0", kSecret);
  const std::string address = probe->address();
  for (int i = 0; i < 20; ++i) {
    const auto silent = connect(*probe);
    const auto waiting = connect(*probe);
    ASSERT_TRUE(silent && waiting);
    probe.reset();
    EXPECT_TRUE(sees_end(*silent));
    ASSERT_NO_THROW(probe.emplace(address, kSecret));
  }
  EXPECT_TRUE(measure_link(address, kSecret));
}

TEST(Probe, SaysThatAPortIsTaken) {
  const Program program;
  EXPECT_THROW(Probe(where(program), kSecret), Error);
}

TEST(MeasureLink, NothingIsKnownOfWhoDoesNotAnswer) {
  const Program silent([](const Socket& socket) { read(socket, 100); });
  EXPECT_FALSE(measure_link(where(silent), kSecret, {}, milliseconds(50)));
  const Program brief([](const Socket&) {});
  EXPECT_FALSE(measure_link(where(brief), kSecret));
  const Program echo;  // sends back what it hears: that is not what a Probe does
  EXPECT_FALSE(measure_link(where(echo), kSecret));
  const Program pings_only([](const Socket& socket) { answer_pings(socket); });
  EXPECT_FALSE(measure_link(where(pings_only), kSecret));
  std::string gone;
  {
    const Probe probe("127.0.0.1:0", kSecret);
    gone = probe.address();
  }
  EXPECT_FALSE(measure_link(gone, kSecret));
}

TEST(MeasureLink, APeerThatGivesLittleIsSlow) {
  const Program slow([](const Socket& socket) {
    answer_pings(socket);
    socket.send(Bytes(1000));
    read(socket, 1);  // until the other side has had enough
  });
  const auto link = measure_link(where(slow), kSecret);
  ASSERT_TRUE(link);
  EXPECT_GT(link->mbps, 0.0);
  EXPECT_LT(link->mbps, 1.0) << "1,000 bytes in a tenth of a second";
}

TEST(MeasureLink, AFloodIsNotTakenInForLong) {
  const auto flood = [](const Socket& socket) {
    const Bytes piece(1 << 20);
    while (socket.send(piece)) {
    }
  };
  const Program at_once(flood);
  EXPECT_FALSE(measure_link(where(at_once), kSecret));
  const Program later([&](const Socket& socket) {
    answer_pings(socket);
    flood(socket);
  });
  EXPECT_TRUE(measure_link(where(later), kSecret)) << "8 MiB of it, or a few tenths of a second";
}

TEST(MeasureLink, StopsWhenItIsToldTo) {
  std::stop_source stop;
  const Program silent([&](const Socket& socket) {
    read(socket, kKnockBytes);
    stop.request_stop();
    read(socket, 100);
  });
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(measure_link(where(silent), kSecret, stop.get_token(), seconds(30)));
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(25));
}

TEST(Nonces, AreDigitsAndBack) {
  const Nonce nonce = draw_nonce();
  EXPECT_EQ(read_nonce(to_digits(nonce)), nonce);
  EXPECT_EQ(to_digits(kSecret), "01020300000000000000000000000000");
  EXPECT_NE(draw_nonce(), nonce);
  for (const std::string& wrong : {std::string(), std::string(31, '0'), std::string(32, 'x')}) {
    EXPECT_THROW(read_nonce(wrong), std::invalid_argument) << wrong;
  }
}

}  // namespace

}  // namespace ravnest::relay
