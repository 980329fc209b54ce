#include "ravnest/coordinator/view.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/coordinator/world.h"

namespace ravnest::coordinator {
namespace {

using Json = nlohmann::json;

TEST(View, ShowsWhoDoesWhat) {
  World world;
  const JobId job = world.run({{"a", "b", "c"}});
  world.does(StageReport{world.from("a"), {.version = 5, .computing = 0.7, .waiting = 0.3}});
  world.does(StageReport{world.from("b"), {.version = 5, .computing = 0.2, .waiting = 0.8}});
  world.does(StageReport{world.from("c"), {.version = 5, .loss = 0.25, .sending = 0.9}});
  const Json seen = Json::parse(view(world.state, world.now));
  const Json& stages = seen["jobs"][0]["clusters"][0]["stages"];
  EXPECT_EQ(seen["jobs"][0]["phase"], "running");
  EXPECT_EQ(stages[0]["role"], "root");
  EXPECT_EQ(stages[1]["role"], "stem");
  EXPECT_EQ(stages[2]["role"], "leaf");
  EXPECT_EQ(stages[0]["doing"], "computes");
  EXPECT_EQ(stages[1]["doing"], "waits");
  EXPECT_EQ(stages[2]["doing"], "sends");
  EXPECT_EQ(stages[2]["report"]["loss"], 0.25);
  EXPECT_EQ(seen["providers"][0]["place"]["stage"], 0);
  EXPECT_EQ(seen["providers"].size(), 3U) << "a requester is none";
  const Json one = Json::parse(job_view(world.state, job));
  EXPECT_EQ(one["curve"], Json::parse("[[5, 0.25]]"));
  EXPECT_THROW(static_cast<void>(job_view(world.state, 99)), std::invalid_argument);
}

TEST(View, AJobThatIsOverKeepsWhereItHasComeTo) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  const auto last = [&] { return Json::parse(view(world.state, world.now))["jobs"][0]["last"]; };
  EXPECT_TRUE(last().is_null());
  world.does(StageReport{world.from("b"), {.version = 5, .loss = 0.25}});
  world.does(CancelJob{job, "rita"});
  EXPECT_EQ(last(), Json::parse(R"({"version": 5, "loss": 0.25})"));
}

TEST(View, ShowsThoseWhoAreNotAtWork) {
  World world;
  world.join_all({"a", "b"});
  const JobId job = world.submit();
  world.plan({{"a", "b"}});
  world.ready({"a"});
  const auto doing = [&](std::size_t stage) {
    return Json::parse(job_view(world.state, job))["clusters"][0]["stages"][stage]["doing"];
  };
  EXPECT_EQ(doing(0), "is ready");
  EXPECT_EQ(doing(1), "prepares");
  world.ready({"b"});
  EXPECT_EQ(doing(1), "starts");
  world.wait(Milliseconds{2000}, {"a"});
  EXPECT_EQ(doing(1), "is silent");
  world.restart_server();
  EXPECT_EQ(doing(0), "is awaited");
}

TEST(View, EveryEventHasItsReason) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  world.does(Closed{"b", world.session("b")});
  world.does(PlanFailed{job, world.asked.back().epoch, "<b>8 GB</b> are too little", false});
  const Json seen = Json::parse(view(world.state, world.now))["jobs"][0];
  EXPECT_EQ(seen["phase"], "paused");
  EXPECT_EQ(seen["reason"], "<b>8 GB</b> are too little");
  EXPECT_EQ(seen["clusters"].size(), 0U);
  const std::string notes = seen["notes"].dump();
  EXPECT_NE(notes.find("b is lost with stage 1 of cluster 1: its connection closed"),
            std::string::npos);
}

TEST(View, AStrangersJobIsANumberAndAPhase) {
  World world;
  const JobId job = world.run({{"a", "b"}});
  world.does(StageReport{world.from("b"), {.version = 5, .loss = 0.25}});
  world.enrol("carl", Role::kRequester);
  world.join("idle");
  const auto seen_by = [&](const MemberId& id) {
    const Viewer viewer{.is_owner = false, .member = id};
    return Json::parse(view(world.state, world.now, 0, viewer))["jobs"][0];
  };
  for (const MemberId id : {"carl", "idle"}) {
    const Json seen = seen_by(id);
    EXPECT_EQ(seen["id"], job);
    EXPECT_EQ(seen["phase"], "running");
    EXPECT_EQ(seen["name"], "");
    EXPECT_EQ(seen["requester"], "");
    EXPECT_EQ(seen["reason"], "");
    EXPECT_TRUE(seen["last"].is_null());
    EXPECT_TRUE(seen["clusters"].empty());
    EXPECT_TRUE(seen["notes"].empty());
  }
  for (const MemberId id : {"rita", "a"}) {  // whose it is, and who holds a stage
    EXPECT_EQ(seen_by(id)["last"]["loss"], 0.25) << id;
  }
}

// However long the server has been at work: a page takes 5 MiB at most.
TEST(View, JobsThatAreOverAreFewAndWithoutTheirNotes) {
  World world;
  world.join("a");
  JobId last = 0;
  for (int i = 0; i < 200; ++i) {
    last = world.submit();
    world.does(CancelJob{last, "rita"});
  }
  const JobId open = world.submit();
  const Json jobs = Json::parse(view(world.state, world.now))["jobs"];
  ASSERT_EQ(jobs.size(), 65U);
  EXPECT_EQ(jobs[63]["id"], last) << "the newest";
  EXPECT_TRUE(jobs[63]["notes"].empty());
  EXPECT_EQ(jobs[64]["id"], open);
  EXPECT_FALSE(jobs[64]["notes"].empty());
  EXPECT_FALSE(Json::parse(job_view(world.state, last))["notes"].empty());
}

TEST(View, ShowsNoToken) {
  World world;
  world.does(MakeToken{{.hash = sha256_of("t"), .uses = 1, .expires_at = world.now.wall + 9}});
  EXPECT_EQ(view(world.state, world.now).find(sha256_of("t")), std::string::npos);
  EXPECT_EQ(metrics(world.state).find(sha256_of("t")), std::string::npos);
}

TEST(View, WhatIsNotUtf8DoesNotCutAnybodyOff) {
  World world;
  world.run({{"a"}});
  world.does(StageFailed{world.from("a"), "\xff\xfe died\n"});
  world.state.live.providers.at("a").address = "\xff";
  EXPECT_TRUE(Json::accept(view(world.state, world.now)));
  EXPECT_NO_THROW(static_cast<void>(to_json(world.state.durable)));
}

TEST(Metrics, AreLinesThatPrometheusReads) {
  World world;
  world.run({{"a", "b"}});
  world.does(StageReport{world.from("b"), {.loss = 0.5, .samples_per_second = 123.5}});
  const std::string text = metrics(world.state);
  EXPECT_NE(text.find("# TYPE ravnest_jobs gauge\n"), std::string::npos);
  EXPECT_NE(text.find("ravnest_jobs{phase=\"running\"} 1\n"), std::string::npos);
  EXPECT_NE(text.find("ravnest_providers{presence=\"present\"} 2\n"), std::string::npos);
  EXPECT_NE(text.find("ravnest_job_loss{job=\"1\"} 0.5\n"), std::string::npos);
  EXPECT_NE(text.find("ravnest_stage_samples_per_second{job=\"1\",cluster=\"1\",stage=\"1\","
                      "provider=\"b\"} 123.5\n"),
            std::string::npos);
  EXPECT_EQ(text.back(), '\n');
}

TEST(Metrics, LabelsAreEscaped) { EXPECT_EQ(escape_label("a\"b\\c\nd"), "a\\\"b\\\\c\\nd"); }

}  // namespace
}  // namespace ravnest::coordinator
