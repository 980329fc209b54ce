#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ravnest/reduce/contribution.h"
#include "ravnest/reduce/engine.h"
#include "ravnest/transport/transport.h"

namespace ravnest::reduce {

using transport::Milliseconds;
using transport::TimePoint;

// The members of a ring hold the same range of parameters, one in each cluster. All are given the
// same, but for the rank.
struct RingOptions {
  std::size_t ring = 0;                  // its number, part of its channels' names
  std::vector<transport::Peer> members;  // by rank
  std::size_t rank = 0;                  // ours
  std::size_t values = 0;                // how many a contribution has; others are refused
  std::size_t exact = 0;                 // of the values, the last: the codec does not round them
  std::size_t maxima = 0;
  std::size_t extras = 0;  // follow the values in what a member gives to one that was away
  transport::Codec codec;
  Mean mean = Mean::kPlain;
  // A member that missed a round needs its result before it takes part again.
  bool needs_base = false;
  // A digest of whatever else must be the same for all: who has another is not averaged with.
  std::int64_t terms = 0;
  // The first round waits for members that were never seen, however long that takes; else only for
  // `patience`, as every other.
  bool waits_for_all = true;
  // Nothing heard for so long: the member is lost, for now.
  Milliseconds silence{5000};
  // From the first that is ready to a round without those who are not.
  Milliseconds patience{10'000};
  // Between notices while waiting.
  Milliseconds progress{1000};
  // Bytes of values in one message; fewer on a slow link.
  std::size_t largest_chunk = std::size_t{1} << 20;
};

// Called on the ring's own thread; must not block. Calls of the ring from within are fine, but
// for stop() and the destructor.
class RingListener {
 public:
  virtual ~RingListener() = default;

  // A round begins: give a contribution by Ring::contribute(round, …), from any thread.
  virtual void on_begin(std::int64_t round) = 0;
  // Committed: every member that took part and lives gets the same.
  virtual void on_average(Average average) = 0;
  // No average, and nothing is to be done where the offer stands: on_begin follows with another
  // round. A contribution that is not finite takes the offer back, and none follows before the
  // next.
  virtual void on_abandoned(std::int64_t round, const std::string& why, bool is_offered) = 0;
  // We were away: the values of a member that was not, as of that round.
  virtual void on_latest(Contribution latest, std::int64_t round) = 0;
  // Another member was away: answer by Ring::give_latest(ticket, …), from any thread.
  virtual void on_wanted(std::int64_t ticket) = 0;
  // A sentence for people: "node_3 is back".
  virtual void on_notice(const std::string& sentence) = 0;
  // The same of what went wrong: "node_3 is lost; averaging goes on without it".
  virtual void on_warning(const std::string& sentence) { on_notice(sentence); }
  // The same while it waits for others, again and again.
  virtual void on_waiting(const std::string& sentence) { on_notice(sentence); }
  // This member has other terms than we. Once; nothing will be averaged with it.
  virtual void on_other_terms(const std::string& /*member*/) {}
};

// Our membership of one ring: agrees with the others on rounds, and moves values through an engine.
// The lowest-ranked member that lives leads; a leader that is lost is followed by the next. Every
// round ends the same for all that survive it. Owns its threads; borrows transport and listener,
// which outlive it. Opens channels "reduce.<ring>", "reduce.<ring>.data" and, for a member that was
// away, "reduce.<ring>.latest.<ticket>". All calls but stop() return at once; any thread.
class Ring {
 public:
  // Throws std::invalid_argument for options that cannot be.
  Ring(RingOptions options, transport::Transport& transport, RingListener& listener,
       const MakeEngine& make_engine = make_wire_engine);
  // Stops.
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  void start();
  // We are due: take part in the next round.
  void offer();
  // Our training has ended: take part in the last round, when every living member has ended too.
  void offer_final();
  // Empty: the values are not finite, the round goes on without us.
  void contribute(std::int64_t round, std::optional<Contribution> contribution);
  // Asks all others for their values, though nothing was missed, and takes them from the first that
  // answers.
  void fetch_latest();
  // The values as of the round that was last applied; 0: none was.
  void give_latest(std::int64_t ticket, Contribution latest, std::int64_t round);
  // Says goodbye to those who are there, and ends. The listener is not called afterwards.
  void stop();

  struct Status {
    std::int64_t round = 0;      // under way, else 0
    std::int64_t committed = 0;  // the last one here
    std::string leader;
    std::vector<std::string> lost;  // members that averaging goes on without
    std::uint64_t averages = 0;
    std::uint64_t abandoned = 0;
    std::uint64_t nbytes_sent = 0;
  };
  Status status() const;

 private:
  class Core;
  const std::unique_ptr<Core> core_;
};

}  // namespace ravnest::reduce
