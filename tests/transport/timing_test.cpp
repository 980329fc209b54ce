// What follows from a clock, with a clock in hand.

#include <gtest/gtest.h>

#include "ravnest/transport/session/backoff.h"
#include "ravnest/transport/session/pulse.h"
#include "ravnest/transport/session/pump_gate.h"

namespace ravnest::transport {
namespace {

const TimePoint kStart{};

TEST(Pulse, BeatsOnlyWhenNothingElseWasSent) {
  const Timeouts timeouts;
  Pulse pulse(timeouts, kStart);
  EXPECT_FALSE(pulse.beat(kStart + Milliseconds(999)));
  pulse.on_sent(kStart + Milliseconds(500));
  EXPECT_FALSE(pulse.beat(kStart + Milliseconds(1000)));
  EXPECT_EQ(pulse.next_tick(), kStart + Milliseconds(1500));
  EXPECT_TRUE(pulse.beat(kStart + Milliseconds(1500)));
  EXPECT_FALSE(pulse.beat(kStart + Milliseconds(1501)));
  EXPECT_TRUE(pulse.beat(kStart + Milliseconds(2500)));
}

TEST(Pulse, IsSilentAfterFiveSeconds) {
  const Timeouts timeouts;
  Pulse pulse(timeouts, kStart);
  pulse.on_heard(kStart + Milliseconds(1000));
  EXPECT_FALSE(pulse.is_silent(kStart + Milliseconds(5999)));
  EXPECT_TRUE(pulse.is_silent(kStart + Milliseconds(6000)));
}

TEST(Backoff, DoublesWithJitterUpToTheLongest) {
  Backoff backoff(Milliseconds(100), Milliseconds(1000), 1);
  for (const int whole : {100, 200, 400, 800, 1000, 1000}) {
    const auto pause = backoff.next();
    EXPECT_GE(pause, Milliseconds(whole / 2));
    EXPECT_LE(pause, Milliseconds(whole));
  }
  backoff.reset();
  EXPECT_LE(backoff.next(), Milliseconds(100));
}

TEST(Backoff, DiffersFromSeedToSeed) {
  Backoff one(Milliseconds(100'000), Milliseconds(100'000), 1);
  Backoff two(Milliseconds(100'000), Milliseconds(100'000), 2);
  EXPECT_NE(one.next(), two.next());
}

TEST(PumpGate, ForgetsNoWake) {
  PumpGate gate;
  EXPECT_TRUE(gate.enter());
  EXPECT_FALSE(gate.enter());  // somebody is inside, and will look again
  EXPECT_FALSE(gate.leave());
  EXPECT_TRUE(gate.leave());
  EXPECT_TRUE(gate.enter());
}

}  // namespace
}  // namespace ravnest::transport
