#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "ravnest/transport/message.h"

namespace ravnest::reduce {

// Epochs and rounds are counted on from what a peer says, and stay far from an overflow.
inline constexpr std::int64_t kMostCounted = 1'000'000'000'000'000;
inline bool is_count(std::int64_t number) { return number >= 0 && number <= kMostCounted; }

// A round that counts. Epochs are numbered so that no two leaders have the same, and so no two
// rounds are taken for each other.
struct Commit {
  std::int64_t epoch = 0;
  std::int64_t round = 0;
  auto operator<=>(const Commit&) const = default;
};

// The last rounds that counted, oldest first.
using History = std::vector<Commit>;
inline constexpr std::size_t kHistory = 8;

// Where a member stands.
enum class Stage : std::uint8_t {
  kIdle,
  kReady,        // offered, and not behind
  kBegun,        // asked for its contribution
  kContributed,  // waits for the values to move
  kMoving,
  kDone,  // has the whole result: it will take whatever the leader decides
  kFailed,
};

// What a round is at, to its leader.
enum class RoundPhase : std::uint8_t {
  kCollect,     // a new leader asks everyone where they stand
  kGather,      // waits for members to be ready; what was not committed by now never will be
  kContribute,  // takes snapshots
  kMove,        // values move
};

// Both words are whole: each says all there is to say, and whoever misses one has the next. A
// member's goes to the leader, when something changed and in answer to every word of a leader.
struct MemberWord {
  std::int64_t epoch = 0;        // that it follows
  std::int64_t leader = 0;       // incarnation of the leader that it follows; 0: not known yet
  std::int64_t incarnation = 0;  // drawn anew at every start
  Stage stage = Stage::kIdle;
  std::int64_t round = 0;  // that the stage is about, else the last one
  std::int64_t seen = 0;   // the highest round ever heard of
  bool is_final = false;   // offered for the last round
  bool is_finished = false;
  bool is_refused = false;    // its values of this round are not finite, or not as many
  std::int64_t suspect = -1;  // with kFailed: a rank
  std::int64_t progress = 0;
  bool is_proven = false;   // as in Failure
  std::int64_t values = 0;  // how many a contribution has
  std::int64_t maxima = 0;
  std::int64_t terms = 0;  // as in RingOptions
  History history;
  std::string text;  // with kFailed: why
};

// To every member, when something changed and at every beat.
struct LeaderWord {
  std::int64_t epoch = 0;
  std::int64_t incarnation = 0;
  RoundPhase phase = RoundPhase::kCollect;
  std::int64_t round = 0;
  bool is_final = false;   // the round
  bool are_final = false;  // all members that live
  Commit latest;           // of what a living member has; what others may have to catch up with
  History history;
  std::vector<std::size_t> participants;  // the lists are ranks, rising
  std::vector<std::size_t> lost;
  std::vector<std::size_t> awaited;
  std::vector<std::size_t> refused;
  std::vector<std::size_t> stale;  // were lost, and have to take the latest values first
  std::int64_t terms = 0;
  std::string text;  // with kMove the engine's; with kGather why the last round was abandoned
};

// Between a member that was away and those who may help it.
enum class Ask : std::uint8_t {
  kWant,  // who has the values of this commit, or later ones?
  kHave,  // I
  kGive,  // then send them
};
struct FetchWord {
  Ask ask = Ask::kWant;
  Commit commit;
  std::int64_t ticket = 0;  // of whoever asks
};

using Word = std::variant<MemberWord, LeaderWord, FetchWord>;

transport::Message to_message(const Word& word);
// Throws std::invalid_argument for anything that no member of a ring of so many can have said.
Word read_word(const transport::Message& message, std::size_t members);

// Adds what is new, and keeps the last.
void merge(History& into, const History& from);
Commit latest_of(const History& history);

}  // namespace ravnest::reduce
