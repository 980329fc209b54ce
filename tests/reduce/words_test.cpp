#include "ravnest/reduce/words.h"

#include <gtest/gtest.h>

#include "tests/reduce/ring_world.h"

namespace ravnest::reduce {
namespace {

LeaderWord leader_word() {
  return {.epoch = 9,
          .incarnation = 77,
          .phase = RoundPhase::kMove,
          .round = 5,
          .is_final = true,
          .latest = {.epoch = 6, .round = 4},
          .history = {{.epoch = 3, .round = 1}, {.epoch = 6, .round = 4}},
          .participants = {0, 2},
          .lost = {1},
          .awaited = {},
          .refused = {1},
          .stale = {0},
          .terms = 8,
          .text = "tcp://127.0.0.1:1"};
}

MemberWord member_word() {
  return {.epoch = 9,
          .leader = 77,
          .incarnation = 3,
          .stage = Stage::kFailed,
          .round = 5,
          .seen = 6,
          .is_final = true,
          .suspect = 2,
          .progress = 12,
          .values = 1000,
          .maxima = 3,
          .terms = 8,
          .history = {{.epoch = 3, .round = 1}},
          .text = "sent nothing"};
}

void put_number(Message& message, std::size_t index, std::int64_t number) {
  std::vector<std::byte> bytes(message.tensors[0].bytes.view().begin(),
                               message.tensors[0].bytes.view().end());
  std::memcpy(bytes.data() + index * sizeof(number), &number, sizeof(number));
  message.tensors[0].bytes = Bytes::take(std::move(bytes));
}

TEST(Words, AreReadAsTheyWereSaid) {
  const auto leader = std::get<LeaderWord>(read_word(to_message(leader_word()), 3));
  EXPECT_EQ(leader.epoch, 9);
  EXPECT_EQ(leader.round, 5);
  EXPECT_EQ(leader.phase, RoundPhase::kMove);
  EXPECT_EQ(leader.latest, (Commit{6, 4}));
  EXPECT_EQ(leader.history, leader_word().history);
  EXPECT_EQ(leader.participants, (std::vector<std::size_t>{0, 2}));
  EXPECT_EQ(leader.lost, std::vector<std::size_t>{1});
  EXPECT_EQ(leader.stale, std::vector<std::size_t>{0});
  EXPECT_EQ(leader.terms, 8);
  EXPECT_EQ(leader.text, "tcp://127.0.0.1:1");
  const auto member = std::get<MemberWord>(read_word(to_message(member_word()), 3));
  EXPECT_EQ(member.stage, Stage::kFailed);
  EXPECT_EQ(member.suspect, 2);
  EXPECT_EQ(member.progress, 12);
  EXPECT_EQ(member.terms, 8);
  EXPECT_EQ(member.text, "sent nothing");
}

TEST(Words, ThatNobodyCanSayAreRefused) {
  const std::vector<std::function<void(Message&)>> spoilers{
      [](Message& m) { m.kind = transport::MessageKind::kForward; },
      [](Message& m) { m.fields[0] = 9; },
      [](Message& m) { m.fields.clear(); },
      [](Message& m) { m.epoch = -1; },
      [](Message& m) { m.pass = -1; },
      [](Message& m) { m.epoch = INT64_MAX; },  // the next would overflow
      [](Message& m) { m.pass = INT64_MAX; },
      [](Message& m) { m.tensors.clear(); },
      [](Message& m) { m.tensors[0].dtype = graph::DType::kUInt8; },
      [](Message& m) { m.tensors[0].bytes = m.tensors[0].bytes.slice(0, 12); },
      [](Message& m) { put_number(m, 0, 0); },          // incarnation
      [](Message& m) { put_number(m, 1, 4); },          // phase
      [](Message& m) { put_number(m, 2, 2); },          // flag
      [](Message& m) { put_number(m, 5, INT64_MAX); },  // the latest round
      [](Message& m) { put_number(m, 6, 9); },          // rounds in the history
      [](Message& m) { put_number(m, 6, INT64_MAX); },
      [](Message& m) { put_number(m, 7, 8); },   // their order
      [](Message& m) { put_number(m, 11, 4); },  // participants
      [](Message& m) { put_number(m, 11, -1); },
      [](Message& m) { put_number(m, 13, 3); },  // their ranks
      [](Message& m) { put_number(m, 13, 0); },
  };
  for (std::size_t index = 0; index < spoilers.size(); ++index) {
    Message message = to_message(leader_word());
    spoilers[index](message);
    EXPECT_THROW(static_cast<void>(read_word(message, 3)), std::invalid_argument) << index;
  }
  Message message = to_message(member_word());
  put_number(message, 3, INT64_MAX);  // the highest round that it has heard of
  EXPECT_THROW(static_cast<void>(read_word(message, 3)), std::invalid_argument);
}

TEST(AllReduce, RefusesWhatDoesNotBelong) {
  RingOptions options{.values = 100, .maxima = 1, .largest_chunk = 64};
  options.members.resize(3);
  const Task task{.epoch = 1, .round = 1, .participants = {0, 1, 2}, .place = 0};
  const auto chunk = [](std::vector<std::int64_t> fields, std::size_t nbytes) {
    return Message{.kind = transport::MessageKind::kReduce,
                   .pass = 1,
                   .epoch = 1,
                   .fields = std::move(fields),
                   .tensors = {transport::byte_tensor(nbytes)}};
  };
  const std::vector<Message> bad{
      chunk({0, 2, 0, 0, 0}, 60),  // too short
      chunk({0, 2, 0, 0, 0}, 68),  // too long
      chunk({0, 2, 1, 0, 0}, 64),  // not the next
      chunk({0, 0, 0, 0, 0}, 64),  // our own segment
      chunk({0, 9, 0, 0, 0}, 64),  // no such segment
      chunk({2, 2, 0, 0, 0}, 64),  // no exchange in this round
      chunk({3, 0, 0, 0, 0}, 8),   // maxima of another dtype
      chunk({7, 2, 0, 0, 0}, 64),  // no such part
      chunk({0, 2, 0, 9, 0}, 64),  // no such codec
      chunk({0, 2, 0, 0, 1}, 64),  // not what zstd writes
      chunk({0, 2, 0, 1, 0}, 32),  // rounded, where nothing may be
      chunk({0, 2, 0, -1, 0}, 64), chunk({0, 2, 0}, 64), chunk({}, 64),
  };
  for (std::size_t index = 0; index < bad.size(); ++index) {
    AllReduce round(options, task, contribution_of(0, 1, options),
                    [](std::size_t, const Message&) {});
    round.start();
    try {
      round.take(2, bad[index]);
      ADD_FAILURE() << index;
    } catch (const Suspicion& suspicion) {
      EXPECT_EQ(suspicion.rank(), 2U) << index;
    }
  }
}

// What a member says of a chunk where one of its own values and one of those that came are these.
std::optional<Suspicion> suspicion_of(float own, float come) {
  RingOptions options{.values = 100, .largest_chunk = 64};
  options.members.resize(3);
  const Task task{.epoch = 1, .round = 1, .participants = {0, 1, 2}, .place = 0};
  Contribution contribution = contribution_of(0, 1, options);
  std::fill(contribution.values.begin() + 70, contribution.values.begin() + 80, own);
  AllReduce round(options, task, std::move(contribution), [](std::size_t, const Message&) {});
  round.start();
  std::vector<float> values(16, 1.0F);
  values[7] = come;
  Message message{.kind = transport::MessageKind::kReduce,
                  .pass = 1,
                  .epoch = 1,
                  .fields = {0, 2, 0, 0, 0},
                  .tensors = {{.dtype = graph::DType::kUInt8,
                               .shape = {64},
                               .bytes = Bytes::copy_of(std::as_bytes(std::span(values)))}}};
  try {
    round.take(2, message);
  } catch (const Suspicion& suspicion) {
    return suspicion;
  }
  return std::nullopt;
}

TEST(AllReduce, NamesWhoHasValuesThatAreNotFinite) {
  EXPECT_FALSE(suspicion_of(1.0F, 2.0F));
  for (const float wild : {INFINITY, -INFINITY, NAN}) {
    for (const bool is_own : {false, true}) {
      const auto suspicion = is_own ? suspicion_of(wild, 1.0F) : suspicion_of(1.0F, wild);
      ASSERT_TRUE(suspicion);
      EXPECT_EQ(suspicion->rank(), is_own ? 0U : 2U);
      EXPECT_TRUE(suspicion->is_proven());
      EXPECT_STREQ(suspicion->what(), "sent values that are not finite");
    }
  }
}

TEST(AllReduce, ASumThatIsTooGreatIsNobodysProvenFault) {
  for (const float own : {1e38F, 3e38F}) {
    const auto suspicion = suspicion_of(own, 3.2e38F - (own - 1e38F));
    ASSERT_TRUE(suspicion);
    EXPECT_FALSE(suspicion->is_proven());
    EXPECT_EQ(suspicion->rank(), own > 2e38F ? 0U : 2U);
    EXPECT_STREQ(suspicion->what(),
                 "has values whose sum with those of others is no float32 any more");
  }
}

}  // namespace
}  // namespace ravnest::reduce
