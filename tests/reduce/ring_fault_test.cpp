#include <gtest/gtest.h>

#include <thread>

#include "tests/reduce/ring_world.h"

namespace ravnest::reduce {
namespace {

constexpr std::size_t kMembers = 3;

// Where a member can be when it dies or falls silent: just before it says this.
enum class Place : std::uint8_t { kReady, kBegin, kMove, kScatter, kGather, kDone, kCommit };
constexpr const char* kNames[]{"ready", "begin", "move", "scatter", "gather", "done", "commit"};

struct FaultCase {
  Place place = Place::kReady;
  std::size_t rank = 0;
  std::size_t which = 0;  // segment of values; how many were told before, of a leader's words
  bool is_kill = false;
};

std::string text_of(const FaultCase& each) {
  return concat(each.is_kill ? "killed" : "silent", " at ",
                kNames[static_cast<std::size_t>(each.place)], ", rank ", each.rank, ", ",
                each.which);
}

bool is_word_at(const Word& word, Place place) {
  if (const auto* member = std::get_if<MemberWord>(&word)) {
    return (place == Place::kReady && member->stage == Stage::kReady) ||
           (place == Place::kDone && member->stage == Stage::kDone);
  }
  if (const auto* leader = std::get_if<LeaderWord>(&word)) {
    return (place == Place::kBegin && leader->phase == RoundPhase::kContribute) ||
           (place == Place::kMove && leader->phase == RoundPhase::kMove) ||
           (place == Place::kCommit && leader->phase == RoundPhase::kGather &&
            !leader->history.empty());
  }
  return false;
}

bool is_at(const Message& message, const FaultCase& each) {
  if (message.fields.size() == 5) {
    const ChunkHead head = read_chunk_head(message);
    return head.segment == each.which &&
           ((each.place == Place::kScatter && head.part == Part::kScatter) ||
            (each.place == Place::kGather && head.part == Part::kGather));
  }
  return message.fields.size() == 1 && is_word_at(read_word(message, kMembers), each.place);
}

std::vector<FaultCase> all_cases() {
  std::vector<FaultCase> cases;
  for (const bool is_kill : {true, false}) {
    for (std::size_t which = 0; which < kMembers - 1; ++which) {
      for (const Place place : {Place::kBegin, Place::kMove, Place::kCommit}) {
        cases.push_back({place, 0, which, is_kill});
      }
    }
    for (std::size_t rank = 0; rank < kMembers; ++rank) {
      for (std::size_t step = 0; step + 1 < kMembers; ++step) {
        const std::size_t scattered = (rank + kMembers - step) % kMembers;
        cases.push_back({Place::kScatter, rank, scattered, is_kill});
        cases.push_back({Place::kGather, rank, (scattered + 1) % kMembers, is_kill});
      }
      if (rank > 0) {
        // Not the first: whoever was never seen is waited for.
        cases.push_back({Place::kReady, rank, 1, is_kill});
        cases.push_back({Place::kDone, rank, 0, is_kill});
      }
    }
  }
  return cases;
}

RingOptions soon_silent() {
  return {.values = 30,
          .maxima = 2,
          .silence = Milliseconds(200),
          .patience = Milliseconds(400),
          .largest_chunk = 16};
}

// Who survives has the same rounds, and goes on.
template <typename World>
void run_case(const FaultCase& each) {
  SCOPED_TRACE(text_of(each));
  transport::Log<int> hits;
  std::atomic<std::size_t> count = 0;
  std::atomic<bool> is_over = false;
  std::atomic<TestMember*> victim = nullptr;
  const bool is_counted = each.place != Place::kScatter && each.place != Place::kGather;
  TestRing<World> ring(kMembers, soon_silent());  // last: its threads use the rest
  for (std::size_t rank = 0; rank < kMembers; ++rank) {
    ring.make(
        rank,
        rank != each.rank ? Wiretap::OnSend{} : [&](const std::string&, const Message& message) {
          if (!is_at(message, each) || (is_counted && count++ < each.which) ||
              is_over.exchange(true)) {
            return true;
          }
          victim.load()->tap().mute();
          hits.add(1);
          return false;
        });
    ring[rank].is_eager = true;
  }
  victim = &ring[each.rank];
  ring.start_all();
  ring.offer_all();
  ASSERT_TRUE(hits.wait_for([](int) { return true; })) << text_of(each);
  if (each.is_kill) {
    ring.kill(each.rank);
  }
  std::vector<std::size_t> others;
  for (std::size_t rank = 0; rank < kMembers; ++rank) {
    if (rank != each.rank) {
      others.push_back(rank);
    }
  }
  // They go on without it, and agree.
  std::int64_t last = INT64_MAX;
  for (const std::size_t rank : others) {
    ASSERT_TRUE(ring[rank].wait_for_members(ring.names(others))) << text_of(each);
    last = std::min(last, ring[rank].averages.entries().back().round);
  }
  for (const std::size_t rank : others) {
    for (const Average& average : ring[rank].averages.entries()) {
      for (const std::size_t other : others) {
        const bool took_part =
            std::ranges::find(average.members, ring[other].name()) != average.members.end();
        if (took_part && average.round < last) {
          EXPECT_TRUE(ring[other].averages.wait_for([&](const Average& theirs) {
            return theirs.round == average.round && theirs.members == average.members &&
                   same_bits(theirs.result.values, average.result.values);
          })) << text_of(each)
              << ", round " << average.round;
        }
      }
    }
  }
  // It comes back, and takes part again.
  if (each.is_kill) {
    ring.make(each.rank);
    ring[each.rank].is_eager = true;
    ring[each.rank].ring().start();
    ring[each.rank].ring().offer();
  } else {
    victim.load()->tap().mute(false);
  }
  EXPECT_TRUE(ring[each.rank].wait_for_members(ring.names(ranks_to(kMembers)), last))
      << text_of(each);
}

TEST(RingFaults, EverySingleFaultEndsTheSameForAll) {
  const std::vector<FaultCase> cases = all_cases();
  std::atomic<std::size_t> next = 0;
  std::vector<std::jthread> workers;
  for (int worker = 0; worker < 4; ++worker) {  // they mostly wait
    workers.emplace_back([&] {
      for (std::size_t at = next++; at < cases.size(); at = next++) {
        run_case<LoopbackWorld>(cases[at]);
      }
    });
  }
}

TEST(RingFaults, FaultsOnTheNetworkEndTheSameForAll) {
  for (const bool is_kill : {true, false}) {
    run_case<GrpcWorld>({Place::kScatter, 1, 1, is_kill});
    run_case<GrpcWorld>({Place::kGather, 2, 0, is_kill});
    run_case<GrpcWorld>({Place::kCommit, 0, 1, is_kill});
  }
}

}  // namespace
}  // namespace ravnest::reduce
