#include "ravnest/relay/reach.h"

#include <gtest/gtest.h>

#include <optional>

#include "ravnest/base/error.h"
#include "tests/relay/world.h"

namespace ravnest::relay {

namespace {

constexpr Nonce kNonce{std::byte{1}, std::byte{2}, std::byte{3}};
constexpr Nonce kOther{std::byte{1}, std::byte{2}, std::byte{4}};

std::string address_of(const Program& program) {
  return "127.0.0.1:" + std::to_string(program.port());
}

TEST(Reach, HearsTheNonce) {
  std::optional<Echo> echo;
  echo.emplace("127.0.0.1:0", kNonce);
  const std::string address = echo->address();
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(answers(address, kNonce));
  }
  EXPECT_FALSE(answers(address, kOther));
  echo.reset();
  EXPECT_FALSE(answers(address, kNonce));
}

TEST(Reach, IsNotMistakenForOthers) {
  const Program echo;
  EXPECT_FALSE(answers(address_of(echo), kNonce, std::chrono::milliseconds(50)));
  const Program brief([](const Socket& socket) { socket.send(std::span(kNonce).first(15)); });
  EXPECT_FALSE(answers(address_of(brief), kNonce));
  EXPECT_FALSE(answers("name.invalid:80", kNonce));
}

TEST(Reach, SlowBytesAreAwaited) {
  const Program slow([](const Socket& socket) {
    for (const std::byte& byte : kNonce) {
      socket.send(std::span(&byte, 1));
    }
  });
  EXPECT_TRUE(answers(address_of(slow), kNonce));
}

TEST(Reach, SaysThatAPortIsTaken) {
  const Program program;
  EXPECT_THROW(Echo(address_of(program), kNonce), Error);
}

}  // namespace

}  // namespace ravnest::relay
