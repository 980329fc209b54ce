#include "ravnest/front/job_page.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/base/has.h"

namespace ravnest::front {
namespace {

using Json = nlohmann::json;

Json stage(int number, const char* role, const char* name) {
  return {{"stage", number},     {"role", role},        {"name", name},
          {"is_relayed", false}, {"doing", "computes"}, {"report", nullptr}};
}

Json job() {
  Json root = stage(0, "root", "box");
  Json leaf = stage(1, "leaf", "laptop");
  root["report"] = {{"version", 41},
                    {"loss", 0.0},
                    {"samples_per_second", 1234.0},
                    {"delay", 1.0},
                    {"memory_bytes", 250'000'000},
                    {"averaging", ""}};
  leaf["report"] = {{"version", 40},
                    {"loss", 0.25},
                    {"samples_per_second", 1200.0},
                    {"delay", 0.0},
                    {"memory_bytes", 90'000'000},
                    {"averaging", "averaging 3 with node_3 (12 ms, 1.2 MB)"}};
  leaf["is_relayed"] = true;
  return {{"id", 3},
          {"name", "digits"},
          {"phase", "running"},
          {"reason", "Cluster 1 trains."},
          {"requester", "rita"},
          {"submitted_at", 1'700'000'000},
          {"ended_at", 0},
          {"is_fed", true},
          {"restore_point", {{"version", 30}, {"cluster", 1}}},
          {"last", {{"version", 40}, {"loss", 0.125}}},
          {"accuracy", Json::array({Json::array({10, 81.0}), Json::array({20, 97.5})})},
          {"clusters", Json::array({{{"id", 1}, {"stages", Json::array({root, leaf})}}})},
          {"notes", Json::array({{{"at", 1'700'000'001}, {"text", "rita submitted it."}}})}};
}

TEST(JobPage, ShowsStagesAndWhatHappened) {
  const std::string page = job_page(job(), {});
  for (const char* part :
       {"job 3  digits  running", "Cluster 1 trains.", "restore point: version 30",
        "last loss: 0.125 at version 40", "97.5 %", "0 root", "box", "computes", "1,234", "250 MB",
        "1 leaf", "laptop, relayed", "0.25", "averaging 3 with node_3 (12 ms, 1.2 MB)",
        "rita submitted it."}) {
    EXPECT_TRUE(has(page, part)) << part << "\n" << page;
  }
  EXPECT_FALSE(has(page, "{")) << page;
}

TEST(JobPage, SaysThatNobodyFeedsIt) {
  Json lonely = job();
  lonely["is_fed"] = false;
  EXPECT_TRUE(has(job_page(lonely, {}), "the requester is not connected"));
}

TEST(JobPage, AJobThatWaitsHasNoStages) {
  Json waiting = job();
  waiting["clusters"] = Json::array();
  waiting["restore_point"] = nullptr;
  waiting["last"] = nullptr;
  waiting["accuracy"] = Json::array();
  const std::string page = job_page(waiting, {});
  EXPECT_FALSE(has(page, "cluster 1\n"));
  EXPECT_FALSE(has(page, "restore point"));
  EXPECT_FALSE(has(page, "last loss"));
}

TEST(JobPage, WordsFromOutsideDriveNoTerminal) {
  Json odd = job();
  odd["notes"][0]["text"] = "\x1b[2Jgone";
  EXPECT_FALSE(has(job_page(odd, {}), "\x1b"));
}

}  // namespace
}  // namespace ravnest::front
