#include <gtest/gtest.h>

#include "ravnest/coordinator/assignment.h"
#include "tests/coordinator/world.h"

namespace ravnest::coordinator {
namespace {

using Ids = std::vector<MemberId>;

std::vector<Origin> origins(const World& world, JobId job, std::size_t index = 0) {
  std::vector<Origin> found;
  for (const Place& place : world.cluster(job, index).places) {
    found.push_back(place.origin);
  }
  return found;
}

void lose(World& world, const MemberId& id) { world.does(Closed{id, world.session(id)}); }

TEST(Loss, ASpareTakesTheStageFromTheCheckpoint) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  world.join("spare");
  world.checkpoint({"a", "b"}, 10);
  const Epoch before = world.cluster(job).epoch;
  lose(world, "b");
  EXPECT_EQ(world.lineup(job), (Ids{"a", "spare"}));
  EXPECT_EQ(origins(world, job), (std::vector<Origin>{Origin::kCheckpoint, Origin::kCheckpoint}));
  EXPECT_GT(world.cluster(job).epoch, before);
  EXPECT_EQ(world.job(job).phase, Phase::kPreparing);
  EXPECT_EQ(make_assignment(world.state, "spare")->restore->version, 10);
  EXPECT_TRUE(world.has_note(job, "b is lost with stage 1 of cluster 1"));
  EXPECT_TRUE(world.has_note(job, "spare takes stage 1 of cluster 1"));
  world.ready({"a", "spare"});
  EXPECT_EQ(world.job(job).phase, Phase::kRunning);
}

TEST(Loss, WithoutACheckpointTheClusterStartsOver) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  world.join("spare");
  lose(world, "a");
  EXPECT_EQ(origins(world, job), (std::vector<Origin>{Origin::kFresh, Origin::kFresh}));
}

TEST(Loss, ASpareTakesWeightsFromTheRingWhereAnotherClusterTrains) {
  World world;
  const JobId job = world.run({{"a", "b"}, {"c", "d"}});
  world.join("spare");
  world.checkpoint({"a", "b"}, 10);
  const Epoch other = world.cluster(job, 1).epoch;
  lose(world, "a");
  EXPECT_EQ(world.lineup(job), (Ids{"spare", "b"}));
  EXPECT_EQ(origins(world, job), (std::vector<Origin>{Origin::kRing, Origin::kKept}));
  EXPECT_EQ(world.cluster(job, 1).epoch, other);
  EXPECT_TRUE(world.cluster(job, 1).is_running);
  EXPECT_EQ(world.job(job).phase, Phase::kRunning);
}

TEST(Loss, TheFastestSpareWithEnoughMemoryIsChosen) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  world.join("slow");
  world.enrol("fast");
  Join fast = world.join_of("fast");
  fast.measured.gflops = 99.0;
  world.does(fast);
  world.enrol("small");
  Join small = world.join_of("small", 0.5);
  small.measured.gflops = 999.0;
  world.does(small);
  lose(world, "a");
  EXPECT_EQ(world.lineup(job), (Ids{"fast", "b"}));
}

TEST(Loss, WordsOfWhoWasReplacedAreRefused) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  world.join("spare");
  const FromStage old_a = world.from("a");
  const FromStage old_b = world.from("b");
  world.wait(Milliseconds{5000}, {"b", "spare"});
  EXPECT_EQ(world.lineup(job), (Ids{"spare", "b"}));
  const Hash hash = sha256_of("late");
  world.refuses(StageCheckpoint{old_a, 5, hash});  // its session is over
  world.refuses(StageCheckpoint{old_b, 5, hash});  // an old epoch
  world.refuses(StageResult{old_b, hash});
  world.refuses(StageReady{old_b});
  world.refuses(StageReport{old_b, {}});
  world.refuses(StageFailed{old_b, "late"});
  FromStage back = old_a;
  back.session = world.join("a");
  world.refuses(StageCheckpoint{back, 5, hash});  // holds nothing any more
}

TEST(Loss, WithoutASpareTheRemainingMachinesArePlannedAgain) {
  World world;
  const JobId job = world.run({{"a", "b", "c"}}, {.least_providers = 3});
  world.checkpoint({"a", "b", "c"}, 10);
  lose(world, "b");
  EXPECT_EQ(world.job(job).phase, Phase::kPlanning);
  ASSERT_EQ(world.asked.size(), 2U);
  EXPECT_EQ(world.asked.back().pool.size(), 2U);
  world.plan({{"a", "c"}});
  EXPECT_EQ(origins(world, job), (std::vector<Origin>{Origin::kCheckpoint, Origin::kCheckpoint}));
  EXPECT_EQ(make_assignment(world.state, "a")->restore->pieces.size(), 3U);
  world.ready({"a", "c"});
  world.checkpoint({"a", "c"}, 20);
  EXPECT_EQ(world.job(job).restore->pieces.size(), 2U);
}

TEST(Loss, WhereTheRemainingCannotHoldTheModelTheJobPausesUntilSomebodyJoins) {
  World world;
  const JobId job = world.run({{"a", "b", "c"}});
  world.checkpoint({"a", "b", "c"}, 10);
  lose(world, "b");
  world.does(PlanFailed{job, world.asked.back().epoch, "16 GB are not enough", false});
  EXPECT_EQ(world.job(job).phase, Phase::kPaused);
  EXPECT_EQ(world.job(job).reason, "16 GB are not enough");
  world.join("b");
  EXPECT_EQ(world.job(job).phase, Phase::kPreparing);
  EXPECT_EQ(world.lineup(job), (Ids{"a", "b", "c"})) << "everybody is where it was";
  EXPECT_EQ(world.asked.size(), 2U) << "no new plan is needed";
  EXPECT_EQ(origins(world, job)[0], Origin::kCheckpoint);
}

TEST(Loss, WhoIsReleasedByAPausedJobServesTheNext) {
  World world;
  const JobId first = world.run({{"a", "b"}});
  const JobId second = world.submit();
  lose(world, "b");
  world.does(PlanFailed{first, world.asked.back().epoch, "too little", false});
  EXPECT_EQ(world.job(first).phase, Phase::kPaused);
  EXPECT_EQ(world.job(second).phase, Phase::kPlanning);
}

TEST(Loss, AClusterWithoutSpareIsDissolvedWhereOthersGoOn) {
  World world;
  const JobId job = world.run({{"a", "b"}, {"c", "d"}});
  lose(world, "a");
  ASSERT_EQ(world.job(job).clusters.size(), 1U);
  EXPECT_EQ(world.lineup(job), (Ids{"c", "d"}));
  EXPECT_TRUE(world.cluster(job).is_running);
  EXPECT_FALSE(world.state.durable.seats.contains("b"));
  EXPECT_EQ(world.asked.size(), 1U);
}

TEST(Loss, TheRestOfOneBrokenClusterMendsTheOther) {
  World world;
  const JobId job = world.run({{"a", "b"}, {"c", "d"}});
  world.join("spare");
  world.state.live.providers.at("spare").banned_until = world.now.steady + Milliseconds{60'000};
  lose(world, "a");
  EXPECT_EQ(world.lineup(job), (Ids{"c", "d"}));
  lose(world, "d");
  ASSERT_EQ(world.job(job).clusters.size(), 1U);
  EXPECT_EQ(world.lineup(job), (Ids{"c", "b"}));
  EXPECT_EQ(origins(world, job), (std::vector<Origin>{Origin::kFresh, Origin::kFresh}));
}

TEST(Loss, AClusterThatWaitsForTheRingStartsOverWhenTheRingIsGone) {
  World world;
  const JobId job = world.run({{"a", "b"}, {"c", "d"}});
  world.checkpoint({"a", "b"}, 7);
  world.join_all({"s1", "s2"});
  lose(world, "a");
  EXPECT_EQ(origins(world, job)[0], Origin::kRing);
  const Epoch epoch = world.cluster(job).epoch;
  lose(world, "c");
  EXPECT_EQ(origins(world, job, 0), (std::vector<Origin>(2, Origin::kCheckpoint)));
  EXPECT_EQ(origins(world, job, 1), (std::vector<Origin>(2, Origin::kCheckpoint)));
  EXPECT_GT(world.cluster(job).epoch, epoch);
}

TEST(Loss, TheRestorePointStaysWhileAClusterIsRestoredFromIt) {
  World world;
  const JobId job = world.run({{"a", "b"}, {"c", "d"}});
  world.checkpoint({"a", "b"}, 10);
  world.join_all({"s1", "s2"});
  lose(world, "a");
  lose(world, "c");
  world.ready({"s1", "b"});
  world.checkpoint({"s1", "b"}, 20);
  EXPECT_EQ(world.job(job).restore->version, 10);
  world.ready({"s2", "d"});
  EXPECT_EQ(world.job(job).restore->version, 20);
}

TEST(Loss, ARestorePointIsWhatEveryStageHas) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  world.keep({"a"}, {10, 11});
  EXPECT_TRUE(world.done<SendCheckpoint>().empty());
  world.keep({"b"}, {11});
  ASSERT_EQ(world.done<SendCheckpoint>().size(), 2U);
  EXPECT_EQ(world.done<SendCheckpoint>()[0].version, 11);
  world.does(world.checkpoint_of("b", 11));
  EXPECT_FALSE(world.job(job).restore);
  world.does(world.checkpoint_of("a", 11));
  ASSERT_TRUE(world.job(job).restore);
  EXPECT_EQ(world.job(job).restore->version, 11);
  EXPECT_TRUE(world.cluster(job).pending.empty());
  world.refuses(world.checkpoint_of("b", 10));
}

TEST(Loss, WhatWasNotAskedForIsNotTaken) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  for (std::int64_t version = 1; version <= 10; ++version) {
    world.refuses(world.checkpoint_of("a", version));
  }
  std::vector<std::int64_t> many(kMostKept + 1, 1);
  world.refuses(StageKept{world.from("a"), many});
  world.refuses(StageKept{world.from("a"), {-1}});
  EXPECT_TRUE(world.cluster(job).pending.empty());
}

// Both keep every tenth version, and the link of one carries a checkpoint while the other keeps
// fifty.
TEST(Loss, RestorePointsAdvanceHoweverSlowAStageSends) {
  World world;
  const JobId job = world.run({{"fast", "slow"}});
  std::int64_t at = 0;
  std::int64_t before = -1;
  for (int round = 0; round < 5; ++round) {
    std::optional<std::int64_t> asked;
    for (int i = 0; i < 50; ++i, at += 10) {
      world.actions.clear();
      const std::vector<std::int64_t> held = {asked.value_or(at), at};
      world.keep({"fast", "slow"}, held);
      for (const auto& send : world.done<SendCheckpoint>()) {
        asked = send.version;
      }
      if (const auto& pending = world.cluster(job).pending; asked && !pending.contains(*asked)) {
        world.does(world.checkpoint_of("fast", *asked));
      }
    }
    ASSERT_TRUE(asked);
    world.does(world.checkpoint_of("slow", *asked));
    ASSERT_TRUE(world.job(job).restore);
    EXPECT_GT(world.job(job).restore->version, before);
    before = world.job(job).restore->version;
  }
}

// Versions that were made up keep nobody from what all have.
TEST(Loss, AStageThatSaysItHasWhatNobodyHasHoldsNothingUp) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  world.keep({"a"}, {10, 1'000, 1'001, 1'002});
  world.keep({"b"}, {10});
  ASSERT_EQ(world.done<SendCheckpoint>().size(), 2U);
  world.does(world.checkpoint_of("a", 10));
  world.does(world.checkpoint_of("b", 10));
  EXPECT_EQ(world.job(job).restore->version, 10);
}

TEST(Loss, WhatAStageHasNoLongerIsNotWaitedFor) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  world.keep({"a", "b"}, {10});
  world.does(world.checkpoint_of("a", 10));
  world.keep({"a", "b"}, {20});  // b's machine was short of room
  world.actions.clear();
  world.keep({"b"}, {20});
  ASSERT_EQ(world.done<SendCheckpoint>().size(), 1U) << "it may not have heard it";
  EXPECT_EQ(world.done<SendCheckpoint>()[0].provider, "b");
  world.does(world.checkpoint_of("a", 20));
  world.does(world.checkpoint_of("b", 20));
  EXPECT_EQ(world.job(job).restore->version, 20);
}

TEST(Loss, SparesBecomeAClusterAtTheNextCheckpoint) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  world.join_all({"c", "d"});
  EXPECT_EQ(world.job(job).clusters.size(), 1U);
  world.checkpoint({"a", "b"}, 10);
  ASSERT_EQ(world.job(job).clusters.size(), 2U);
  EXPECT_EQ(origins(world, job, 1), (std::vector<Origin>(2, Origin::kRing)));
  EXPECT_TRUE(world.cluster(job, 0).is_running);
  EXPECT_EQ(world.job(job).phase, Phase::kRunning);
  world.ready({"c", "d"});
  EXPECT_TRUE(world.cluster(job, 1).is_running);
}

// A job that began on the first who came takes the others in.
TEST(Loss, AJobGrowsByOneProviderAtATimeWhereOneHoldsTheModel) {
  World world;
  const JobId job = world.run({{"a"}}, {.clusters = 0});
  world.join_all({"b", "c"});
  world.checkpoint({"a"}, 10);
  ASSERT_EQ(world.job(job).clusters.size(), 3U);
  world.ready({"b", "c"});
  world.join("d");
  world.checkpoint({"a"}, 20);
  EXPECT_EQ(world.job(job).clusters.size(), 4U);
}

TEST(Loss, AJobGrowsNoFurtherThanItsOptionsAllow) {
  World world;
  const JobId job = world.run({{"a", "b"}}, {.clusters = 1});
  world.join_all({"c", "d"});
  world.checkpoint({"a", "b"}, 10);
  EXPECT_EQ(world.job(job).clusters.size(), 1U);
  World other;
  const JobId capped = other.run({{"a", "b"}}, {.most_providers = 3});
  other.join_all({"c", "d"});
  other.checkpoint({"a", "b"}, 10);
  EXPECT_EQ(other.job(capped).clusters.size(), 1U);
}

TEST(Loss, WhoLeavesHandsOverFirst) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  world.join("spare");
  world.checkpoint({"a", "b"}, 10);
  world.actions.clear();
  world.does(Leave{"a", world.session("a")});
  EXPECT_EQ(world.done<KeepCheckpoint>().size(), 2U);
  EXPECT_EQ(world.lineup(job), (Ids{"a", "b"}));
  EXPECT_TRUE(world.done<LetGo>().empty());
  world.checkpoint({"a", "b"}, 12);
  EXPECT_EQ(world.lineup(job), (Ids{"spare", "b"}));
  EXPECT_EQ(make_assignment(world.state, "spare")->restore->version, 12);
  ASSERT_EQ(world.done<LetGo>().size(), 1U);
  EXPECT_EQ(world.done<LetGo>()[0].provider, "a");
  world.does(Closed{"a", world.session("a")});
  EXPECT_EQ(world.state.live.providers.at("a").strikes, 0);
}

TEST(Loss, AHandOverTakesTenSecondsAtMost) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  world.join("spare");
  world.does(Leave{"a", world.session("a")});
  world.wait(Milliseconds{9500}, {"a", "b", "spare"});
  EXPECT_EQ(world.lineup(job), (Ids{"a", "b"}));
  world.wait(Milliseconds{500}, {"a", "b", "spare"});
  EXPECT_EQ(world.lineup(job), (Ids{"spare", "b"}));
  EXPECT_EQ(world.done<LetGo>().size(), 1U);
}

// A GB of memory, over 100 Mbit/s: 80 s, and another checkpoint may be on its way.
TEST(Loss, AHandOverHasTheTimeThatTheSlowestLinkNeeds) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  world.join("spare");
  world.state.live.providers.at("b").measured.mbps = 100.0;
  world.does(Leave{"a", world.session("a")});
  world.wait(Milliseconds{150'000}, {"a", "b", "spare"});
  EXPECT_EQ(world.lineup(job), (Ids{"a", "b"}));
  world.checkpoint({"a", "b"}, 10);
  EXPECT_EQ(world.lineup(job), (Ids{"spare", "b"}));
}

TEST(Loss, AHandOverOverALinkThatCarriesNothingHasAnEnd) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  world.join("spare");
  world.state.live.providers.at("b").measured.mbps = 1e-9;
  world.does(Leave{"a", world.session("a")});
  world.wait(kLongestHandOver, {"a", "b", "spare"});
  EXPECT_EQ(world.lineup(job), (Ids{"spare", "b"}));
}

// Asked for a checkpoint, a stage that is at rest keeps the one that it kept before.
TEST(Loss, WhoHasLearnedNothingSinceTheRestorePointMayGoAtOnce) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  world.join("spare");
  world.checkpoint({"a", "b"}, 10);
  world.does(Leave{"a", world.session("a")});
  world.keep({"a"}, {10});
  EXPECT_EQ(world.lineup(job), (Ids{"spare", "b"}));
  EXPECT_TRUE(world.has_note(job, "a has handed over stage 0 of cluster 1"));
  EXPECT_EQ(make_assignment(world.state, "spare")->restore->version, 10);
}

TEST(Loss, WhoseClusterIsBehindTheRestorePointMayGoAtOnce) {
  World world;
  const JobId job = world.run({{"a", "b"}, {"c", "d"}});
  world.checkpoint({"c", "d"}, 20);
  world.join("spare");
  world.does(Leave{"a", world.session("a")});
  world.keep({"b"}, {15});
  EXPECT_EQ(world.lineup(job), (Ids{"spare", "b"}));
  EXPECT_TRUE(world.has_note(job, "a has handed over stage 0 of cluster 1"));
  EXPECT_EQ(origins(world, job), (std::vector<Origin>{Origin::kRing, Origin::kKept}))
      << "the restore point is not made of what this cluster has learned";
}

TEST(Loss, WhoseClusterCameLaterHandsOverWhatThatHasLearned) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  world.join_all({"c", "d"});
  world.checkpoint({"a", "b"}, 600);
  world.ready({"c", "d"});
  world.join("spare");
  EXPECT_EQ(world.cluster(job, 0).first, 0);
  EXPECT_EQ(world.cluster(job, 1).first, 600) << "its passes are counted from there";
  world.does(Leave{"c", world.session("c")});
  world.keep({"c", "d"}, {660});
  EXPECT_EQ(world.lineup(job, 1), (Ids{"c", "d"})) << "that is still to come";
  world.does(world.checkpoint_of("c", 660));
  world.does(world.checkpoint_of("d", 660));
  EXPECT_EQ(world.lineup(job, 1), (Ids{"spare", "d"}));
  EXPECT_EQ(origins(world, job, 1), (std::vector<Origin>(2, Origin::kCheckpoint)));
  EXPECT_EQ(make_assignment(world.state, "spare")->restore->cluster, world.cluster(job, 1).id);
}

TEST(Loss, AClusterThatIsSetBackToAnothersRestorePointBeginsThere) {
  World world;
  const JobId job = world.run({{"a", "b"}, {"c", "d"}});
  world.checkpoint({"a", "b"}, 10);
  world.join_all({"s1", "s2"});
  lose(world, "a");
  lose(world, "c");
  EXPECT_EQ(world.cluster(job, 0).first, 0) << "the restore point is its own";
  EXPECT_EQ(world.cluster(job, 1).first, 10);
}

TEST(Loss, ClustersOfANewPlanBeginWithTheRestorePoint) {
  World world;
  const JobId job = world.run({{"a", "b", "c"}});
  world.checkpoint({"a", "b", "c"}, 10);
  lose(world, "b");
  world.plan({{"a"}, {"c"}});
  EXPECT_EQ(world.cluster(job, 0).first, 10);
  EXPECT_EQ(world.cluster(job, 1).first, 10);
}

TEST(Loss, WhoHoldsNothingMayLeaveAtOnce) {
  World world;
  world.join("a");
  world.does(Leave{"a", world.session("a")});
  EXPECT_EQ(world.done<LetGo>().size(), 1U);
  world.refuses(Leave{"a", world.session("a")});
  world.submit();
  EXPECT_TRUE(world.asked.empty()) << "it gets no work any more";
}

TEST(Loss, APausedProviderHandsOverAndServesAgainWhenItIsLent) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  world.join("spare");
  world.does(PauseProvider{"a"});
  world.refuses(PauseProvider{"a"});
  world.checkpoint({"a", "b"}, 3);
  EXPECT_EQ(world.lineup(job), (Ids{"spare", "b"}));
  EXPECT_TRUE(world.done<LetGo>().empty());
  world.does(Beat{"a", world.session("a")});
  lose(world, "b");
  EXPECT_EQ(world.job(job).phase, Phase::kPlanning) << "a paused provider is no spare";
  world.plan({{"spare"}});
  world.does(ResumeProvider{"a"});
  world.refuses(ResumeProvider{"a"});
  world.ready({"spare"});
  world.checkpoint({"spare"}, 9);
  EXPECT_EQ(world.lineup(job, 1), (Ids{"a"}));
}

TEST(Loss, APauseThatIsTakenBackKeepsTheStage) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  world.does(PauseProvider{"a"});
  world.does(ResumeProvider{"a"});
  world.checkpoint({"a", "b"}, 3);
  world.wait(Milliseconds{12'000}, {"a", "b"});
  EXPECT_EQ(world.lineup(job), (Ids{"a", "b"}));
}

TEST(Loss, AHandOverThatARestartCutOffIsAskedForAgain) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  world.does(PauseProvider{"a"});
  const Epoch epoch = world.cluster(job).epoch;
  world.restart_server();
  for (const MemberId id : {"b", "a", "spare"}) {
    if (id == "spare") {
      world.enrol(id);
    }
    Join back = world.join_of(id);
    back.holds = id == "spare" ? 0 : epoch;
    world.does(back);
  }
  EXPECT_EQ(world.done<KeepCheckpoint>().size(), 2U);
  world.checkpoint({"a", "b"}, 3);
  EXPECT_EQ(world.lineup(job), (Ids{"spare", "b"}));
}

TEST(Loss, AStageThatFailsGoesToAnother) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  world.join("spare");
  world.does(StageFailed{world.from("a"), "the process died of signal 9"});
  EXPECT_TRUE(world.has_note(job, "signal 9"));
  EXPECT_EQ(world.lineup(job), (Ids{"spare", "b"}));
  EXPECT_EQ(world.job(job).failures, 1);
  EXPECT_EQ(world.state.live.providers.at("a").strikes, 1);
}

TEST(Loss, WhoRanOutOfMemoryCountsAsSmaller) {
  World world;
  world.run({{"a", "b"}});
  world.join("spare", 1.0);
  world.does(StageFailed{.from = world.from("a"), .reason = "out of memory", .is_memory = true});
  EXPECT_DOUBLE_EQ(world.state.live.providers.at("a").measured.ram_gb, 6.4);
}

TEST(Loss, AStageThatFailsEverywhereFailsTheJob) {
  World world;
  const JobId job = world.run({{"a"}});
  world.join_all({"b", "c", "d"});
  for (std::int64_t i = 0; i < kMostFailures; ++i) {
    ASSERT_FALSE(is_over(world.job(job).phase));
    const MemberId holder = world.lineup(job)[0];
    world.ready({holder});
    world.does(StageFailed{world.from(holder), "its loss is not finite"});
  }
  EXPECT_EQ(world.job(job).phase, Phase::kFailed);
  EXPECT_NE(world.job(job).reason.find("not finite"), std::string::npos);
}

TEST(Loss, AFinalFailureFailsTheJobAtOnce) {
  World world;
  const JobId job = world.run({{"a"}});
  world.does(StageFailed{.from = world.from("a"), .reason = "bad shapes", .is_final = true});
  EXPECT_EQ(world.job(job).phase, Phase::kFailed);
}

TEST(Loss, AFinalFailureIsBelievedOfTwo) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  world.join_all({"c", "d"});
  world.does(StageFailed{.from = world.from("a"), .reason = "bad shapes", .is_final = true});
  ASSERT_EQ(world.job(job).phase, Phase::kPreparing);
  const MemberId other = world.lineup(job)[0];
  EXPECT_NE(other, "a");
  world.does(StageFailed{.from = world.from(other), .reason = "bad shapes", .is_final = true});
  EXPECT_EQ(world.job(job).phase, Phase::kFailed);
  EXPECT_NE(world.job(job).reason.find("bad shapes"), std::string::npos);
}

TEST(Loss, AFinalFailureIsBelievedOfOneWhereNobodyElseHasTheRoom) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  world.join("c", 0.5);
  world.does(StageFailed{.from = world.from("a"), .reason = "bad shapes", .is_final = true});
  EXPECT_EQ(world.job(job).phase, Phase::kFailed);
}

TEST(Loss, AFinalFailureIsNotBelievedOfOneWhoIsInAllOfThem) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  world.join("c");
  for (int i = 0; i < 2; ++i) {
    const Ids ids = world.lineup(job);
    const auto liar = std::ranges::find(ids, "a");
    ASSERT_NE(liar, ids.end());
    const MemberId peer = ids[liar == ids.begin() ? 1 : 0];
    world.does(StageFailed{.from = world.from("a"),
                           .reason = "its loss is not finite",
                           .is_final = true,
                           .suspect = peer});
    ASSERT_FALSE(is_over(world.job(job).phase)) << i;
  }
  EXPECT_EQ(world.state.live.providers.at("a").strikes, 2);
}

TEST(Loss, WhatANeighbourSentIsTheNeighboursFault) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  world.join("spare");
  world.does(StageFailed{.from = world.from("b"), .reason = "a sent 3 for 4", .suspect = "a"});
  EXPECT_EQ(std::ranges::count(world.lineup(job), "a"), 0);
  EXPECT_EQ(world.state.live.providers.at("a").strikes, 1);
  EXPECT_EQ(world.state.live.providers.at("b").strikes, 0);
  EXPECT_TRUE(world.has_note(job, "(a may be to blame)"));
}

TEST(Loss, WhoNamesOneNeighbourAfterTheOtherIsStruckToo) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  world.join("spare");
  world.does(StageFailed{.from = world.from("b"), .reason = "odd values", .suspect = "a"});
  world.does(StageFailed{.from = world.from("b"), .reason = "odd values", .suspect = "spare"});
  EXPECT_EQ(world.state.live.providers.at("b").strikes, 1);
  EXPECT_FALSE(is_over(world.job(job).phase));
}

TEST(Loss, NobodyOfElsewhereIsToBlame) {
  World world;
  world.run({{"a", "b"}});
  world.run({{"c", "d"}});
  world.join("spare");
  for (const MemberId& id : Ids{"c", "spare", "rita", "nobody", "b"}) {
    const std::int64_t before = world.state.live.providers["b"].strikes;
    world.does(StageFailed{.from = world.from("b"), .reason = "odd values", .suspect = id});
    ASSERT_EQ(world.state.live.providers.at("c").strikes, 0);
    ASSERT_EQ(world.state.live.providers.at("b").strikes, before + 1) << id;
    if (!world.state.durable.seats.contains("b")) {
      break;  // others have its place
    }
  }
}

TEST(Loss, AStageLostInTheEndGivesItsWeightsAgain) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  world.join("spare");
  world.checkpoint({"a", "b"}, 10);
  world.does(world.result_of("a"));
  EXPECT_EQ(world.job(job).phase, Phase::kEnding);
  lose(world, "b");
  EXPECT_EQ(world.job(job).phase, Phase::kPreparing);
  EXPECT_TRUE(world.cluster(job).results.empty());
  world.ready({"a", "spare"});
  world.does(world.result_of("a"));
  world.does(world.result_of("spare"));
  EXPECT_EQ(world.job(job).phase, Phase::kDone);
}

TEST(Loss, AProcessThatWasStartedAnewHoldsNothing) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  world.join("spare");
  world.join("a");
  EXPECT_EQ(world.lineup(job), (Ids{"spare", "b"}));
}

TEST(Loss, AConnectionThatIsMadeAnewLosesNothing) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  world.join("spare");
  const Epoch epoch = world.cluster(job).epoch;
  Join again = world.join_of("a");
  again.holds = epoch;
  again.address = "elsewhere:9";
  world.actions.clear();
  world.does(again);
  EXPECT_EQ(world.lineup(job), (Ids{"a", "b"}));
  EXPECT_EQ(world.cluster(job).epoch, epoch);
  EXPECT_EQ(world.done<Assign>().size(), 1U);
  world.does(Tick{});
  EXPECT_EQ(world.done<Assign>().size(), 3U) << "its peer hears of the address";
  EXPECT_EQ(make_assignment(world.state, "b")->clusters[0].stages[0].address, "elsewhere:9");
}

// "a" says so every second, for as long.
void complain(World& world, const MemberId& peer, Milliseconds time) {
  for (Milliseconds gone{0}; gone <= time; gone += Milliseconds{1000}) {
    world.does(StageUnreached{world.from("a"), peer, "connection refused"});
    world.wait(Milliseconds{1000}, {"a", "b"});
  }
}

TEST(Loss, ALinkThatDoesNotWorkGoesThroughTheRelay) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  complain(world, "b", kRelayAfter - Milliseconds{1000});
  EXPECT_FALSE(make_assignment(world.state, "a")->clusters[0].stages[1].is_relayed);
  world.actions.clear();
  complain(world, "b", Milliseconds{1000});
  EXPECT_TRUE(make_assignment(world.state, "a")->clusters[0].stages[1].is_relayed);
  EXPECT_FALSE(make_assignment(world.state, "b")->clusters[0].stages[0].is_relayed)
      << "the other way is another link";
  EXPECT_TRUE(world.has_note(
      job, "a does not reach b (connection refused): that link goes through the server's relay"));
  ASSERT_EQ(world.done<Assign>().size(), 1U);
  EXPECT_EQ(world.done<Assign>()[0].provider, "a");
  world.does(Closed{"b", world.session("b")});
  world.join("b");
  EXPECT_TRUE(world.state.live.relayed.empty()) << "from elsewhere it may be reached";
}

TEST(Loss, WhoIsNotReadyYetIsWaitedFor) {
  World world;
  world.join_all({"a", "b"});
  world.submit();
  world.plan({{"a", "b"}});
  complain(world, "b", 2 * kRelayAfter);
  EXPECT_TRUE(world.state.live.relayed.empty());
  world.ready({"b"});
  complain(world, "b", kRelayAfter);
  EXPECT_EQ(world.state.live.relayed.size(), 1U);
}

TEST(Loss, APeerThatWasReachedInBetweenIsNotRelayed) {
  World world;
  world.run({{"a", "b"}});
  for (int i = 0; i < 4; ++i) {
    complain(world, "b", kRelayAfter / 2);
    world.wait(kLostAfter, {"a", "b"});
  }
  EXPECT_TRUE(world.state.live.relayed.empty());
  complain(world, "nobody", 2 * kRelayAfter);
  EXPECT_TRUE(world.state.live.unreached.size() <= 1U) << "nobody that it works with";
}

TEST(Loss, ARequesterThatIsNotReachedIsRelayedForThatRoot) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  world.does(FeedOffered{job, "rita", {.address = "rita:1"}});
  complain(world, "rita", kRelayAfter);
  EXPECT_TRUE(make_assignment(world.state, "a")->feed->is_relayed);
  EXPECT_FALSE(world.state.live.feeds.at(job).is_relayed);
}

TEST(Loss, AfterARestartOfTheServerTheJobGoesOn) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  world.checkpoint({"a", "b"}, 10);
  const Epoch epoch = world.cluster(job).epoch;
  world.restart_server();
  EXPECT_EQ(world.job(job).phase, Phase::kRunning);
  for (const MemberId id : {"a", "b"}) {
    Join back = world.join_of(id);
    back.holds = epoch;
    world.does(back);
  }
  EXPECT_EQ(world.cluster(job).epoch, epoch);
  EXPECT_EQ(world.lineup(job), (Ids{"a", "b"}));
  world.checkpoint({"a", "b"}, 20);
  EXPECT_EQ(world.job(job).restore->version, 20);
}

TEST(Loss, WhoDoesNotComeBackAfterARestartIsLost) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  const Epoch epoch = world.cluster(job).epoch;
  world.restart_server();
  Join back = world.join_of("a");
  back.holds = epoch;
  world.does(back);
  world.join("spare");
  world.wait(kReturnTime - Milliseconds{500}, {"a", "spare"});
  EXPECT_EQ(world.lineup(job), (Ids{"a", "b"}));
  world.wait(Milliseconds{500}, {"a", "spare"});
  EXPECT_EQ(world.lineup(job), (Ids{"a", "spare"}));
  EXPECT_EQ(world.state.live.providers.at("b").strikes, 0);
}

TEST(Loss, WhoComesBackAfterARestartWithoutItsStageIsReplaced) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  const Epoch epoch = world.cluster(job).epoch;
  world.restart_server();
  Join back = world.join_of("b");
  back.holds = epoch;
  world.does(back);
  world.join("a");
  EXPECT_EQ(world.lineup(job), (Ids{"a", "b"}));
  EXPECT_GT(world.cluster(job).epoch, epoch);
}

TEST(Loss, AStartThatWasNotHeardIsInTheAssignment) {
  World world;
  const JobId job = world.run({{"a"}});
  const Epoch epoch = world.cluster(job).epoch;
  world.restart_server();
  Join back = world.join_of("a");
  back.holds = epoch;
  world.does(back);
  EXPECT_TRUE(make_assignment(world.state, "a")->is_running);
}

TEST(Loss, APlanThatWasBeingMadeAtARestartIsAskedForAgain) {
  World world;
  world.join("a");
  const JobId job = world.submit();
  EXPECT_EQ(world.job(job).phase, Phase::kPlanning);
  world.restart_server();
  EXPECT_EQ(world.job(job).phase, Phase::kQueued);
  world.join("a");
  world.gather();
  EXPECT_EQ(world.job(job).phase, Phase::kPlanning);
  EXPECT_EQ(world.asked.size(), 2U);
}

}  // namespace
}  // namespace ravnest::coordinator
