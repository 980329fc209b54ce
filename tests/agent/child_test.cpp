#include "ravnest/agent/child.h"

#include <gtest/gtest.h>
#include <sys/types.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <optional>

#include "ravnest/base/error.h"

namespace ravnest::agent {
namespace {

constexpr std::chrono::seconds kScriptDeadline{30};

// A shell script in the hands of a test.
class Script {
 public:
  explicit Script(const std::string& text)
      : child_({"/bin/sh", "-c", text},
               {.on_line = [this](std::string line) { add(std::move(line)); },
                .on_end = [this](ChildEnd end) { finish(end); }}) {
    std::signal(SIGPIPE, SIG_IGN);
  }

  Child& child() { return child_; }
  std::vector<std::string> lines(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kScriptDeadline, [&] { return lines_.size() >= count || end_; });
    return lines_;
  }
  ChildEnd end() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kScriptDeadline, [&] { return end_.has_value(); }));
    return end_.value_or(ChildEnd{.exit_code = -2});
  }

 private:
  void add(std::string line) {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(end_);
    lines_.push_back(std::move(line));
    changed_.notify_all();
  }
  void finish(ChildEnd end) {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(end_);
    end_ = end;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
  std::optional<ChildEnd> end_;
  Child child_;
};

using Lines = std::vector<std::string>;

TEST(Child, ItsLinesAreHeardOneByOne) {
  Script script("echo one; echo; printf 'two\\nthree'");
  EXPECT_TRUE(script.end().is_well());
  EXPECT_EQ(script.lines(4), (Lines{"one", "", "two", "three"}));
}

TEST(Child, HearsWordsAndTalksBack) {
  Script script("while read word; do echo \"heard $word\"; done");
  script.child().say("one");
  EXPECT_EQ(script.lines(1), Lines{"heard one"});
  script.child().say("two");
  EXPECT_EQ(script.lines(2).back(), "heard two");
}

TEST(Child, SaysHowItEnded) {
  EXPECT_EQ(Script("exit 3").end().exit_code, 3);
  EXPECT_EQ(Script("exit 3").end().describe(), "ended with exit code 3");
  const ChildEnd killed = Script("kill -9 $$").end();
  EXPECT_EQ(killed.signal, SIGKILL);
  EXPECT_FALSE(killed.is_well());
  EXPECT_EQ(killed.describe(), "was ended by signal 9 (Killed)");
}

TEST(Child, IsKilledWhereItHangs) {
  Script script("echo ready; exec sleep 1000");
  EXPECT_EQ(script.lines(1), Lines{"ready"});
  EXPECT_FALSE(script.child().wait(std::chrono::milliseconds(0)));
  script.child().kill();
  EXPECT_TRUE(script.child().wait(kScriptDeadline));
  EXPECT_EQ(script.end().signal, SIGKILL);
}

TEST(Child, GoesWithItsOwner) {
  pid_t id = 0;
  {
    Script script("echo ready; exec sleep 1000");
    script.lines(1);
    id = script.child().id();
  }
  EXPECT_NE(::kill(id, 0), 0);
}

TEST(Child, AWordToOneThatHasEndedIsPassedOver) {
  Script script("exit 0");
  script.end();
  script.child().say("hello");
  script.child().kill();
  EXPECT_TRUE(script.child().wait(std::chrono::milliseconds(0)));
}

// It runs a stranger's model.
TEST(Child, WhoNeverEndsALineIsKilled) {
  Script script("while true; do printf '%04096d' 0; done");
  EXPECT_EQ(script.end().signal, SIGKILL);
  for (const std::string& line : script.lines(0)) {
    EXPECT_LE(line.size(), 1U << 20);
  }
}

TEST(Child, WhoSaysMoreThanIsHeardWaits) {
  std::mutex mutex;
  std::condition_variable changed;
  int said = 0;
  int most = 0;
  Child child({"/bin/sh", "-c", "yes"}, {.on_line =
                                             [&](const std::string&) {
                                               const std::lock_guard lock(mutex);
                                               most = std::max(most, ++said);
                                               changed.notify_all();
                                             },
                                         .on_end = [](ChildEnd) {},
                                         .lines_at_once = 10});
  for (int i = 0; i < 100; ++i) {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, kScriptDeadline, [&] { return said >= 10; }));
    said = 0;
    lock.unlock();
    child.let_speak();
  }
  const std::lock_guard lock(mutex);
  EXPECT_EQ(most, 10);
}

TEST(Child, HasOurEnvironmentWithoutTheToken) {
  ::setenv("RAVNEST_TOKEN", "secret", 1);
  ::setenv("RAVNEST_WORD", "known", 1);
  Script script("echo ${RAVNEST_TOKEN-none} $RAVNEST_WORD");
  EXPECT_TRUE(script.end().is_well());
  EXPECT_EQ(script.lines(1), Lines{"none known"});
  ::unsetenv("RAVNEST_TOKEN");
  ::unsetenv("RAVNEST_WORD");
}

TEST(Child, ALongLineIsALine) {
  Script script("printf '%0100000d\\n' 7");
  EXPECT_TRUE(script.end().is_well());
  EXPECT_EQ(script.lines(1).at(0).size(), 100'000U);
}

TEST(Child, AllThatItSaidIsHeardBeforeItsEnd) {
  Script script("i=0; while [ $i -lt 5000 ]; do echo line $i; i=$((i+1)); done");
  EXPECT_TRUE(script.end().is_well());
  const Lines lines = script.lines(5000);
  EXPECT_EQ(lines.size(), 5000U);
  EXPECT_EQ(lines.back(), "line 4999");
}

// Somebody that it started still has its output.
TEST(Child, WhomItLeavesBehindIsNotWaitedFor) {
  Script script("sleep 60 & echo $!; exit 5");
  EXPECT_EQ(script.end().exit_code, 5);
  const Lines lines = script.lines(1);
  ASSERT_EQ(lines.size(), 1U);
  ::kill(static_cast<pid_t>(std::stoi(lines[0])), SIGKILL);
}

TEST(Child, AProgramThatIsNotThereIsAnError) {
  EXPECT_THROW(Child({"/no/such/program"}, {}), Error);
}

TEST(RunProgram, GivesWhatWasPrinted) {
  EXPECT_EQ(run_program({"/bin/sh", "-c", "echo a; echo b"}, kScriptDeadline), "a\nb\n");
  EXPECT_THROW(run_program({"/bin/sh", "-c", "exit 1"}, kScriptDeadline), Error);
  EXPECT_THROW(run_program({"/bin/sh", "-c", "exec sleep 1000"}, std::chrono::milliseconds(50)),
               Error);
  EXPECT_THROW(run_program({"/no/such/program"}, kScriptDeadline), Error);
}

}  // namespace
}  // namespace ravnest::agent
