#include "ravnest/relay/switchboard.h"

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>

#include "tests/relay/wire.h"
#include "tests/relay/world.h"

namespace ravnest::relay {

namespace {

using std::chrono::seconds;

// Keeps what is written into it.
class Recorder : public Pipe {
 public:
  bool write(std::span<const std::byte> bytes) override {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return !is_closed;
  }
  void close() override { is_closed = true; }

  std::string text;
  bool is_closed = false;
};

class Board : public ::testing::Test {
 protected:
  Switchboard::Placed call(const std::string& from, const std::string& to) {
    return board_.call(from, to, caller_, now_);
  }

  std::set<std::pair<std::string, std::string>> refused_;
  Switchboard board_{[this](const std::string& from, const std::string& to) {
                       return !refused_.contains({from, to});
                     },
                     {.calls = 4, .calls_per_caller = 2, .answer_within = seconds(10)}};
  Switchboard::TimePoint now_{};
  std::shared_ptr<Recorder> caller_ = std::make_shared<Recorder>();
  std::shared_ptr<Recorder> called_ = std::make_shared<Recorder>();
};

TEST_F(Board, JoinsTwoPipesAndCounts) {
  const auto placed = call("a", "b");
  const PipeEvents answered = board_.answer(placed.id, "b", called_);
  placed.events.on_bytes(bytes_of("hello"));
  answered.on_bytes(bytes_of("hi"));
  EXPECT_EQ(called_->text, "hello");
  EXPECT_EQ(caller_->text, "hi");
  const auto traffic = board_.traffic();
  ASSERT_EQ(traffic.size(), 2U);
  EXPECT_EQ(traffic[0].from, "a");
  EXPECT_EQ(traffic[0].nbytes, 5U);
  EXPECT_EQ(traffic[1].from, "b");
  EXPECT_EQ(traffic[1].nbytes, 2U);
}

TEST_F(Board, BytesThatCameFirstWaitForTheAnswer) {
  const auto placed = call("a", "b");
  std::jthread sender([&] {
    placed.events.on_bytes(bytes_of("early "));
    placed.events.on_bytes(bytes_of("bird"));
  });
  board_.answer(placed.id, "b", called_);
  sender.join();
  EXPECT_EQ(called_->text, "early bird");
}

TEST_F(Board, EndsBothWhereOneEnds) {
  const auto first = call("a", "b");
  const PipeEvents answered = board_.answer(first.id, "b", called_);
  answered.on_end();
  EXPECT_TRUE(caller_->is_closed);
  EXPECT_EQ(board_.size(), 0U);

  const auto second = call("a", "b");
  called_ = std::make_shared<Recorder>();
  board_.answer(second.id, "b", called_);
  second.events.on_end();
  EXPECT_TRUE(called_->is_closed);
}

TEST_F(Board, EndsTheCallOfAPipeThatTakesNoMore) {
  const auto placed = call("a", "b");
  board_.answer(placed.id, "b", called_);
  called_->is_closed = true;
  placed.events.on_bytes(bytes_of("x"));
  EXPECT_TRUE(caller_->is_closed);
  EXPECT_EQ(board_.size(), 0U);
}

TEST_F(Board, EndsCallsThatNobodyAnswers) {
  const auto early = call("a", "b");
  std::jthread sender([&] { early.events.on_bytes(bytes_of("waits")); });
  now_ += seconds(5);
  const auto late = call("a", "b");
  board_.sweep(now_ + seconds(5));
  sender.join();
  EXPECT_EQ(board_.size(), 1U);
  EXPECT_THROW(board_.answer(early.id, "b", called_), std::invalid_argument);
  board_.answer(late.id, "b", called_);
  board_.sweep(now_ + seconds(100));
  EXPECT_EQ(board_.size(), 1U);
}

TEST_F(Board, AsksWhoMayCallWhom) {
  const auto placed = call("a", "b");
  board_.answer(placed.id, "b", called_);
  refused_ = {{"a", "c"}};
  EXPECT_THROW(call("a", "c"), std::invalid_argument);
  board_.sweep(now_);
  EXPECT_EQ(board_.size(), 1U);
  refused_ = {{"a", "b"}};
  board_.sweep(now_);
  EXPECT_EQ(board_.size(), 0U);
  EXPECT_TRUE(called_->is_closed);
}

TEST_F(Board, IsAnsweredByWhomWasCalledAndOnce) {
  const auto placed = call("a", "b");
  EXPECT_THROW(board_.answer(placed.id, "c", called_), std::invalid_argument);
  EXPECT_THROW(board_.answer(placed.id, "a", called_), std::invalid_argument);
  EXPECT_THROW(board_.answer(placed.id + 1, "b", called_), std::invalid_argument);
  board_.answer(placed.id, "b", called_);
  EXPECT_THROW(board_.answer(placed.id, "b", called_), std::invalid_argument);
  placed.events.on_bytes(bytes_of("x"));
  EXPECT_EQ(called_->text, "x");
}

TEST_F(Board, HasLimits) {
  const auto first = call("a", "b");
  call("a", "b");
  EXPECT_THROW(call("a", "c"), std::invalid_argument);
  call("b", "a");
  call("c", "a");
  EXPECT_THROW(call("d", "a"), std::invalid_argument);
  first.events.on_end();
  call("d", "a");
  EXPECT_EQ(board_.size(), 4U);
}

TEST_F(Board, EndsABlockedCallOfAMemberThatIsGone) {
  const auto placed = call("a", "b");
  const auto stuck = std::make_shared<StuckPipe>();
  board_.answer(placed.id, "b", stuck);
  std::jthread sender([&] { placed.events.on_bytes(bytes_of("x")); });
  stuck->wait_for_writer();
  board_.forget("c");
  EXPECT_EQ(board_.size(), 1U);
  board_.forget("b");
  sender.join();
  EXPECT_EQ(board_.size(), 0U);
  EXPECT_TRUE(board_.traffic().empty());
}

}  // namespace

}  // namespace ravnest::relay
