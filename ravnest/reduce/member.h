#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ravnest/reduce/engine.h"
#include "ravnest/reduce/leader.h"
#include "ravnest/reduce/ring.h"
#include "ravnest/reduce/words.h"

namespace ravnest::reduce {

// What a member wants done. None of it may call the member back.
class MemberActions {
 public:
  virtual ~MemberActions() = default;
  virtual void say(std::size_t rank, const Word& word) = 0;
  virtual void begin(std::int64_t round) = 0;
  virtual std::string engine_text(std::int64_t round) = 0;
  virtual void move(const Task& task) = 0;
  virtual void stop_moving() = 0;
  virtual void commit(const Task& task, bool is_final) = 0;
  virtual void abandon(std::int64_t round, const std::string& why) = 0;
  // Again and again, until caught_up.
  virtual void catch_up(const Commit& latest) = 0;
  virtual void notice(const std::string& sentence) = 0;
  virtual void warn(const std::string& sentence) { notice(sentence); }
  virtual void waiting(const std::string& sentence) { notice(sentence); }
  // Its terms are not ours; again and again.
  virtual void refuse_terms(std::size_t /*rank*/) {}
};

// One member's part of the agreement, and its leader's where it leads. Commits in two phases: who
// has the whole result says so (kDone) and from then on does what the leader says; the leader says
// that a round counts when all are there. Where the leader is lost, the next asks all who live, and
// a round that counts for one counts for all. No threads, no clock, no sending.
class Member {
 public:
  // Borrows the options and the actions.
  Member(const RingOptions& options, std::int64_t incarnation, MemberActions& actions);

  void start(TimePoint now);
  void offer(bool is_final, TimePoint now);
  void contributed(std::int64_t round, bool is_accepted, TimePoint now);
  void moved(std::int64_t round, TimePoint now);
  void failed(std::int64_t round, const Failure& failure, TimePoint now);
  void caught_up(const Commit& commit, TimePoint now);

  // Throw std::invalid_argument for a word that its sender cannot have said.
  void hear(std::size_t from, const MemberWord& word, TimePoint now);
  void hear(std::size_t from, const LeaderWord& word, TimePoint now);
  void set_link(std::size_t rank, const Link& link, TimePoint now);
  // Does what is due, and says when it wants to be called next.
  TimePoint tick(TimePoint now);

  std::int64_t round() const { return round_; }
  const History& history() const { return history_; }
  std::size_t leader() const { return leader_rank_; }
  const std::vector<std::size_t>& lost() const { return lost_; }
  bool is_offered() const { return is_offered_; }
  bool is_behind() const;

 private:
  void refuse_terms(std::size_t from);
  MemberWord word() const;
  // Our word is another now.
  void tell(TimePoint now);
  void lead_on(TimePoint now);
  void broadcast(TimePoint now);
  void follow(const LeaderWord& word, TimePoint now);
  // Asks for the values that it lacks, where it is time to.
  void keep_up();
  void settle(const LeaderWord& word);
  void take_part(const LeaderWord& word);
  void finish();
  void drop_round(const std::string& why);
  void adopt(std::int64_t epoch, std::int64_t incarnation, TimePoint now);
  void elect(TimePoint now);
  bool is_leader_suspect(TimePoint now) const;
  void suspect_leader(TimePoint now);
  void note_changes(const LeaderWord& word);
  void note_waiting(TimePoint now);
  const std::string& name(std::size_t rank) const { return options_.members[rank].name; }
  std::int64_t size() const { return static_cast<std::int64_t>(options_.members.size()); }

  const RingOptions& options_;
  const std::int64_t incarnation_;
  MemberActions& actions_;

  std::int64_t epoch_ = 0;
  std::size_t leader_rank_ = 0;
  std::int64_t leader_incarnation_ = 0;  // 0: not known
  TimePoint leader_heard_;
  std::vector<bool> suspected_;  // by rank: as a leader
  std::vector<Link> links_;
  std::optional<Leader> leading_;
  TimePoint next_beat_;
  TimePoint last_tick_;

  bool is_offered_ = false;
  bool is_offered_next_ = false;  // while a round is under way
  bool is_final_ = false;
  bool is_finished_ = false;
  bool is_refused_ = false;

  std::int64_t round_ = 0;  // under way, else 0
  Stage stage_ = Stage::kIdle;
  Task task_;
  bool is_final_round_ = false;
  Failure failure_;
  std::int64_t last_round_ = 0;
  std::int64_t seen_ = 0;
  History history_;
  Commit latest_;          // of the ring
  bool is_stale_ = false;  // to the leader: we were lost
  bool is_time_to_keep_up_ = false;

  std::vector<std::size_t> lost_;
  std::vector<std::size_t> awaited_;
  std::vector<std::size_t> refused_;
  std::int64_t refused_round_ = 0;
  std::optional<TimePoint> waiting_since_;
  TimePoint next_notice_;
};

}  // namespace ravnest::reduce
