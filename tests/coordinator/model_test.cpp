#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <utility>

#include "tests/coordinator/world.h"

namespace ravnest::coordinator {
namespace {

// A pool of machines that come, fall silent, die and return, requesters that submit and cancel, a
// planner, and a server that is killed, all at random; then everybody behaves, and every job must
// come to its end.
class Chaos {
 public:
  explicit Chaos(unsigned seed) : random_(seed), most_jobs_(1 + draw(5)) {
    world_.enrol("rita", Role::kRequester);
    for (int i = 0; i < 7; ++i) {
      ids_.push_back(concat("p", i));
      world_.enrol(ids_.back());
    }
  }

  void run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFatalFailure(); ++i) {
      step();
    }
  }

  // Everything goes well from here.
  void settle() {
    for (const MemberId& id : ids_) {
      if (world_.state.durable.members.at(id).is_paused) {
        tell(ResumeProvider{id});
      }
    }
    for (int round = 0; round < 2000 && has_open_job(); ++round) {
      for (const MemberId& id : ids_) {
        if (session(id) == 0 || is_leaving(id)) {
          tell(world_.join_of(id, 8.0));
        }
      }
      answer_all_plans();
      for (const MemberId& id : ids_) {
        work_well(id);
      }
      pass(Milliseconds{900});
    }
    for (const auto& [id, job] : world_.state.durable.jobs) {
      EXPECT_TRUE(is_over(job.phase))
          << "job " << id << " is stuck while " << to_string(job.phase) << ": " << job.reason;
    }
  }

  const World& world() const { return world_; }

 private:
  int draw(int count) { return std::uniform_int_distribution<int>(0, count - 1)(random_); }
  MemberId any() { return ids_[static_cast<std::size_t>(draw(static_cast<int>(ids_.size())))]; }
  std::int64_t session(const MemberId& id) const {
    const auto found = world_.state.live.providers.find(id);
    return found == world_.state.live.providers.end() ? 0 : found->second.session;
  }
  bool is_leaving(const MemberId& id) const {
    return world_.state.live.providers.at(id).is_leaving;
  }
  bool has_open_job() const {
    return std::ranges::any_of(world_.state.durable.jobs,
                               [](const auto& entry) { return !is_over(entry.second.phase); });
  }
  void tell(const Event& event) {
    world_.tell(event);
    if (world_.actions.size() > 1000) {
      world_.actions.clear();
    }
  }
  void pass(Milliseconds time) {
    world_.pass(time);
    for (const MemberId& id : ids_) {
      if (session(id) != 0 && !silent_.contains(id)) {
        tell(Beat{id, session(id)});
      }
    }
    tell(Tick{});
  }

  // As it stands, or as it stood some time ago.
  std::optional<FromStage> stage_of(const MemberId& id) {
    if (draw(8) == 0 && !old_.empty()) {
      return old_[static_cast<std::size_t>(draw(static_cast<int>(old_.size())))];
    }
    if (!world_.state.durable.seats.contains(id) || session(id) == 0) {
      return std::nullopt;
    }
    if (old_.size() < 200) {
      old_.push_back(world_.from(id));
    }
    return world_.from(id);
  }

  void step() {
    const MemberId id = any();
    switch (draw(28)) {
      case 0:
      case 1: {
        Join join = world_.join_of(id, 0.5 + draw(4));
        if (draw(2) == 0 && world_.state.durable.seats.contains(id)) {
          const Seat seat = world_.state.durable.seats.at(id);
          join.holds = find_cluster(world_.job(seat.job), seat.cluster)->epoch - draw(2);
        }
        tell(join);
        break;
      }
      case 2:
        tell(Closed{id, session(id)});
        break;
      case 3:
        silent_.insert(id);
        silent_.insert(any());
        break;
      case 4:
        silent_.erase(id);
        break;
      case 5:
        tell(Leave{id, session(id)});
        break;
      case 6:
        tell(PauseProvider{id});
        break;
      case 7:
      case 8:
        tell(ResumeProvider{id});
        break;
      case 9:
        if (static_cast<int>(world_.state.durable.jobs.size()) < most_jobs_) {
          tell(SubmitJob{"rita",
                         "job",
                         world_.program,
                         {.clusters = draw(3),
                          .least_providers = draw(3),
                          .most_providers = draw(2) * 4,
                          .wants_one_result = draw(2) == 0}});
        }
        break;
      case 10:
        if (draw(4) == 0) {
          tell(CancelJob{1 + draw(6), "rita"});
        }
        break;
      case 11:
      case 12:
        answer_plan();
        break;
      case 13:
      case 14:
      case 15:
        for (const MemberId& each : ids_) {
          if (const auto stage = stage_of(each); stage && draw(3) != 0) {
            tell(StageReady{*stage});
          }
        }
        break;
      case 16:
      case 17:
        checkpoint_all();
        break;
      case 18:
        if (const auto stage = stage_of(id); stage && draw(3) == 0) {
          tell(StageResult{*stage, world_.weights_of(*stage, 1'000'000)});
        }
        break;
      case 19:
        if (const auto stage = stage_of(id); stage && draw(3) == 0) {
          tell(StageUnreached{*stage, any(), "no answer"});
          tell(StageFailed{*stage, "it failed", draw(2) == 0, draw(20) == 0, any()});
        }
        break;
      case 20:
        if (draw(8) == 0) {
          world_.restart_server();
        }
        break;
      case 21:
        tell(Measurable{id, session(id), sha256_of(id).substr(0, 32)});
        tell(LinksMeasured{id, session(id), {{any(), {.mbps = 10.0, .latency_ms = 1.0}}}});
        break;
      default:
        pass(Milliseconds{300 + 500 * draw(4)});
    }
  }

  void checkpoint_all() {
    version_ += draw(2);
    std::vector<FromStage> stages;
    for (const MemberId& id : ids_) {
      if (const auto stage = stage_of(id); stage && draw(6) != 0) {
        stages.push_back(*stage);
        tell(StageKept{*stage, {version_ - draw(2), version_}});
      }
    }
    for (const FromStage& stage : stages) {
      tell(StageCheckpoint{stage, version_, world_.weights_of(stage, version_)});
    }
  }

  void answer_all_plans() {
    const std::vector<MakePlan> asked = std::exchange(world_.asked, {});
    for (const MakePlan& ask : asked) {
      tell(answer_to(ask, 2, false));
    }
  }
  // Whichever was asked for, perhaps long ago.
  void answer_plan() {
    if (!world_.asked.empty()) {
      const MakePlan ask = draw(3) == 0 ? world_.asked.front() : world_.asked.back();
      tell(answer_to(ask, static_cast<std::size_t>(2 + draw(2)), draw(10) == 0));
    }
  }
  // Up to two clusters of so many stages.
  static Event answer_to(const MakePlan& ask, std::size_t stages, bool is_final) {
    std::vector<std::vector<MemberId>> lineup;
    for (std::size_t at = 0; at + stages <= ask.pool.size() && lineup.size() < 2; at += stages) {
      auto& cluster = lineup.emplace_back();
      for (std::size_t k = 0; k < stages; ++k) {
        cluster.push_back(ask.pool[at + k].provider);
      }
    }
    if (lineup.empty()) {
      return PlanFailed{ask.job, ask.epoch, "more are needed", is_final};
    }
    return World::plan_for(ask, lineup);
  }

  void work_well(const MemberId& id) {
    silent_.erase(id);
    if (!world_.state.durable.seats.contains(id) || session(id) == 0) {
      return;
    }
    const FromStage stage = world_.from(id);
    if (find_cluster(world_.job(stage.job), stage.cluster)->is_running) {
      tell(StageResult{stage, world_.weights_of(stage, 1'000'000)});
    } else {
      tell(StageReady{stage});
    }
  }

  std::mt19937 random_;
  const int most_jobs_;
  World world_;
  std::vector<MemberId> ids_;
  std::set<MemberId> silent_;
  std::vector<FromStage> old_;
  std::int64_t version_ = 1;
};

// How many of a run's jobs have a note that says so.
std::size_t count_notes(const World& world, const std::string& part) {
  return static_cast<std::size_t>(
      std::ranges::count_if(world.state.durable.jobs,
                            [&](const auto& entry) { return world.has_note(entry.first, part); }));
}

TEST(Model, WhateverHappensTheInvariantsHoldAndJobsEnd) {
  const char* text = std::getenv("RAVNEST_SEED");
  const unsigned first =
      text == nullptr ? 1 : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
  const unsigned count = text == nullptr ? 2000 : 1;
  // What the runs must have come across, or they tested little.
  std::map<std::string, std::size_t> seen = {
      {"It is done", 0},        {"is the restore point", 0}, {"takes stage", 0},
      {"is dissolved", 0},      {"is formed of", 0},         {"starts over", 0},
      {"has handed over", 0},   {"It goes on", 0},           {"is let go before", 0},
      {"was started again", 0}, {"did not come back", 0},    {"nothing was heard of it", 0},
  };
  for (unsigned seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE(concat("RAVNEST_SEED=", seed));
    Chaos chaos(seed);
    chaos.run(200);
    chaos.settle();
    for (auto& [part, times] : seen) {
      times += count_notes(chaos.world(), part);
    }
    ASSERT_FALSE(testing::Test::HasFailure());
  }
  for (const auto& [part, times] : seen) {
    EXPECT_TRUE(text != nullptr || times > 0) << part << ": " << times;
  }
}

}  // namespace
}  // namespace ravnest::coordinator
