#include "ravnest/provider/display.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace ravnest::provider {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using transport::NoticeKind;

// A display, and all that it has written.
class Shown {
 public:
  explicit Shown(LogLevel level = LogLevel::kInfo, bool is_terminal = false)
      : display({.name = "node_0", .role = "root", .level = level, .is_terminal = is_terminal}) {}

  void wait(milliseconds time) { now += time; }
  void tick(std::int64_t passes) {
    Provider::Status status;
    status.epoch = (passes - 1) / 10;
    status.passes = passes;
    status.samples = passes * 64;
    status.loss = 0.25;
    status.samples_per_second = 320.0;
    status.loop.delay = 2;
    text += display.tick(status, now);
  }
  void hear(NoticeKind kind, const std::string& sentence, const std::string& channel = "forward") {
    text +=
        display.notice({.kind = kind, .peer = "node_1", .channel = channel, .text = sentence}, now);
  }
  // Everything that can happen, each under its own name.
  void hear_everything() {
    hear(NoticeKind::kOpen, "open");
    hear(NoticeKind::kClosed, "closed");
    hear(NoticeKind::kRefused, "refused");
    hear(NoticeKind::kLost, "lost");
    hear(NoticeKind::kOpen, "open again");
    hear(NoticeKind::kNews, "is back", "reduce");
    hear(NoticeKind::kWarning, "abandoned", "reduce");
    hear(NoticeKind::kFailed, "nothing saved", "");
    text += display.averaged(
        {.round = 3, .members = {"node_0", "node_4"}, .nbytes = 5200, .duration = milliseconds(7)});
    text += display.kept({.passes = 100, .file = "checkpoint"});
    text += display.saved("weights", 120);
    text += display.say(LogLevel::kInfo, "said");
  }

  Display display;
  Display::TimePoint now{std::chrono::hours(1)};
  std::string text;
};

TEST(Display, SaysSeldomHowItGoes) {
  Shown shown;
  shown.display.expect(3, 10);
  shown.tick(5);
  for (int second = 0; second < 10; ++second) {
    shown.wait(seconds(1));
    shown.tick(15);
  }
  EXPECT_TRUE(shown.text.starts_with(
      "node_0 (root), epoch 2/3, batch 5/10, loss 0.25, 320 samples/s, delay 2, 15 s left, "))
      << "10 batches took 10 s, and 15 are left: " << shown.text;
  EXPECT_EQ(std::ranges::count(shown.text, '\n'), 1) << "every ten seconds";
}

TEST(Display, ASecondTrainingGoesOnCounting) {
  Shown shown;
  shown.display.expect(2, 10);
  shown.display.expect(1, 10);
  Provider::Status status;
  status.passes = 25;
  EXPECT_TRUE(shown.display.progress(status, shown.now)
                  .starts_with("node_0 (root), epoch 3/3, batch 5/10, loss 0, "));
}

TEST(Display, ShowsWhatIsKnown) {
  Shown shown;
  Provider::Status status;
  status.epoch = 1;
  status.passes = 15;
  EXPECT_TRUE(shown.display.progress(status, shown.now)
                  .starts_with("node_0 (root), epoch 2, batch 15, loss 0, "));
  status.batches = 10;
  EXPECT_TRUE(shown.display.progress(status, shown.now)
                  .starts_with("node_0 (root), epoch 2, batch 5/10, loss 0, "))
      << "an epoch has ended, and had ten";
}

TEST(Display, OnATerminalItStaysInItsLine) {
  Shown shown(LogLevel::kInfo, true);
  shown.tick(5);
  for (int i = 0; i < 4; ++i) {
    shown.wait(milliseconds(250));
    shown.tick(15);
  }
  EXPECT_EQ(std::ranges::count(shown.text, '\r'), 4);
  EXPECT_EQ(shown.text.find('\n'), std::string::npos);
  shown.text.clear();
  shown.text += shown.display.say(LogLevel::kInfo, "done");
  EXPECT_EQ(shown.text, "\r\033[Kdone\n");
  EXPECT_EQ(shown.display.clear(), "") << "nothing is left to take away";
}

TEST(Display, AWaitIsWorthALineWhenItIsLong) {
  Shown shown;
  for (int second = 0; second < 25; ++second) {
    shown.hear(NoticeKind::kWaiting, "waits (" + std::to_string(second) + " s)");
    shown.wait(seconds(1));
  }
  shown.hear(NoticeKind::kOpen, "connected");
  EXPECT_EQ(shown.text, "waits (2 s)\nwaits (12 s)\nwaits (22 s)\nconnected\n");
}

TEST(Display, OnATerminalAWaitCountsInPlaceUntilItEnds) {
  Shown shown(LogLevel::kInfo, true);
  shown.tick(5);
  shown.wait(seconds(1));
  shown.hear(NoticeKind::kLost, "lost (0 s)");
  EXPECT_EQ(shown.text, "lost (0 s)\n") << "the name stays";
  shown.text.clear();
  shown.wait(seconds(1));
  shown.hear(NoticeKind::kLost, "lost (1 s)");
  shown.wait(milliseconds(500));
  shown.tick(6);
  EXPECT_EQ(shown.text, "\r\033[K\033[?7llost (1 s)\033[?7h") << "progress waits";
  shown.hear(NoticeKind::kOpen, "connected");
  shown.tick(6);
  EXPECT_NE(shown.text.find("epoch 1, batch 6"), std::string::npos);
}

TEST(Display, EachLevelSaysWhatItIsFor) {
  const auto said = [](LogLevel level) {
    Shown shown(level);
    shown.hear_everything();
    return shown.text;
  };
  EXPECT_EQ(said(LogLevel::kDebug),
            "open\nclosed\nrefused\nlost\nopen again\nis back\nabandoned\nnothing saved\n"
            "node_0: averaging 3 with node_4 (7 ms, 5.20 kB)\n"
            "node_0: checkpoint after 100 batches in checkpoint\n"
            "node_0: weights after 120 batches in weights\nsaid\n");
  EXPECT_EQ(said(LogLevel::kInfo),
            "refused\nlost\nopen again\nis back\nabandoned\nnothing saved\nsaid\n");
  EXPECT_EQ(said(LogLevel::kWarning), "refused\nlost\nabandoned\nnothing saved\n");
  EXPECT_EQ(said(LogLevel::kError), "nothing saved\n");
  EXPECT_EQ(said(LogLevel::kQuiet), "");
}

TEST(Display, ProgressAndWaitsAreForInfo) {
  for (const LogLevel level : {LogLevel::kWarning, LogLevel::kError, LogLevel::kQuiet}) {
    Shown shown(level, true);
    for (int second = 0; second < 20; ++second) {
      shown.wait(seconds(1));
      shown.tick(second);
      shown.hear(NoticeKind::kWaiting, "waits");
    }
    EXPECT_EQ(shown.text, "");
    EXPECT_FALSE(shown.display.is_due(shown.now));
  }
}

TEST(Display, TheLineTellsOfTheLastAveraging) {
  Shown shown;
  shown.display.averaged(
      {.round = 3, .members = {"node_0"}, .nbytes = 12, .duration = milliseconds(7)});
  EXPECT_TRUE(shown.display.progress({}, shown.now)
                  .ends_with(", averaging 3 with nobody else (7 ms, 12 B)"));
}

TEST(Display, SumsUp) {
  Shown shown;
  Provider::Status status;
  status.passes = 115;
  status.resumed = 100;
  status.samples = 960;
  status.samples_per_second = 320.0;
  status.loss = 0.5;
  status.averagings = 2;
  status.averaged_bytes = 3000;
  const std::string text = shown.display.summary(status);
  EXPECT_TRUE(
      text.starts_with("node_0 (root): trained on 15 batches (and 100 before) in 3.00 s, "
                       "320 samples/s, last loss 0.5, greatest delay 0, memory "))
      << text;
  EXPECT_TRUE(text.ends_with(", averaged 2 times (3.00 kB sent)\n")) << text;
}

TEST(Display, WhatPeersSayCannotDriveTheTerminal) {
  Shown shown;
  shown.hear(NoticeKind::kRefused, "refused \033[2J");
  EXPECT_EQ(shown.text.find('\033'), std::string::npos);
}

TEST(Display, RefusesALevelThatIsNone) {
  EXPECT_EQ(parse_log_level("warning"), LogLevel::kWarning);
  EXPECT_THROW(parse_log_level("loud"), std::invalid_argument);
}

}  // namespace
}  // namespace ravnest::provider
