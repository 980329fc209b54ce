#include "ravnest/transport/grpc/frame_format.h"

#include <gtest/gtest.h>

namespace ravnest::transport {
namespace {

using Parts = std::vector<std::span<const std::byte>>;

InFrame read(const std::string& bytes, std::size_t part = 1 << 20) {
  Parts parts;
  for (std::size_t at = 0; at < bytes.size(); at += part) {
    parts.push_back(std::as_bytes(std::span(bytes)).subspan(at, std::min(part, bytes.size() - at)));
    parts.emplace_back();  // gRPC may have empty slices
  }
  return read_frame(parts);
}

template <typename Head>
Head round_trip(const Head& head) {
  return std::get<Head>(read(write_head(head, 0)).head);
}

TEST(FrameFormat, EveryFrameComesBack) {
  const Hello hello = round_trip(Hello{.protocol = 3,
                                       .plan = "p",
                                       .from = "a",
                                       .to = "b",
                                       .channel = "c",
                                       .instance = ~std::uint64_t{0},
                                       .first = 9});
  EXPECT_EQ(hello.protocol, 3U);
  EXPECT_EQ(hello.plan + hello.from + hello.to + hello.channel, "pabc");
  EXPECT_EQ(hello.instance, ~std::uint64_t{0});
  EXPECT_EQ(hello.first, 9U);
  const Welcome welcome =
      round_trip(Welcome{.instance = 1, .received = 2, .window_messages = 3, .window_bytes = 4});
  EXPECT_EQ(welcome.instance, 1U);
  EXPECT_EQ(welcome.received, 2U);
  EXPECT_EQ(welcome.window_messages, 3U);
  EXPECT_EQ(welcome.window_bytes, 4U);
  const Refusal refusal = round_trip(Refusal{.text = "no", .try_again = true});
  EXPECT_EQ(refusal.text, "no");
  EXPECT_TRUE(refusal.try_again);
  EXPECT_EQ(round_trip(Piece{.sequence = 5, .offset = 6}).offset, 6U);
  EXPECT_EQ(round_trip(Ack{.taken = 7}).taken, 7U);
  EXPECT_EQ(round_trip(Heartbeat{.written = 8}).written, 8U);
  static_cast<void>(round_trip(Goodbye{}));
}

TEST(FrameFormat, AMessageComesBackWithItsTensors) {
  const Begin begin = round_trip(Begin{
      .sequence = 1,
      .kind = 2,
      .pass = -3,
      .epoch = 4,
      .fields = {-5, 6},
      .metadata = std::string("\xff\0x", 3),
      .tensors = {{.dtype = 7, .shape = {8, 0, -9}, .numbers = 3, .zstd = true, .nbytes = 10}, {}},
      .numbers = 1,
      .zstd = true});
  EXPECT_EQ(begin.kind, 2);
  EXPECT_EQ(begin.pass, -3);
  EXPECT_EQ(begin.epoch, 4);
  EXPECT_EQ(begin.fields, (std::vector<std::int64_t>{-5, 6}));
  EXPECT_EQ(begin.metadata, std::string("\xff\0x", 3));
  ASSERT_EQ(begin.tensors.size(), 2U);
  EXPECT_EQ(begin.tensors[0].shape, (std::vector<std::int64_t>{8, 0, -9}));
  EXPECT_EQ(begin.tensors[0].numbers, 3U);
  EXPECT_TRUE(begin.tensors[0].zstd);
  EXPECT_EQ(begin.tensors[0].nbytes, 10U);
  EXPECT_EQ(begin.numbers, 1U);
  EXPECT_TRUE(begin.zstd);
}

TEST(FrameFormat, ReadsAFrameInPartsOfAnySize) {
  const std::string payload(1000, 'x');
  const std::string bytes = write_head(Piece{.sequence = 300, .offset = 70'000}, 1000) + payload;
  for (const std::size_t part : {1U, 2U, 3U, 7U, 100U}) {
    const InFrame frame = read(bytes, part);
    EXPECT_EQ(std::get<Piece>(frame.head).offset, 70'000U);
    std::string got;
    for (const auto& span : frame.payload) {
      got.append(reinterpret_cast<const char*>(span.data()), span.size());
    }
    EXPECT_EQ(got, payload);
  }
}

TEST(FrameFormat, RefusesEveryBeginningOfAFrame) {
  const std::string bytes =
      write_head(Begin{.sequence = 1, .kind = 1, .metadata = "m"}, 4) + "body";
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    // One ends where the payload would begin: that is a whole frame.
    if (size == write_head(Begin{.sequence = 1, .kind = 1, .metadata = "m"}, 0).size()) {
      continue;
    }
    EXPECT_THROW(read(bytes.substr(0, size)), std::invalid_argument) << size;
  }
  EXPECT_THROW(read(bytes + "x"), std::invalid_argument);
}

TEST(FrameFormat, RefusesAPayloadWhereNoneBelongs) {
  EXPECT_THROW(read(write_head(Ack{.taken = 1}, 1) + "x"), std::invalid_argument);
}

TEST(FrameFormat, RefusesLengthsThatAreNotThere) {
  const std::string huge("\x0a\xff\xff\xff\xff\x0f", 6);
  EXPECT_THROW(read(huge), std::invalid_argument);
  EXPECT_THROW(read(std::string("\x0a\xff\xff\xff\xff\xff\x01", 7)), std::invalid_argument);
  EXPECT_THROW(read(std::string("\x0a\0", 2)), std::invalid_argument);  // a head of no kind
  EXPECT_THROW(read("\x12\x01x"), std::invalid_argument);
}

TEST(FrameFormat, RefusesAHeadThatIsTooLarge) {
  // A hello of 300 KB: the name's bytes are really there.
  std::string head("\x0a", 1);
  const std::string name(300'000, 'n');
  const std::string hello = std::string("\x12\xe0\xa7\x12", 4) + name;  // plan
  const std::string kind = std::string("\x0a\xe4\xa7\x12", 4) + hello;
  EXPECT_THROW(read(head + "\xe8\xa7\x12" + kind), std::invalid_argument);
}

TEST(FrameFormat, SaysNothingOnTheTerminalAboutStrangeText) {
  std::string bytes = write_head(Hello{.plan = "plan"}, 0);
  bytes.replace(bytes.find("plan"), 4, "\xff\xfe\xfd\xfc");
  ::testing::internal::CaptureStderr();
  EXPECT_THROW(read(bytes), std::invalid_argument);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace ravnest::transport
