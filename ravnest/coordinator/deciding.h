#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/base/error.h"
#include "ravnest/coordinator/decide.h"

namespace ravnest::coordinator {

// One decision under way: decide() lets it see the event, then finish. A method each for the
// events; what they have in common below. Spread over decide_<topic>.cpp and settle.cpp.
class Deciding {
 public:
  Deciding(State& state, Now now) : state_(state), durable_(state.durable), now_(now) {}

  // Each gives the reason. What is refused throws Refused before anything has changed.
  std::string on(const Boot& event);
  std::string on(const Tick& event);
  std::string on(const MakeToken& event);
  std::string on(const Enrol& event);
  std::string on(const RemoveMember& event);
  std::string on(const Join& event);
  std::string on(const Beat& event);
  std::string on(const Closed& event);
  std::string on(const Leave& event);
  std::string on(const Measurable& event);
  std::string on(const LinksMeasured& event);
  std::string on(const PauseProvider& event);
  std::string on(const ResumeProvider& event);
  std::string on(const SubmitJob& event);
  std::string on(const CancelJob& event);
  std::string on(const ForgetJob& event);
  std::string on(const FeedOffered& event);
  std::string on(const FeedGone& event);
  std::string on(const PlanMade& event);
  std::string on(const PlanFailed& event);
  std::string on(const StageReady& event);
  std::string on(const StageReport& event);
  std::string on(const StageKept& event);
  std::string on(const StageCheckpoint& event);
  std::string on(const StageResult& event);
  std::string on(const StageFailed& event);
  std::string on(const StageUnreached& event);

  Decision finish(std::string reason);
  Decision refuse(std::string reason);

  struct Refused {
    std::string reason;
  };
  template <typename... Parts>
  [[noreturn]] static void refuse_as(const Parts&... parts) {
    throw Refused{concat(parts...)};
  }
  static void require(bool condition, const char* expected);

 private:
  using Lineup = std::vector<MemberId>;  // by stage

  // deciding.cpp
  void change(Change change);
  void act(Action action) { decision_.actions.push_back(std::move(action)); }
  void note(Job& job, const std::string& sentence);
  void line(const std::string& sentence);
  std::string name_of(const MemberId& id) const;
  const Seat* find_seat(const MemberId& id) const;
  Provider& live(const MemberId& id) { return state_.live.providers[id]; }
  void remember_seats(JobId job);
  bool is_outdated(const Action& action) const;
  void finish_providers();
  void assign(JobId job);
  void assign(const Seat& seat);

  // decide_presence.cpp
  Provider& with_session(const MemberId& id, std::int64_t session);
  void check_join(const Join& event) const;
  void arrive();
  bool is_asleep() const;
  bool has_just_slept() const;
  void lose(const MemberId& id, const std::string& why);
  void tick_provider(const MemberId& id, Provider& provider);
  void part(const MemberId& id, const std::string& why);
  Milliseconds hand_over_time(const Job& job, const Cluster& cluster) const;
  void strike(const MemberId& id);

  // decide_links.cpp
  static void check_measured(const Measurements& measured);
  void check_links(const MemberId& own, const std::map<MemberId, planner::Link>& links) const;
  bool may_measure(const MemberId& id) const;
  std::vector<MemberId> unmeasured_peers(const MemberId& id) const;
  void forget_links(const MemberId& id);

  // decide_jobs.cpp
  void check_options(const JobOptions& options) const;
  Job& job_of(JobId id, const MemberId& by);
  const Job* find_submitted(const SubmitJob& event) const;
  void make_room_for_job(const MemberId& requester);
  void end(Job& job, Phase phase, const std::string& reason);
  Job& planned_job(JobId id, Epoch epoch);
  void check_plan(const PlanMade& event) const;
  void unreserve(JobId job);
  void adopt(Job& job, const PlanMade& event);

  // decide_stages.cpp
  std::pair<Job*, Cluster*> check_stage(const FromStage& from);
  void start(Job& job, Cluster& cluster);
  bool may_move_restore(const Job& job) const;
  void move_restore(Job& job);
  void keep_curve(const Job& job);
  void ask_checkpoint(const Job& job, const Cluster& cluster, std::int64_t speaker);
  void hand_over(Job& job, ClusterId cluster);
  bool end_with_results(Job& job);
  bool is_listening(const Job& job, const MemberId& id) const;
  std::set<MemberId> suspects(const StageFailed& event, const MemberId& named);
  bool is_proven(const Job& job, std::set<MemberId>& suspected);
  bool has_others(const Job& job, const Cluster& cluster, const std::set<MemberId>& these) const;

  // settle.cpp: what follows from who is there and what has to be done.
  void settle();
  void settle_job(Job& job);
  bool fill_all(Job& job, std::vector<ClusterId>& broken);
  bool fill(Job& job, Cluster& cluster);
  void vacate(Seat seat);
  void dissolve(Job& job, ClusterId cluster);
  void mend_origins(Job& job);
  void update_phase(Job& job, const std::string& reason);
  void begin(Job& job);
  void wait(Job& job, const std::string& reason);
  void ask_plan(Job& job, const std::set<MemberId>& free);
  void grow(Job& job);
  std::set<MemberId> free_providers() const;
  std::optional<Lineup> find_lineup(const ClusterShape& shape, const Lineup& wanted,
                                    const Lineup& former) const;
  const MemberId* find_best(const std::set<MemberId>& among, const StageShape& stage) const;
  bool fits(const MemberId& id, const StageShape& stage) const;
  std::vector<Origin> origins(const Job& job, const Cluster& cluster) const;
  std::vector<Origin> restart_origins(const Job& job, std::size_t stages) const;
  void set_lineup(Job& job, ClusterId cluster, std::int64_t shape, Lineup lineup,
                  std::vector<Origin> origins);

  State& state_;
  Durable& durable_;
  const Now now_;
  Decision decision_;
  std::set<JobId> told_;                                  // somebody may watch them
  std::set<JobId> touched_;                               // whose line-up has changed
  std::set<JobId> remembered_;                            // whose seats are in the next
  std::map<MemberId, JobId> seated_;                      // before this decision
  std::set<Hash> released_;                               // some may be referred to again
  std::set<std::pair<JobId, ClusterId>> was_running_;     // until a place fell vacant
  std::set<std::pair<JobId, ClusterId>> is_handed_over_;  // its restore point is of now
};

// As the log keeps it: printable, and not too long.
std::string sentence_of(const std::string& text);
// "stage 1 of cluster 2"
std::string place_name(ClusterId cluster, std::int64_t stage);

}  // namespace ravnest::coordinator
