#include "ravnest/provider/request_log.h"

#include <gtest/gtest.h>

#include "ravnest/base/error.h"

namespace ravnest::provider {
namespace {

// What is sent next: "t3" training pass 3, "v0" validation pass 0, "T1", "V1" ends of rounds.
std::string sent(RequestLog& log) {
  std::string all;
  while (log.has_next()) {
    const transport::Message message = log.take_next();
    if (message.kind == transport::MessageKind::kControl) {
      const Control control = read_control(message);
      all += (control.word == Word::kTrainingEnd ? "T" : "V") + std::to_string(round_of(control));
    } else {
      const PassHeader header = read_header(message);
      all += (header.is_training() ? "t" : "v") + std::to_string(header.pass);
    }
    all += " ";
  }
  return all;
}

void add(RequestLog& log, Purpose purpose, int count = 1) {
  for (int i = 0; i < count; ++i) {
    const PassHeader header{.purpose = purpose, .samples = 2};
    log.add(header, to_message(header, transport::MessageKind::kForward));
  }
}

void finish(RequestLog& log, Purpose purpose, std::int64_t pass, const PassResult& result = {}) {
  log.finish({.purpose = purpose, .pass = pass, .samples = 2}, result);
}

TEST(RequestLog, SendsNothingBeforeThereIsARoot) {
  RequestLog log(true);
  add(log, Purpose::kTrain, 2);
  EXPECT_EQ(sent(log), "");
  EXPECT_EQ(log.unsent(), 2U);
  log.restart(0);
  EXPECT_EQ(sent(log), "t0 t1 ");
  EXPECT_EQ(log.unsent(), 0U);
}

TEST(RequestLog, KeepsWhatIsSubmittedAgainForARootThatBeginsEarlier) {
  RequestLog log(true);
  log.restart(5);
  EXPECT_EQ(log.behind(), 5);
  log.start_at(3);
  add(log, Purpose::kTrain, 4);
  EXPECT_EQ(log.submitted(), 7);
  EXPECT_FALSE(log.is_news({.purpose = Purpose::kTrain, .pass = 4}));
  EXPECT_TRUE(log.is_news({.purpose = Purpose::kTrain, .pass = 5}));
  EXPECT_EQ(sent(log), "t5 t6 ");
  finish(log, Purpose::kTrain, 5);
  EXPECT_FALSE(log.is_idle());
  finish(log, Purpose::kTrain, 6);
  EXPECT_TRUE(log.is_idle());
  log.restart(3);
  EXPECT_EQ(sent(log), "t3 t4 t5 t6 ");
  EXPECT_THROW(log.restart(2), Error);
}

TEST(RequestLog, SendsAgainWhatTheNextRootHasNotLearned) {
  RequestLog log(true);
  log.restart(0);
  add(log, Purpose::kTrain, 3);
  add(log, Purpose::kValidate, 2);
  add(log, Purpose::kTrain);
  EXPECT_EQ(sent(log), "t0 t1 t2 v0 v1 t3 ");
  finish(log, Purpose::kTrain, 0);
  finish(log, Purpose::kTrain, 1);
  finish(log, Purpose::kValidate, 0);
  log.restart(1);
  EXPECT_FALSE(log.is_news({.purpose = Purpose::kTrain, .pass = 1}));
  EXPECT_TRUE(log.is_news({.purpose = Purpose::kTrain, .pass = 2}));
  EXPECT_EQ(sent(log), "t1 t2 v1 t3 ");
  for (const std::int64_t pass : {1, 2, 3}) {
    EXPECT_FALSE(log.is_idle());
    finish(log, Purpose::kTrain, pass);
  }
  finish(log, Purpose::kValidate, 1);
  EXPECT_TRUE(log.is_idle());
}

TEST(RequestLog, LeavesOutPassesThatTheRunHasBehindIt) {
  RequestLog log(false);
  add(log, Purpose::kTrain);
  log.restart(3);
  add(log, Purpose::kTrain, 3);
  EXPECT_EQ(sent(log), "t3 ");
}

TEST(RequestLog, GoesOnWhereNobodyIsWithARootThatCannotSay) {
  RequestLog log(true);
  log.restart(0);
  add(log, Purpose::kTrain, 4);
  sent(log);
  finish(log, Purpose::kTrain, 0);
  finish(log, Purpose::kTrain, 1);
  log.restart(std::nullopt);
  EXPECT_EQ(sent(log), "t2 t3 ");
}

TEST(RequestLog, EndsATrainingAgainWhereItsLastPassesAreLearnedAgain) {
  RequestLog log(true);
  log.restart(0);
  add(log, Purpose::kTrain, 2);
  log.end_training();
  EXPECT_EQ(sent(log), "t0 t1 T1 ");
  finish(log, Purpose::kTrain, 0);
  finish(log, Purpose::kTrain, 1);
  log.finish(Control{.word = Word::kTrainingEnd, .numbers = {1}});
  EXPECT_TRUE(log.is_trained());
  log.restart(1);
  EXPECT_FALSE(log.is_trained());
  EXPECT_EQ(sent(log), "t1 T1 ");
}

TEST(RequestLog, EndsAValidationWhenItsPassesAreDoneWithTheirSums) {
  RequestLog log(false);
  log.restart(0);
  add(log, Purpose::kValidate, 2);
  log.end_validation();
  EXPECT_EQ(sent(log), "v0 v1 ");
  finish(log, Purpose::kValidate, 0, {.loss = 1.0, .correct = 1, .counted = 2});
  finish(log, Purpose::kValidate, 0, {.loss = 1.0, .correct = 1, .counted = 2});
  EXPECT_FALSE(log.has_next());
  finish(log, Purpose::kValidate, 1, {.loss = 2.0, .correct = 2, .counted = 2});
  ASSERT_TRUE(log.has_next());
  const Control end = read_control(log.take_next());
  EXPECT_EQ(sums_of(end)->loss, 6.0);  // two samples each
  EXPECT_EQ(sums_of(end)->correct, 3);
  EXPECT_FALSE(log.is_validated());
  log.restart(0);
  EXPECT_EQ(sent(log), "V1 ");
  log.finish(end);
  EXPECT_TRUE(log.is_validated());
  EXPECT_EQ(log.last_validation().counted, 4);
  EXPECT_EQ(log.size(), 0U);
}

TEST(RequestLog, RefusesARootThatNeedsWhatIsForgotten) {
  RequestLog forgetful(false);
  forgetful.restart(0);
  add(forgetful, Purpose::kTrain, 3);
  sent(forgetful);
  finish(forgetful, Purpose::kTrain, 0);
  EXPECT_EQ(forgetful.size(), 2U);
  EXPECT_THROW(forgetful.restart(0), Error);
  EXPECT_NO_THROW(forgetful.restart(1));

  RequestLog log(true);
  log.restart(0);
  add(log, Purpose::kTrain, 3);
  sent(log);
  for (const std::int64_t pass : {0, 1, 2}) {
    finish(log, Purpose::kTrain, pass);
  }
  log.note_restore(2, true);
  log.forget_restored();
  EXPECT_EQ(log.size(), 1U);
  EXPECT_THROW(log.restart(1), Error);
  log.restart(2);
  EXPECT_EQ(sent(log), "t2 ");
}

// Passes of a batch that is cut into so many.
void add_parts(RequestLog& log, std::int64_t parts, int batches) {
  for (std::int64_t pass = 0; pass < batches * parts; ++pass) {
    const PassHeader header{
        .purpose = Purpose::kTrain, .samples = 2, .part = pass % parts, .parts = parts};
    log.add(header, to_message(header, transport::MessageKind::kForward));
  }
}

bool is_news(const RequestLog& log, std::int64_t pass) {
  return log.is_news({.purpose = Purpose::kTrain, .pass = pass});
}

void finish_trainings(RequestLog& log, std::int64_t from, std::int64_t to) {
  for (std::int64_t pass = from; pass < to; ++pass) {
    finish(log, Purpose::kTrain, pass);
  }
}

TEST(RequestLog, GoesOnFromAnothersRestorePointWithWhatNobodyHas) {
  RequestLog log(true);
  log.restart(0);
  add(log, Purpose::kTrain, 5);
  sent(log);
  finish_trainings(log, 0, 2);
  log.note_restore(600, false);
  log.forget_restored();
  EXPECT_EQ(log.size(), 3U) << "the first two are behind the restore point";
  finish_trainings(log, 2, 3);
  log.restart(600, true);
  EXPECT_EQ(sent(log), "t600 t601 t602 ");
  EXPECT_FALSE(is_news(log, 600)) << "its result was told as that of pass 2";
  EXPECT_TRUE(is_news(log, 601));
  EXPECT_EQ(log.submitted(), 603);
  finish_trainings(log, 600, 603);
  EXPECT_TRUE(log.is_idle());
  add(log, Purpose::kTrain, 2);
  EXPECT_EQ(sent(log), "t603 t604 ") << "what comes later is not taken for learned";
  log.restart(604);
  EXPECT_EQ(sent(log), "t604 ") << "the root has kept that much since";
}

TEST(RequestLog, GoesOnFromTheRestorePointOfAClusterThatIsBehind) {
  RequestLog log(true);
  log.restart(0);
  add(log, Purpose::kTrain, 60);
  sent(log);
  finish_trainings(log, 0, 50);
  log.note_restore(40, false);
  log.forget_restored();
  log.end_training();
  log.restart(40, true);
  EXPECT_EQ(sent(log), "t40 t41 t42 t43 t44 t45 t46 t47 t48 t49 T1 ");
  log.restart(40, true);
  EXPECT_EQ(sent(log), "t40 t41 t42 t43 t44 t45 t46 t47 t48 t49 T1 ") << "as often as it must";
  finish_trainings(log, 40, 50);
  EXPECT_TRUE(log.is_idle());
}

TEST(RequestLog, SendsAgainAllThatItsOwnRestorePointLacks) {
  RequestLog log(true);
  log.restart(0);
  add(log, Purpose::kTrain, 5);
  sent(log);
  finish_trainings(log, 0, 4);
  log.note_restore(2, true);
  log.forget_restored();
  log.restart(2, true);
  EXPECT_EQ(sent(log), "t2 t3 t4 ");
  EXPECT_FALSE(is_news(log, 3));
  EXPECT_TRUE(is_news(log, 4));
}

// The restore point moves as soon as all clusters train, before the root has said that it begins.
TEST(RequestLog, KeepsWhatTheRestorePointBeforeLacksUntilTheRootHasBegun) {
  RequestLog log(true);
  log.restart(0);
  add(log, Purpose::kTrain, 6);
  sent(log);
  finish_trainings(log, 0, 5);
  log.note_restore(2, true);
  log.forget_restored();
  log.note_restore(600, false);
  log.restart(2, true);
  log.forget_restored();
  EXPECT_EQ(sent(log), "t2 t3 t4 t5 ");
  log.restart(600, true);
  EXPECT_EQ(sent(log), "t600 ") << "all but the last were learned from when it was made";
}

TEST(RequestLog, TakesWeightsForAnothersThatHaveMoreThanCanHaveBeenLearnedFromIt) {
  for (const bool is_restored : {true, false}) {
    RequestLog log(true);
    log.restart(0);
    add(log, Purpose::kTrain, 3);
    sent(log);
    finish_trainings(log, 0, 1);
    log.restart(600, is_restored);
    EXPECT_EQ(sent(log), "t600 t601 ") << "though it was not told of that restore point";
  }
}

TEST(RequestLog, LearnsAgainFromTheWholeBatchThatARestorePointHasAPartOf) {
  RequestLog log(true);
  log.restart(0);
  add_parts(log, 4, 2);
  sent(log);
  finish_trainings(log, 0, 6);
  log.note_restore(600, false);
  log.forget_restored();
  finish_trainings(log, 6, 8);
  log.restart(600, true);
  EXPECT_EQ(sent(log), "t600 t601 t602 t603 ");
}

TEST(RequestLog, CountsFromTheFirstRootOn) {
  RequestLog log(true);
  log.start_with_root(600);
  add(log, Purpose::kTrain, 2);
  log.restart(650);
  EXPECT_EQ(sent(log), "t650 t651 ");
  finish_trainings(log, 650, 651);
  log.restart(651);
  EXPECT_EQ(sent(log), "t651 ");
}

TEST(RequestLog, CountsFromWhereItsClusterBeganWhereTheFirstRootCannotSay) {
  RequestLog log(true);
  log.start_with_root(600);
  add(log, Purpose::kTrain, 2);
  log.restart(std::nullopt);
  EXPECT_EQ(sent(log), "t600 t601 ");
  EXPECT_EQ(log.submitted(), 602);
}

TEST(RequestLog, FollowsItsClustersCountWhereTheRootAloneHasWeightsFromElsewhere) {
  RequestLog log(true);
  log.restart(0);
  add(log, Purpose::kTrain, 3);
  sent(log);
  finish_trainings(log, 0, 1);
  log.note_restore(600, false);
  log.restart(std::nullopt, true);  // its mates have the restore point's
  EXPECT_EQ(sent(log), "t600 t601 ");
}

}  // namespace
}  // namespace ravnest::provider
