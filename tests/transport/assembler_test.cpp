#include "ravnest/transport/session/assembler.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/transport/resident.h"
#include "tests/transport/sanitizers.h"

namespace ravnest::transport {
namespace {

class AssemblerTest : public ::testing::Test {
 protected:
  static Begin begin_of(std::uint64_t nbytes, std::uint64_t sequence = 1) {
    return {
        .sequence = sequence,
        .kind = 1,
        .tensors = {{.dtype = 1, .shape = {static_cast<std::int64_t>(nbytes)}, .nbytes = nbytes}}};
  }
  // The bytes from `offset` on of a body that counts up.
  static std::vector<std::byte> counting(std::size_t offset, std::size_t size) {
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; ++i) {
      bytes[i] = static_cast<std::byte>(offset + i);
    }
    return bytes;
  }
  void begin(const Begin& begin, const std::vector<std::byte>& bytes = {}) {
    const std::vector<std::span<const std::byte>> payload{bytes};
    assembler_.begin(begin, payload);
  }
  void add(const Piece& piece, const std::vector<std::byte>& bytes) {
    const std::vector<std::span<const std::byte>> payload{bytes};
    assembler_.add(piece, payload);
  }

  Limits limits_{.tensors = 10, .tensor_bytes = 1 << 20, .message_bytes = 1 << 21};
  std::shared_ptr<Budget> budget_ = std::make_shared<Budget>(1 << 21);
  Assembler assembler_{limits_, budget_};
};

TEST_F(AssemblerTest, JoinsPieces) {
  begin(begin_of(1000), counting(0, 100));
  EXPECT_FALSE(assembler_.is_whole());
  add({.sequence = 1, .offset = 100}, counting(100, 500));
  add({.sequence = 1, .offset = 600}, counting(600, 400));
  ASSERT_TRUE(assembler_.is_whole());
  auto [message, parts, held] = assembler_.take();
  const auto expected = counting(0, 1000);
  ASSERT_EQ(message.tensors.at(0).bytes.size(), 1000U);
  EXPECT_EQ(std::memcmp(message.tensors[0].bytes.data(), expected.data(), 1000), 0);
  EXPECT_EQ(budget_->held(), 1000U);
  held.clear();
  EXPECT_EQ(budget_->held(), 0U);
}

TEST_F(AssemblerTest, DividesABodyAmongTensors) {
  Begin header{.sequence = 1, .kind = 1};
  for (const std::uint64_t size : {3U, 0U, 1U, 0U, 0U, 4U}) {
    header.tensors.push_back(
        {.dtype = 1, .shape = {static_cast<std::int64_t>(size)}, .nbytes = size});
  }
  begin(header, counting(0, 8));
  ASSERT_TRUE(assembler_.is_whole());
  auto [message, parts, held] = assembler_.take();
  EXPECT_EQ(message.tensors.at(0).bytes.size(), 3U);
  EXPECT_EQ(message.tensors.at(2).bytes.view()[0], std::byte{3});
  EXPECT_EQ(message.tensors.at(5).bytes.view()[0], std::byte{4});
}

// Frames of this many bytes, each cut into slices of that many, to who takes parts.
Assembled assembled_in_parts(std::size_t total, std::size_t frame, std::size_t slice) {
  Assembler assembler(Limits(), std::make_shared<Budget>(1 << 24), true);
  for (std::size_t offset = 0; offset < total; offset += frame) {
    const auto bytes = std::make_shared<std::vector<std::byte>>();
    for (std::size_t i = offset; i < std::min(total, offset + frame); ++i) {
      bytes->push_back(static_cast<std::byte>(i * 7));
    }
    std::vector<std::span<const std::byte>> payload;
    for (std::size_t at = 0; at < bytes->size(); at += slice) {
      payload.push_back(std::span(*bytes).subspan(at, std::min(slice, bytes->size() - at)));
    }
    const Begin begin{
        .sequence = 1,
        .kind = 1,
        .tensors = {{.dtype = 1, .shape = {static_cast<std::int64_t>(total)}, .nbytes = total}}};
    if (offset == 0) {
      assembler.begin(begin, payload, bytes);
    } else {
      assembler.add({.sequence = 1, .offset = offset}, payload, bytes);
    }
  }
  return assembler.take();
}

void expect_counting(std::span<const Bytes> parts, std::size_t total) {
  std::size_t at = 0;
  for (const Bytes& part : parts) {
    for (const std::byte byte : part.view()) {
      ASSERT_EQ(byte, static_cast<std::byte>(at * 7)) << at;
      ++at;
    }
  }
  EXPECT_EQ(at, total);
}

TEST(Assembler, LeavesPartsWhereTheyCame) {
  const Assembled whole = assembled_in_parts(100'000, 40'000, 16'375);
  EXPECT_EQ(whole.parts.size(), 8U);  // three in each of two frames, and two
  EXPECT_TRUE(whole.message.tensors.at(0).bytes.empty());
  expect_counting(whole.parts, 100'000);
}

// Each might hold a block of memory that is much larger than itself.
TEST(Assembler, PutsCrumbsTogether) {
  for (const std::size_t frame : {100'000U, 10U}) {
    const Assembled whole = assembled_in_parts(100'000, frame, 10);
    EXPECT_TRUE(whole.parts.empty());
    expect_counting(std::span(&whole.message.tensors.at(0).bytes, 1), 100'000);
  }
}

TEST_F(AssemblerTest, NoticesWhatIsMissing) {
  EXPECT_THROW(add({.sequence = 1, .offset = 0}, counting(0, 1)), BrokenStream);
  begin(begin_of(1000), counting(0, 100));
  EXPECT_THROW(add({.sequence = 1, .offset = 200}, counting(0, 1)), BrokenStream);
  EXPECT_THROW(add({.sequence = 2, .offset = 100}, counting(0, 1)), BrokenStream);
  EXPECT_THROW(begin(begin_of(10, 2)), BrokenStream);
}

TEST_F(AssemblerTest, RefusesABodyThatIsTooLong) {
  EXPECT_THROW(begin(begin_of(10), counting(0, 11)), std::invalid_argument);
}

TEST_F(AssemblerTest, RefusesTensorsThatAreTooLargeTogether) {
  Begin header = begin_of(1 << 20);
  header.tensors.resize(3, header.tensors[0]);
  EXPECT_THROW(begin(header), std::invalid_argument);
}

TEST_F(AssemblerTest, RefusesASizeThatIsNotTheShapes) {
  for (const std::uint64_t size :
       {std::uint64_t{0}, std::uint64_t{9}, std::uint64_t{11}, ~std::uint64_t{0}}) {
    Begin header = begin_of(10);
    header.tensors[0].nbytes = size;
    EXPECT_THROW(begin(header), std::invalid_argument);
  }
  Begin packed = begin_of(10);
  packed.tensors[0].zstd = true;
  packed.tensors[0].nbytes = 11;  // more than without zstd
  EXPECT_THROW(begin(packed), std::invalid_argument);
}

TEST_F(AssemblerTest, KeepsToTheBudgetOfAllChannels) {
  ASSERT_TRUE(budget_->take(1 << 21));
  EXPECT_THROW(begin(begin_of(10), counting(0, 10)), BrokenStream);
  budget_->give_back(1 << 21);
  assembler_.reset();
  begin(begin_of(10), counting(0, 10));
  EXPECT_TRUE(assembler_.is_whole());
}

TEST_F(AssemblerTest, ForgetsWhatWasNotWhole) {
  begin(begin_of(1000), counting(0, 100));
  assembler_.reset();
  EXPECT_EQ(budget_->held(), 0U);
  begin(begin_of(10), counting(0, 10));
  EXPECT_TRUE(assembler_.is_whole());
}

TEST(AssemblerMemory, GrowsWithBytesAndNotWithClaims) {
  constexpr std::uint64_t kTerabyte = std::uint64_t{1} << 40;
  const auto budget = std::make_shared<Budget>(Limits().held_bytes);
  std::vector<std::unique_ptr<Assembler>> assemblers;
  const std::vector<std::byte> bytes(1000);
  const std::vector<std::span<const std::byte>> payload{bytes};
  const std::size_t before = resident_bytes();
  for (int i = 0; i < 1000; ++i) {
    for (const std::uint64_t claim : {kTerabyte, std::uint64_t{2} << 30}) {
      assemblers.push_back(std::make_unique<Assembler>(Limits(), budget));
      const Begin begin{
          .sequence = 1,
          .kind = 1,
          .tensors = {{.dtype = 1, .shape = {static_cast<std::int64_t>(claim)}, .nbytes = claim}}};
      if (claim == kTerabyte) {
        EXPECT_THROW(assemblers.back()->begin(begin, payload), std::invalid_argument);
      } else {
        assemblers.back()->begin(begin, payload);  // within the limit, and mostly not there
      }
    }
  }
  EXPECT_TRUE(kIsSanitized || resident_bytes() < before + (16 << 20));
}

}  // namespace
}  // namespace ravnest::transport
