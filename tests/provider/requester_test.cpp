#include "ravnest/provider/requester.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <map>
#include <mutex>
#include <thread>

#include "ravnest/base/error.h"
#include "ravnest/provider/checkpoint.h"
#include "tests/provider/cluster.h"

namespace ravnest::provider {
namespace {

constexpr const char* kJob = "job_1";

// What came of the training passes, and how often.
class Results {
 public:
  void add(std::int64_t pass) {
    const std::lock_guard lock(mutex_);
    ++counts_[pass];
    changed_.notify_all();
  }
  void wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    TestCluster::expect_in_time(
        changed_.wait_for(lock, kLong, [&] { return counts_.size() >= count; }));
  }
  void expect_once_each(std::int64_t passes) {
    const std::lock_guard lock(mutex_);
    for (std::int64_t pass = 0; pass < passes; ++pass) {
      EXPECT_EQ(counts_[pass], 1) << "pass " << pass;
    }
    EXPECT_EQ(counts_.size(), static_cast<std::size_t>(passes));
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::int64_t, int> counts_;
};

class Feeding : public testing::Test {
 protected:
  Feeding() : cluster_({3}, {.checkpoint_every = 4, .ends_alone = true, .job = kJob}) {
    serve(cluster_);
  }

  void serve(TestCluster& cluster) {
    cluster.adjust = [this](ProviderOptions& options) {
      options.requester = {.name = "requester", .address = requester_->address()};
    };
  }
  void make_requester(bool keeps_learned = true) {
    RequesterOptions options;
    options.plan = kJob;
    options.root = cluster_.peer(0);
    options.keeps_learned = keeps_learned;
    options.on_result = [this](const PassHeader& header, const PassResult&) {
      results_.add(header.pass);
    };
    options.on_progress = [this] { ++progress_; };
    requester_ = std::make_unique<Requester>(std::move(options));
  }
  void submit(const std::vector<Batch>& batches, Purpose purpose = Purpose::kTrain) {
    for (const Batch& batch : batches) {
      TestCluster::expect_in_time(
          requester_->submit({.purpose = purpose, .samples = 8}, {batch.x, batch.t}, kLong));
    }
  }
  std::optional<PassResult> validate(const std::vector<Batch>& batches) {
    submit(batches, Purpose::kValidate);
    requester_->end_validation();
    return requester_->wait_for_validation(kLong);
  }

  std::atomic<int> progress_ = 0;
  const std::vector<Batch> batches_ = make_batches(40);
  Results results_;
  TestCluster cluster_;
  std::unique_ptr<Requester> requester_;
};

// As an agent does it when a cluster's line-up changes.
void move_checkpoint(const TestCluster& from, const TestCluster& to, std::size_t stage) {
  auto checkpoint = read_checkpoint(checkpoint_path(from.folder(), from.node(stage)));
  ASSERT_TRUE(checkpoint);
  checkpoint->plan = to.node(stage).plan;
  write_checkpoint(*checkpoint, checkpoint_path(to.folder(), to.node(stage)));
}

void expect_updates(TestCluster& cluster, std::int64_t passes) {
  for (std::size_t stage = 0; stage < cluster.size(); ++stage) {
    ASSERT_EQ(cluster.at(stage).wait_for_training(0, kLong), 1);
    const auto status = cluster.at(stage).status();
    EXPECT_GE(status.resumed, 4) << "stage " << stage;
    EXPECT_EQ(status.resumed + static_cast<std::int64_t>(status.loop.updates), passes);
  }
}

TEST_F(Feeding, GoesOnWithARootElsewhere) {
  make_requester();
  cluster_.start_all();
  std::thread feeding([this] { submit(batches_); });
  results_.wait_for(13);
  cluster_.kill(0);
  cluster_.leaf().keep();
  cluster_.kill(1);
  TestCluster other({3}, {.checkpoint_every = 4, .ends_alone = true, .job = kJob}, kModel, 10);
  serve(other);
  move_checkpoint(cluster_, other, 0);
  move_checkpoint(cluster_, other, 1);
  requester_->set_root(other.peer(0), {});
  other.start_all();
  feeding.join();
  requester_->end_training();
  ASSERT_TRUE(requester_->wait_for_training(kLong));
  results_.expect_once_each(40);
  expect_updates(other, 40);
  requester_->close(Milliseconds(5000));
  other.close();
}

TEST_F(Feeding, GoesOnWithARootThatWasStartedAgain) {
  make_requester();
  cluster_.start_all();
  std::thread feeding([this] { submit(batches_); });
  results_.wait_for(13);
  cluster_.kill(0);
  cluster_.start(0);
  feeding.join();
  requester_->end_training();
  ASSERT_TRUE(requester_->wait_for_training(kLong));
  results_.expect_once_each(40);
  ASSERT_EQ(cluster_.leaf().wait_for_training(0, kLong), 1);
  EXPECT_EQ(cluster_.leaf().status().loop.updates, 40U);
  const auto status = cluster_.root().status();
  EXPECT_GE(status.resumed, 4);
  EXPECT_EQ(status.resumed + static_cast<std::int64_t>(status.loop.updates), 40);
  requester_->close(Milliseconds(5000));
  cluster_.close();
}

TEST_F(Feeding, KeepsWhatAValidationHasWhenTheRootIsLost) {
  make_requester();
  std::latch is_fourth(1);
  std::latch may_go_on(1);
  ProviderCallbacks callbacks;
  callbacks.score = [&, count = 0](const PassHeader&,
                                   const std::vector<c10::IValue>& outputs) mutable {
    if (++count == 14) {
      is_fourth.count_down();
      may_go_on.wait();
    }
    return PassResult{.loss = outputs[0].toTensor().item<double>(), .correct = 1, .counted = 2};
  };
  cluster_.start(0);
  cluster_.start(1, callbacks);
  submit({batches_.begin(), batches_.begin() + 8});
  ASSERT_TRUE(requester_->wait_until_idle(kLong));
  const std::vector<Batch> held_out(batches_.begin() + 20, batches_.begin() + 30);
  const auto undisturbed = validate(held_out);
  ASSERT_TRUE(undisturbed);
  EXPECT_EQ(undisturbed->counted, 20);

  std::optional<PassResult> disturbed;
  std::thread validating([&] { disturbed = validate(held_out); });
  is_fourth.wait();
  cluster_.kill(0);
  cluster_.start(0);
  may_go_on.count_down();
  validating.join();
  ASSERT_TRUE(disturbed);
  EXPECT_EQ(disturbed->counted, 20);
  EXPECT_EQ(disturbed->correct, 10);
  EXPECT_NEAR(disturbed->loss, undisturbed->loss, 1e-9);
  // The stages know the same.
  ASSERT_EQ(cluster_.leaf().wait_for_validation(1, kLong), 2);
  EXPECT_EQ(cluster_.leaf().last_validation().counted, 20);
  requester_->close(Milliseconds(5000));
  cluster_.close();
}

TEST_F(Feeding, EndsWhereTheNextRootNeedsPassesThatAreForgotten) {
  make_requester(false);
  cluster_.start_all();
  submit({batches_.begin(), batches_.begin() + 7});  // the last checkpoint is after four
  ASSERT_TRUE(requester_->wait_until_idle(kLong));
  cluster_.kill(0);
  cluster_.start(0);
  requester_->end_training();
  try {
    requester_->wait_for_training(kLong);
    FAIL() << "went on";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the root begins at pass 4"), std::string::npos)
        << error.what();
  }
}

TEST_F(Feeding, SaysWhetherItHasRoomAndHowMuchIsUnderWay) {
  make_requester();
  EXPECT_TRUE(requester_->has_room());
  std::ptrdiff_t count = 0;
  while (requester_->has_room()) {  // there is no root
    submit({batches_.begin() + count, batches_.begin() + count + 1});
    EXPECT_EQ(requester_->under_way(), ++count);
  }
  EXPECT_LT(count, 40);
  EXPECT_EQ(progress_, 0);
  cluster_.start_all();
  ASSERT_TRUE(requester_->wait_until_idle(kLong));
  EXPECT_TRUE(requester_->has_room());
  EXPECT_EQ(requester_->under_way(), 0);
  EXPECT_GT(progress_, 0);
  requester_->close(Milliseconds(5000));
  cluster_.close();
}

TEST_F(Feeding, PredictsThroughAnyRoot) {
  make_requester();
  submit({batches_.begin(), batches_.begin() + 2}, Purpose::kPredict);  // before there is one
  cluster_.start_all();
  for (int i = 0; i < 2; ++i) {
    const auto outputs = requester_->take_prediction(kLong);
    ASSERT_TRUE(outputs);
    EXPECT_EQ((*outputs)[1].toTensor().size(0), 8);
  }
  requester_->close(Milliseconds(5000));
  cluster_.close();
}

}  // namespace
}  // namespace ravnest::provider
