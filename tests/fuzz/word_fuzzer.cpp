// Reads the input as messages of a ring, and gives them to a member and to an all-reduce. Every
// message has a head of four bytes: who says it, its form, how many numbers it has beside its
// bytes, and how many bytes.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <stdexcept>
#include <vector>

#include "ravnest/reduce/all_reduce.h"
#include "ravnest/reduce/member.h"

namespace ravnest::reduce {
namespace {

constexpr std::size_t kMembers = 3;

RingOptions ring() {
  RingOptions options{.rank = 1, .values = 40, .exact = 8, .maxima = 2, .largest_chunk = 32};
  options.codec = transport::parse_codec("int8+zstd");
  for (std::size_t rank = 0; rank < kMembers; ++rank) {
    options.members.push_back({.name = "node"});
  }
  return options;
}

// Does nothing; what it is asked to move is given to the all-reduce.
class Deaf : public MemberActions {
 public:
  explicit Deaf(const RingOptions& options) : options_(options) {}

  void say(std::size_t, const Word& word) override {
    static_cast<void>(read_word(to_message(word), kMembers));  // what we say can be read
  }
  void begin(std::int64_t round) override { begun = round; }
  std::string engine_text(std::int64_t) override { return "text"; }
  void move(const Task& task) override {
    moving.emplace(options_, task,
                   Contribution{.values = std::vector<float>(options_.values),
                                .maxima = std::vector<std::int64_t>(options_.maxima)},
                   [](std::size_t, const transport::Message&) {});
    moving->start();
  }
  void stop_moving() override { moving.reset(); }
  void commit(const Task&, bool) override { moving.reset(); }
  void abandon(std::int64_t, const std::string&) override {}
  void catch_up(const Commit&) override {}
  void notice(const std::string&) override {}

  std::int64_t begun = 0;
  std::optional<AllReduce> moving;

 private:
  const RingOptions& options_;
};

std::int64_t small_number(std::byte byte) {
  return static_cast<std::int64_t>(static_cast<std::int8_t>(byte));
}

void hear(Member& member, Deaf& actions, std::size_t from, const transport::Message& message,
          TimePoint now) {
  try {
    const Word word = read_word(message, kMembers);
    static_cast<void>(to_message(word));
    if (const auto* leader = std::get_if<LeaderWord>(&word)) {
      member.hear(from, *leader, now);
    } else if (const auto* other = std::get_if<MemberWord>(&word)) {
      member.hear(from, *other, now);
    }
  } catch (const std::invalid_argument&) {
  }
  if (actions.begun != 0) {
    member.contributed(std::exchange(actions.begun, 0), true, now);
  }
  if (actions.moving && !actions.moving->is_done()) {
    try {
      actions.moving->take(from, message);
      if (actions.moving->is_done()) {
        member.moved(actions.moving->task().round, now);
      }
    } catch (const Suspicion& suspicion) {
      member.failed(actions.moving->task().round,
                    {.suspect = suspicion.rank(), .why = suspicion.what()}, now);
    }
  }
}

}  // namespace
}  // namespace ravnest::reduce

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ravnest::reduce;
  auto bytes = std::as_bytes(std::span(data, size));
  const RingOptions options = ring();
  Deaf actions(options);
  Member member(options, 5, actions);
  TimePoint now{};
  member.start(now);
  member.offer(false, now);
  while (bytes.size() >= 6) {
    const std::size_t from = static_cast<std::size_t>(bytes[0]) % 2 * 2;
    const auto form = static_cast<unsigned>(bytes[1]);
    ravnest::transport::Message message{.kind = ravnest::transport::MessageKind::kReduce,
                                        .pass = small_number(bytes[2]),
                                        .epoch = small_number(bytes[3])};
    const std::size_t fields = static_cast<std::size_t>(bytes[4]) % 8;
    const std::size_t count = static_cast<std::size_t>(bytes[5]);
    bytes = bytes.subspan(6);
    for (std::size_t i = 0; i < fields && !bytes.empty(); ++i) {
      message.fields.push_back(small_number(bytes[0]));
      bytes = bytes.subspan(1);
    }
    // Numbers of a word are small; as one byte each they are found sooner.
    std::vector<std::int64_t> numbers;
    const auto part = bytes.first(std::min(count, bytes.size()));
    bytes = bytes.subspan(part.size());
    if (form % 2 == 0) {
      for (const std::byte byte : part) {
        numbers.push_back(small_number(byte));
      }
      message.tensors.push_back(
          {.dtype = ravnest::graph::DType::kInt64,
           .shape = {static_cast<std::int64_t>(numbers.size())},
           .bytes = ravnest::Bytes::copy_of(std::as_bytes(std::span(numbers)))});
    } else {
      message.tensors.push_back({.dtype = ravnest::graph::DType::kUInt8,
                                 .shape = {static_cast<std::int64_t>(part.size())},
                                 .bytes = ravnest::Bytes::copy_of(part)});
    }
    now += Milliseconds(form);
    hear(member, actions, from, message, now);
    static_cast<void>(member.tick(now));
  }
  return 0;
}
