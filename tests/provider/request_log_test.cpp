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
  log.forget_before(2);
  EXPECT_EQ(log.size(), 1U);
  EXPECT_THROW(log.restart(1), Error);
  log.restart(2);
  EXPECT_EQ(sent(log), "t2 ");
}

}  // namespace
}  // namespace ravnest::provider
