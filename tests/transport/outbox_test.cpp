#include "ravnest/transport/session/outbox.h"

#include <gtest/gtest.h>

namespace ravnest::transport {
namespace {

const TimePoint kNow{};

Outgoing message_of(std::size_t nbytes) {
  const Message message{.tensors = {{.dtype = graph::DType::kUInt8,
                                     .shape = {static_cast<std::int64_t>(nbytes)},
                                     .bytes = Bytes::take(std::vector<std::byte>(nbytes))}}};
  return prepare(message, {});
}

Welcome welcome(std::uint64_t received, std::uint64_t messages = 100) {
  return {.received = received, .window_messages = messages, .window_bytes = 1 << 30};
}

std::size_t payload_of(const OutFrame& frame) {
  std::size_t nbytes = 0;
  for (const Bytes& part : frame.payload) {
    nbytes += part.size();
  }
  return nbytes;
}

// "B1 P1 B2" for begin 1, piece of 1, begin 2.
std::string write_all(Outbox& outbox, TimePoint now = kNow) {
  std::string story;
  while (const auto frame = outbox.next_frame(now)) {
    const auto* begin = std::get_if<Begin>(&frame->head);
    const auto sequence =
        begin != nullptr ? begin->sequence : std::get<Piece>(frame->head).sequence;
    story += (story.empty() ? "" : " ") + std::string(begin != nullptr ? "B" : "P") +
             std::to_string(sequence);
  }
  return story;
}

TEST(Outbox, WritesMessagesInOrderAndInChunks) {
  Outbox outbox({}, 64 << 10);
  outbox.add(message_of(0));
  outbox.add(message_of(150'000));
  outbox.add(message_of(1));
  outbox.rewind(welcome(0));
  EXPECT_EQ(write_all(outbox), "B1 B2 P2 P2 B3");
  EXPECT_EQ(outbox.written(), 3U);
}

TEST(Outbox, PiecesSayWhereTheyBelong) {
  Outbox outbox({}, 64 << 10);
  outbox.add(message_of(150'000));
  outbox.rewind(welcome(0));
  std::size_t written = 0;
  while (const auto frame = outbox.next_frame(kNow)) {
    if (const auto* piece = std::get_if<Piece>(&frame->head)) {
      EXPECT_EQ(piece->offset, written);
    }
    written += payload_of(*frame);
  }
  EXPECT_EQ(written, 150'000U);
}

TEST(Outbox, HasRoomUntilTheWindowIsFull) {
  Outbox outbox({.messages = 2, .nbytes = 100}, 64 << 10);
  EXPECT_TRUE(outbox.has_room(1000));  // alone, any size
  outbox.add(message_of(60));
  EXPECT_TRUE(outbox.has_room(40));
  EXPECT_FALSE(outbox.has_room(41));
  outbox.add(message_of(1));
  EXPECT_FALSE(outbox.has_room(0));
}

TEST(Outbox, KeepsToTheReceiversWindow) {
  Outbox outbox({}, 64 << 10);
  for (int i = 0; i < 5; ++i) {
    outbox.add(message_of(1));
  }
  outbox.rewind(welcome(0, 2));
  EXPECT_EQ(write_all(outbox), "B1 B2");
  outbox.acknowledge(1);
  EXPECT_EQ(write_all(outbox), "B3");
  outbox.acknowledge(3);
  EXPECT_EQ(write_all(outbox), "B4 B5");
}

TEST(Outbox, GoesOnAfterWhatTheReceiverHas) {
  Outbox outbox({}, 64 << 10);
  for (int i = 0; i < 4; ++i) {
    outbox.add(message_of(1));
  }
  outbox.rewind(welcome(0));
  EXPECT_EQ(write_all(outbox), "B1 B2 B3 B4");
  outbox.acknowledge(1);
  outbox.rewind(welcome(2));
  EXPECT_EQ(write_all(outbox), "B3 B4");
  EXPECT_EQ(outbox.resent(), 2U);
  EXPECT_EQ(outbox.first(), 2U);
}

TEST(Outbox, BeginsAMessageAgainThatWasHalfWritten) {
  Outbox outbox({}, 64 << 10);
  outbox.add(message_of(150'000));
  outbox.rewind(welcome(0));
  static_cast<void>(outbox.next_frame(kNow));
  outbox.rewind(welcome(0));
  EXPECT_EQ(write_all(outbox), "B1 P1 P1");
}

TEST(Outbox, RefusesNonsenseFromTheReceiver) {
  Outbox outbox({}, 64 << 10);
  outbox.add(message_of(1));
  outbox.add(message_of(1));
  EXPECT_THROW(outbox.rewind(welcome(1)), std::invalid_argument);  // nothing was written yet
  outbox.rewind(welcome(0));
  EXPECT_THROW(outbox.acknowledge(1), std::invalid_argument);
  EXPECT_EQ(write_all(outbox), "B1 B2");
  EXPECT_THROW(outbox.acknowledge(3), std::invalid_argument);
  outbox.acknowledge(2);
  outbox.acknowledge(1);  // old news
  EXPECT_TRUE(outbox.is_empty());
  EXPECT_THROW(outbox.rewind(welcome(1)), std::invalid_argument);  // it had acknowledged 2
}

TEST(Outbox, MakesChunksSmallerOnASlowLink) {
  Outbox outbox({}, 1 << 20);
  outbox.add(message_of(64 << 20));
  outbox.rewind(welcome(0));
  TimePoint now = kNow;
  std::size_t chunk = 0;
  for (int i = 0; i < 10; ++i) {
    chunk = payload_of(*outbox.next_frame(now));
    now += Milliseconds(400);
  }
  EXPECT_EQ(chunk, std::size_t{64} << 10);
  for (int i = 0; i < 10; ++i) {
    chunk = payload_of(*outbox.next_frame(now));
    now += Milliseconds(1);
  }
  EXPECT_EQ(chunk, std::size_t{1} << 20);
}

}  // namespace
}  // namespace ravnest::transport
