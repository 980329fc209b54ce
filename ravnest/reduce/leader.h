#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ravnest/reduce/ring.h"
#include "ravnest/reduce/words.h"

namespace ravnest::reduce {

// Whether a member lacks values that it must have before it takes part.
bool is_behind(const History& history, const Commit& latest, bool needs_base);
// Between two words of a leader.
Milliseconds beat_of(const RingOptions& options);

// What the transport says of the way to a member.
struct Link {
  bool was_open = false;  // ever
  bool is_down = false;   // for longer than a moment
};

// What a leader knows and decides, in one epoch: who lives, when a round begins and with whom,
// whether it counts. No threads, no clock, no sending: time and words come in, a word comes out.
class Leader {
 public:
  using Text = std::function<std::string(std::int64_t round)>;

  struct Start {
    std::int64_t epoch = 0;
    std::int64_t incarnation = 0;
    std::vector<bool> seen;  // by rank: somebody heard of it
    TimePoint now;
  };
  // Borrows the options. `text` is asked when values are about to move.
  Leader(const RingOptions& options, const Start& start, Text text);

  // From ourselves too.
  void hear(std::size_t rank, const MemberWord& word, TimePoint now);
  void set_link(std::size_t rank, const Link& link, TimePoint now);
  // Goes on as far as it can; true where the word is another now.
  bool step(TimePoint now);
  // When it must be stepped though nothing came.
  TimePoint deadline() const;
  const LeaderWord& word() const { return word_; }

 private:
  struct Peer {
    MemberWord word;
    bool is_known = false;  // follows us
    bool is_seen = false;
    bool is_down = false;
    bool is_lost = false;
    bool is_spoiling = false;       // sent what nobody may, since a round that counted
    int strikes = 0;                // rounds that failed because of it, since then
    std::optional<Commit> lost_at;  // was away, and has nothing that is newer than this
    TimePoint heard;
    std::int64_t incarnation = 0;  // when the round began
  };

  bool is_new_ring() const { return word_.history.empty(); }
  bool is_unseen(const Peer& peer) const {
    return options_.waits_for_all && !peer.is_seen && is_new_ring();
  }
  bool is_live(const Peer& peer) const { return peer.is_known && !peer.is_lost; }
  // Once is chance; but nothing else may hold up the others for ever.
  static bool is_banned(const Peer& peer) { return peer.is_spoiling || peer.strikes > 1; }
  bool is_ready(const Peer& peer) const;
  bool is_in_round(const Peer& peer) const;
  bool is_gone(const Peer& peer) const;

  void update_lost(TimePoint now);
  void update_latest();
  void update_stale();
  void collect(TimePoint now);
  void gather(TimePoint now);
  void gather_final(TimePoint now);
  void gather_ready(TimePoint now);
  void take_contributions(TimePoint now);
  void watch_move(TimePoint now);
  void begin(std::vector<std::size_t> participants, bool is_final, TimePoint now);
  void drop_unready(std::vector<std::size_t>& participants, TimePoint now);
  void enter(RoundPhase phase);
  void forgive();
  void commit();
  void abandon(const std::string& why);
  // The member who says whose fault it was.
  const Peer* find_accuser(TimePoint now);
  void strike(const MemberWord& accusation);
  std::string name(std::size_t rank) const { return options_.members[rank].name; }

  const RingOptions& options_;
  const Text text_;
  std::vector<Peer> peers_;
  LeaderWord word_;
  std::int64_t seen_ = 0;  // the highest round
  TimePoint began_;        // the epoch, or the round
  std::optional<TimePoint> first_ready_;
  std::optional<TimePoint> first_failure_;
  TimePoint newest_;  // when a member was first seen
};

}  // namespace ravnest::reduce
