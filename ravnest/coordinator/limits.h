#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace ravnest::coordinator {

using Milliseconds = std::chrono::milliseconds;

// Everything that outsiders can make grow has an end.
inline constexpr std::size_t kMostMembers = 4096;
inline constexpr std::size_t kMostTokens = 1024;
inline constexpr std::size_t kMostJobs = 1024;    // ended ones among them, of which the oldest go
inline constexpr std::size_t kMostOpenJobs = 64;  // of a requester
inline constexpr std::size_t kMostNotes = 256;    // of a job; the oldest go
inline constexpr std::size_t kMostLines = 512;    // of the server, likewise
inline constexpr std::size_t kMostStages = 4096;  // of a plan, in all clusters
inline constexpr std::size_t kMostPending = 4;    // checkpoints under way, of a cluster
inline constexpr std::size_t kMostKept = 4;       // checkpoints that a stage's machine has
inline constexpr std::size_t kMostCurvePoints = 1024;  // of a job; then every second one goes
inline constexpr std::size_t kMostKeptPoints = 100;    // that outlive the server
inline constexpr std::size_t kMostLinks = 64;          // that a provider tells of
inline constexpr std::size_t kMostNeighbours = 16;     // that it is to measure at a time
inline constexpr std::size_t kLongestName = 64;
inline constexpr std::size_t kLongestId = 64;
inline constexpr std::size_t kLongestAddress = 256;
inline constexpr std::size_t kLongestText = 1024;                      // of a sentence
inline constexpr std::size_t kLongestTraining = 64 * 1024;             // of a job's own options
inline constexpr std::int64_t kLargestNumber = 1'000'000'000'000'000;  // exact in JSON, too

// No word for so long: shown as silent; lost. A tick finds it, up to 250 ms later: within 5 s.
inline constexpr Milliseconds kSilentAfter{2000};
inline constexpr Milliseconds kLostAfter{4700};
// A server that was started again waits so long for those who held a stage: those who live try
// again at least every other second.
inline constexpr Milliseconds kReturnTime{8000};
// Whoever comes with others is planned with them: a job's first plan waits until nobody has come
// for so long, and no longer than that in all.
inline constexpr Milliseconds kGatherTime{1000};
inline constexpr Milliseconds kLongestGather{5000};
// A stage that does not reach a peer for so long, while that one is there and ready, goes through
// the server's relay. Long enough for a process to be started anew.
inline constexpr Milliseconds kRelayAfter{10'000};
// From the wish to leave or pause to being let go, whatever the hand-over does: as long as its
// files should need twice over, within these.
inline constexpr Milliseconds kHandOverTime{10'000};
inline constexpr Milliseconds kLongestHandOver{300'000};
// The third strike, and every one after it, bans; twice as long each time.
inline constexpr std::int64_t kStrikes = 3;
inline constexpr Milliseconds kFirstBan{15'000};
inline constexpr Milliseconds kLongestBan{600'000};
// Stages of a job that failed without a restore point in between: it is the job's own fault.
inline constexpr std::int64_t kMostFailures = 10;

}  // namespace ravnest::coordinator
