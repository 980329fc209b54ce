#include <gtest/gtest.h>

#include <limits>

#include "ravnest/coordinator/assignment.h"
#include "tests/coordinator/world.h"

namespace ravnest::coordinator {
namespace {

using Ids = std::vector<MemberId>;

TEST(Jobs, AJobGoesFromTheQueueToItsEnd) {
  World world;
  world.join_all({"a", "b", "spare"});
  const JobId job = world.submit();
  EXPECT_EQ(world.job(job).phase, Phase::kPlanning);
  ASSERT_EQ(world.asked.size(), 1U);
  EXPECT_EQ(world.asked[0].pool.size(), 3U);
  world.plan({{"a", "b"}});
  EXPECT_EQ(world.job(job).phase, Phase::kPreparing);
  EXPECT_EQ(world.done<Assign>().size(), 2U);
  EXPECT_EQ(world.cluster(job).places[0].origin, Origin::kFresh);
  world.ready({"a"});
  EXPECT_TRUE(world.done<Start>().empty());
  world.ready({"b"});
  EXPECT_EQ(world.done<Start>().size(), 2U);
  EXPECT_EQ(world.job(job).phase, Phase::kRunning);
  world.does(world.result_of("a"));
  EXPECT_EQ(world.job(job).phase, Phase::kEnding);
  world.does(world.result_of("b"));
  EXPECT_EQ(world.job(job).phase, Phase::kDone);
  EXPECT_EQ(world.job(job).results.size(), 2U);
  EXPECT_EQ(world.done<Release>().size(), 2U);
  EXPECT_TRUE(world.state.durable.seats.empty());
}

TEST(Jobs, AJobWaitsForAsManyProvidersAsItWants) {
  World world;
  const JobId job = world.submit({.least_providers = 2});
  EXPECT_EQ(world.job(job).phase, Phase::kQueued);
  EXPECT_EQ(world.job(job).reason, "It waits for providers: 2 wanted, 0 free.");
  world.join("a");
  world.gather();
  EXPECT_TRUE(world.asked.empty());
  world.join("b");
  world.wait(kGatherTime, {"a", "b"});
  EXPECT_EQ(world.asked.size(), 1U);
}

TEST(Jobs, ThoseWhoComeTogetherArePlannedTogether) {
  World world;
  const JobId job = world.submit();
  world.enrol("c");  // and measures itself
  world.pass(Milliseconds{600});
  world.join("a");
  world.pass(Milliseconds{600});
  world.does(Tick{});
  EXPECT_TRUE(world.asked.empty());
  EXPECT_EQ(world.job(job).reason,
            "Providers are still coming, 1 so far: they are planned with together.");
  world.join("b");
  world.join("c");
  world.gather();
  ASSERT_EQ(world.asked.size(), 1U);
  EXPECT_EQ(world.asked[0].pool.size(), 3U);
}

TEST(Jobs, ThoseWhoComeForEverAreNotWaitedFor) {
  World world;
  world.submit();
  Ids ids;
  for (int i = 0; world.asked.empty() && i < 100; ++i) {
    ids.push_back(concat("p", i));
    world.join(ids.back());
    world.wait(Milliseconds{500}, ids);
  }
  ASSERT_EQ(world.asked.size(), 1U);
  EXPECT_EQ(world.asked[0].pool.size(), 10U) << "one every half second, for 5 s";
}

TEST(Jobs, WhereAllThatAreWantedAreThereNobodyElseIsWaitedFor) {
  World world;
  world.submit({.least_providers = 2, .most_providers = 2});
  world.join("a");
  world.join("b");
  EXPECT_EQ(world.asked.size(), 1U);
}

TEST(Jobs, WhereNobodyHasComeForAWhileAPlanIsMadeAtOnce) {
  World world;
  world.join("a");
  world.gather();
  world.submit();
  EXPECT_EQ(world.asked.size(), 1U);
}

TEST(Jobs, TheNextJobStartsOnTheSameProvidersAtOnce) {
  World world;
  const JobId first = world.run({{"a", "b"}});
  const JobId second = world.submit();
  EXPECT_EQ(world.job(second).phase, Phase::kQueued);
  world.does(world.result_of("a"));
  const Decision end = world.does(world.result_of("b"));
  EXPECT_EQ(world.job(first).phase, Phase::kDone);
  EXPECT_EQ(world.job(second).phase, Phase::kPlanning);
  EXPECT_EQ(world.asked.back().pool.size(), 2U);
}

TEST(Jobs, JobsRunSideBySideOnDisjointProviders) {
  World world;
  world.join_all({"a", "b", "c", "d"});
  const JobId first = world.submit({.most_providers = 2});
  EXPECT_EQ(world.asked.back().pool.size(), 2U);
  const JobId second = world.submit();
  ASSERT_EQ(world.asked.size(), 2U);
  EXPECT_EQ(world.asked[1].pool.size(), 2U);
  world.does(World::plan_for(world.asked[0], {{"a", "b"}}));
  world.does(World::plan_for(world.asked[1], {{"c", "d"}}));
  world.ready({"a", "b", "c", "d"});
  EXPECT_EQ(world.job(first).phase, Phase::kRunning);
  EXPECT_EQ(world.job(second).phase, Phase::kRunning);
}

TEST(Jobs, APoolThatCannotHoldTheModelIsNotTriedAgainUntilSomebodyJoins) {
  World world;
  world.join("a");
  const JobId job = world.submit();
  world.does(PlanFailed{job, world.asked.back().epoch, "expected 9 GB, got 8 GB", false});
  EXPECT_EQ(world.job(job).phase, Phase::kQueued);
  EXPECT_EQ(world.job(job).reason, "expected 9 GB, got 8 GB");
  world.wait(Milliseconds{10'000}, {"a"});
  EXPECT_EQ(world.asked.size(), 1U);
  world.join("b");
  world.gather();
  EXPECT_EQ(world.asked.size(), 2U);
  EXPECT_EQ(world.asked.back().pool.size(), 2U);
}

TEST(Jobs, AJobThatCannotBePlannedDoesNotHoldUpTheNext) {
  World world;
  world.join("a");
  const JobId first = world.submit();
  const JobId second = world.submit();
  world.does(PlanFailed{first, world.asked.back().epoch, "too large", false});
  EXPECT_EQ(world.job(second).phase, Phase::kPlanning);
}

TEST(Jobs, AProgramThatCannotBeReadFailsTheJob) {
  World world;
  world.join("a");
  const JobId job = world.submit();
  world.does(PlanFailed{job, world.asked.back().epoch, "aten::from_file is not allowed", true});
  EXPECT_EQ(world.job(job).phase, Phase::kFailed);
  EXPECT_TRUE(world.state.durable.references.empty());
  ASSERT_EQ(world.done<DropArtifact>().size(), 1U);
  EXPECT_EQ(world.done<DropArtifact>()[0].hash, world.program);
}

TEST(Jobs, APlanThatComesTooLateIsRefused) {
  World world;
  world.join_all({"a", "b"});
  const JobId job = world.submit();
  const MakePlan old = world.asked.back();
  world.does(CancelJob{job, "rita"});
  world.refuses(World::plan_for(old, {{"a"}}));
  world.refuses(PlanFailed{job, old.epoch, "late", false});
  world.submit();
  world.refuses(World::plan_for(old, {{"a"}}));
}

TEST(Jobs, PlansThatMakeNoSenseAreRefused) {
  World world;
  world.join_all({"a", "b"});
  world.submit();
  const MakePlan ask = world.asked.back();
  world.refuses(World::plan_for(ask, {}));
  world.refuses(World::plan_for(ask, {{"a", "a"}}));
  world.refuses(World::plan_for(ask, {{"a"}, {"a"}}));
  PlanMade made = World::plan_for(ask, {{"a", "b"}});
  made.clusters[0].providers.pop_back();
  world.refuses(made);
  made = World::plan_for(ask, {{"a"}});
  made.clusters[0].shape = 1;
  world.refuses(made);
  made = World::plan_for(ask, {{"a"}});
  made.plan.shapes[0].stages[0].sub_model = "../etc/passwd";
  world.refuses(made);
}

TEST(Jobs, AProviderThatIsLostWhileTheJobIsPlannedIsReplaced) {
  World world;
  world.join_all({"a", "b", "c"});
  const JobId job = world.submit();
  world.does(Closed{"a", world.session("a")});
  world.plan({{"a", "b"}});
  EXPECT_EQ(world.lineup(job), (Ids{"c", "b"}));
}

TEST(Jobs, AJobWhosePlanCannotBeFilledIsPlannedAgain) {
  World world;
  world.join_all({"a", "b"});
  const JobId job = world.submit();
  world.does(Closed{"a", world.session("a")});
  world.plan({{"a", "b"}});
  EXPECT_EQ(world.job(job).phase, Phase::kPlanning);
  ASSERT_EQ(world.asked.size(), 2U);
  EXPECT_EQ(world.asked.back().pool.size(), 1U);
}

TEST(Jobs, CancellingReleasesEverybody) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  world.refuses(CancelJob{job, "a"});
  world.does(CancelJob{job, "rita"});
  EXPECT_EQ(world.job(job).phase, Phase::kCancelled);
  EXPECT_EQ(world.done<Release>().size(), 2U);
  world.refuses(CancelJob{job, "rita"});
  world.refuses(CancelJob{99, ""});
}

TEST(Jobs, ACancelledJobKeepsItsRestorePointUntilItIsForgotten) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  world.checkpoint({"a", "b"}, 10);
  world.does(CancelJob{job, ""});
  ASSERT_TRUE(world.job(job).restore);
  EXPECT_EQ(world.state.durable.references.size(), 4U);  // two weights, two node files
  world.does(ForgetJob{job, "rita"});
  EXPECT_TRUE(world.state.durable.references.empty());
}

TEST(Jobs, AJobThatIsDoneKeepsResultsAndFilesButNoSubModels) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  world.checkpoint({"a", "b"}, 10);
  world.does(world.result_of("a"));
  world.does(world.result_of("b"));
  EXPECT_FALSE(world.job(job).restore);
  EXPECT_EQ(world.state.durable.references.size(), 4U);
  EXPECT_EQ(world.done<DropArtifact>().size(), 5U);  // Program, sub-models, checkpoint
  EXPECT_TRUE(world.job(job).plan->shapes[0].stages[0].sub_model.empty());
  EXPECT_EQ(world.job(job).plan->shapes[0].stages[0].files.size(), 1U);
}

TEST(Jobs, TheRequesterMayGoAndComeBack) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  world.does(FeedOffered{job, "rita", {.address = "rita:1"}});
  EXPECT_EQ(make_assignment(world.state, "a")->feed->address, "rita:1");
  EXPECT_FALSE(make_assignment(world.state, "b")->feed);
  world.does(FeedGone{job, "rita"});
  EXPECT_FALSE(make_assignment(world.state, "a")->feed);
  EXPECT_EQ(world.job(job).phase, Phase::kRunning);
  world.does(FeedOffered{job, "rita", {.is_relayed = true}});
  EXPECT_TRUE(make_assignment(world.state, "a")->feed->is_relayed);
  world.refuses(FeedOffered{job, "a", {.address = "a:1"}});
}

TEST(Jobs, AnAssignmentSaysAllThatAProviderMustKnow) {
  World world;
  const JobId job = world.run({{"a", "b"}, {"c"}});
  const auto assignment = make_assignment(world.state, "b");
  ASSERT_TRUE(assignment);
  EXPECT_EQ(assignment->seat, (Seat{job, 1, 1}));
  EXPECT_EQ(assignment->epoch, world.cluster(job).epoch);
  EXPECT_EQ(assignment->job_epoch, world.cluster(job, 1).epoch);
  EXPECT_TRUE(assignment->is_running);
  EXPECT_EQ(assignment->stage, world.job(job).plan->shapes[0].stages[1]);
  ASSERT_EQ(assignment->clusters.size(), 2U);
  EXPECT_EQ(assignment->clusters[1].stages[0].address, "c:9000");
  EXPECT_FALSE(make_assignment(world.state, "nobody"));
}

TEST(Jobs, JobsHaveAnEnd) {
  World world;
  std::vector<JobId> ids;
  const auto submit = [&](const MemberId& id) {
    return decide(world.state, SubmitJob{id, "job", world.program, {}}, world.now);
  };
  for (std::size_t i = 0; i < kMostJobs / kMostOpenJobs; ++i) {
    const MemberId id = concat("rita", i);
    world.enrol(id, Role::kRequester);
  }
  world.enrol("carl", Role::kRequester);
  for (std::size_t i = 0; i < kMostJobs; ++i) {
    ids.push_back(submit(concat("rita", i / kMostOpenJobs)).job);
  }
  EXPECT_FALSE(submit("carl").is_accepted);
  decide(world.state, CancelJob{ids[5], ""}, world.now);
  EXPECT_TRUE(submit("carl").is_accepted);
  EXPECT_FALSE(world.state.durable.jobs.contains(ids[5]));
  EXPECT_EQ(world.state.durable.jobs.size(), kMostJobs);
}

TEST(Jobs, ARequesterThatSubmitsWithoutEndLocksNobodyOut) {
  World world;
  world.enrol("carl", Role::kRequester);
  world.enrol("eve", Role::kRequester);
  const auto submit = [&](const MemberId& id) {
    return decide(world.state, SubmitJob{id, "job", world.program, {}}, world.now);
  };
  const JobId trained = submit("carl").job;
  decide(world.state, CancelJob{trained, ""}, world.now);
  for (std::size_t i = 0; i < kMostOpenJobs; ++i) {
    EXPECT_TRUE(submit("eve").is_accepted);
  }
  EXPECT_NE(submit("eve").reason.find("at most 64 open jobs"), std::string::npos);
  EXPECT_TRUE(submit("carl").is_accepted);
  JobId last = 2;
  for (std::size_t i = 0; i < 2 * kMostJobs; ++i) {  // ended ones, to drive out those of others
    decide(world.state, CancelJob{last, ""}, world.now);
    last = submit("eve").job;
    ASSERT_NE(last, 0);
  }
  EXPECT_TRUE(world.state.durable.jobs.contains(trained));
}

TEST(Jobs, WhoWantsAllResultsWaitsForEveryClusterThatTrains) {
  World world;
  const JobId job = world.run({{"a", "b"}, {"c", "d"}}, {.wants_one_result = false});
  for (const MemberId id : {"a", "b", "c"}) {
    world.does(world.result_of(id));
    EXPECT_EQ(world.job(job).phase, Phase::kEnding) << id;
  }
  world.does(world.result_of("d"));
  EXPECT_EQ(world.job(job).phase, Phase::kDone);
  EXPECT_EQ(world.job(job).results.size(), 4U);
}

TEST(Jobs, WhoWantsAllResultsDoesNotWaitForAClusterThatIsLost) {
  World world;
  const JobId job = world.run({{"a", "b"}, {"c", "d"}}, {.wants_one_result = false});
  for (const MemberId id : {"a", "b", "c"}) {
    world.does(world.result_of(id));
  }
  world.does(Closed{"d", world.session("d")});
  EXPECT_EQ(world.job(job).phase, Phase::kDone);
  EXPECT_EQ(world.job(job).results.size(), 2U);
}

TEST(Jobs, WhoAsksAgainWithItsKeyGetsTheSameJob) {
  World world;
  world.enrol("rita", Role::kRequester);
  world.enrol("rose", Role::kRequester);
  const auto submit = [&](const MemberId& who, const std::string& key) {
    return world.does(SubmitJob{who, "job", world.program, {}, key}).job;
  };
  const JobId job = submit("rita", "k1");
  EXPECT_EQ(submit("rita", "k1"), job);
  EXPECT_EQ(world.state.durable.jobs.size(), 1U);
  EXPECT_NE(submit("rita", "k2"), job);
  EXPECT_NE(submit("rose", "k1"), job) << "a key is its requester's";
  EXPECT_NE(submit("rita", ""), submit("rita", "")) << "no key";
  world.does(CancelJob{job, "rita"});
  EXPECT_EQ(submit("rita", "k1"), job) << "it is over, and still the same";
  world.refuses(SubmitJob{"rita", "job", world.program, {}, "<key>"});
}

TEST(Jobs, OptionsThatMakeNoSenseAreRefused) {
  World world;
  world.enrol("rita", Role::kRequester);
  const auto refuses = [&](const JobOptions& options) {
    world.refuses(SubmitJob{"rita", "job", world.program, options});
  };
  refuses({.seed = -1});
  refuses({.clusters = 100'000});
  refuses({.least_providers = 3, .most_providers = 2});
  refuses({.batch = std::numeric_limits<std::int64_t>::max()});
  refuses({.optimizer = "a b"});
  refuses({.training = std::string(kLongestTraining + 1, 'x')});
  refuses({.training = "\xff\xfe"});
  world.refuses(SubmitJob{"rita", "job", "not a hash", {}});
  world.refuses(SubmitJob{"rita", "<script>", world.program, {}});
}

TEST(Jobs, ACurveHasOnePointForAVersion) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  for (const std::int64_t version : {1, 5, 5, 9, 12, 8}) {  // the last: from a restore point
    decide(world.state, StageReport{world.from("b"), {.version = version, .loss = 0.5}}, world.now);
  }
  std::vector<std::int64_t> versions;
  for (const CurvePoint& point : world.state.live.curves.at(job)) {
    versions.push_back(point.version);
  }
  EXPECT_EQ(versions, (std::vector<std::int64_t>{1, 5, 8}));
}

TEST(Jobs, ReportsAreOfTheMomentAndCurvesHaveAnEnd) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  const Durable before = world.state.durable;
  for (std::int64_t i = 0; i < 3000; ++i) {
    decide(world.state, StageReport{world.from("b"), {.version = i, .loss = 0.5}}, world.now);
  }
  EXPECT_EQ(world.state.durable, before);
  EXPECT_EQ(world.state.live.reports.at("b").version, 2999);
  const auto& curve = world.state.live.curves.at(job);
  EXPECT_LE(curve.size(), kMostCurvePoints);
  EXPECT_EQ(curve.back().version, 2999);
  StageReport bad{world.from("b"), {}};
  bad.report.loss = std::numeric_limits<double>::infinity();
  world.refuses(bad);
}

TEST(Jobs, ACurveOutlivesTheServer) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  const auto report = [&](std::int64_t version) {
    world.does(StageReport{world.from("b"), {.version = version, .loss = 1.0 / double(version)}});
  };
  for (std::int64_t version = 1; version <= 250; ++version) {
    report(version);
  }
  world.checkpoint({"a", "b"}, 250);
  world.restart_server();
  const auto& curve = world.state.live.curves.at(job);
  EXPECT_LE(curve.size(), kMostKeptPoints);
  EXPECT_GT(curve.size(), kMostKeptPoints / 2);
  EXPECT_EQ(curve.back().version, 250);
  for (const MemberId& id : Ids{"a", "b"}) {
    Join back = world.join_of(id);
    back.holds = world.cluster(job).epoch;
    world.does(back);
  }
  report(260);
  for (const MemberId& id : Ids{"a", "b"}) {
    world.does(world.result_of(id));
  }
  ASSERT_EQ(world.job(job).phase, Phase::kDone);
  world.restart_server();
  EXPECT_EQ(world.state.live.curves.at(job).back(), (CurvePoint{260, 1.0 / 260.0, -1.0}));
  world.does(ForgetJob{job, ""});
  world.restart_server();
  EXPECT_FALSE(world.state.live.curves.contains(job));
}

TEST(Jobs, NotesHaveAnEnd) {
  World world;
  const JobId job = world.run({{"a"}});
  for (std::int64_t i = 1; i <= 300; ++i) {
    world.checkpoint({"a"}, i);
  }
  EXPECT_EQ(world.job(job).notes.size(), kMostNotes);
  EXPECT_NE(world.job(job).notes.back().text.find("300"), std::string::npos);
}

}  // namespace
}  // namespace ravnest::coordinator
