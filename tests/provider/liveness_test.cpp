#include "ravnest/provider/liveness.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <latch>
#include <mutex>
#include <thread>

#include "tests/provider/cluster.h"

namespace ravnest::provider {
namespace {

using std::chrono::seconds;

class LivenessTest : public testing::Test {
 protected:
  bool is_alive_after(seconds pause, bool is_waiting = false) {
    now_ += pause;
    return liveness_.is_alive(is_waiting, now_);
  }

  Liveness liveness_{seconds(60)};
  Liveness::Clock::time_point now_{seconds(1000)};
};

TEST_F(LivenessTest, LosesPatienceWithAThreadThatDoesNotGetOn) {
  liveness_.begin(now_);
  EXPECT_TRUE(is_alive_after(seconds(1)));
  EXPECT_TRUE(is_alive_after(seconds(60)));
  EXPECT_FALSE(is_alive_after(seconds(1)));
  liveness_.tick();
  EXPECT_TRUE(is_alive_after(seconds(1)));
}

TEST_F(LivenessTest, WaitsForAnOperatorThatIsSlow) {
  liveness_.begin(now_);
  for (int i = 0; i < 20; ++i) {  // each takes half a minute
    EXPECT_TRUE(is_alive_after(seconds(30)));
    liveness_.tick();
  }
  // The backward of these comes in one piece.
  EXPECT_TRUE(is_alive_after(seconds(1)));
  EXPECT_TRUE(is_alive_after(seconds(1800)));
  EXPECT_FALSE(is_alive_after(seconds(10 * 600)));
}

TEST_F(LivenessTest, KnowsHowLongWorkHasTakenBefore) {
  liveness_.begin(now_);
  now_ += seconds(40);
  liveness_.end(now_);
  liveness_.begin(now_);
  EXPECT_TRUE(is_alive_after(seconds(1)));
  EXPECT_TRUE(is_alive_after(seconds(400)));
  EXPECT_FALSE(is_alive_after(seconds(1)));
}

TEST_F(LivenessTest, WaitsWithWhoWaitsForOthers) {
  liveness_.begin(now_);
  EXPECT_TRUE(is_alive_after(seconds(1)));
  EXPECT_TRUE(is_alive_after(seconds(100'000), true));
  EXPECT_TRUE(is_alive_after(seconds(59)));
}

// Whom a provider calls lost.
class Lost {
 public:
  ProviderCallbacks callbacks() {
    ProviderCallbacks callbacks;
    callbacks.on_notice = [this](const transport::Notice& notice) {
      if (notice.kind == transport::NoticeKind::kLost) {
        const std::lock_guard lock(mutex_);
        peers_.insert(notice.peer);
        text_ = notice.text;
        changed_.notify_all();
      }
    };
    return callbacks;
  }
  bool wait_for(const std::string& peer, Milliseconds timeout) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [&] { return peers_.contains(peer); });
  }
  std::string text() {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::string> peers_;
  std::string text_;
};

TEST(LostNeighbour, IsNamedWithinFiveSeconds) {
  Lost lost;
  TestCluster cluster({2, 4});
  cluster.start(2);
  cluster.start(1);
  cluster.start(0, lost.callbacks());
  cluster.train(make_batches(4));
  ASSERT_TRUE(cluster.root().wait_until_idle(Milliseconds(20'000)));
  cluster.kill(1);
  ASSERT_TRUE(lost.wait_for("node_1", Milliseconds(5000)));
  EXPECT_NE(lost.text().find("node_1"), std::string::npos) << lost.text();
}

TEST(LostNeighbour, IsOneWhoseLoopHangsUntilItGoesOn) {
  Lost lost;
  TestCluster cluster({3}, {.hung_after = Milliseconds(100)});
  std::latch may_go_on(1);
  ProviderCallbacks callbacks;
  callbacks.on_learned = [&](const PassHeader& header, const PassResult&) {
    if (header.pass == 2) {
      may_go_on.wait();
    }
  };
  cluster.start(1, callbacks);
  cluster.start(0, lost.callbacks());
  std::thread feeding([&] { cluster.train(make_batches(8)); });
  EXPECT_TRUE(lost.wait_for("node_1", Milliseconds(60'000))) << "a hung loop was not found";
  EXPECT_FALSE(cluster.leaf().is_alive());
  EXPECT_TRUE(cluster.root().is_alive());
  may_go_on.count_down();
  feeding.join();
  cluster.end_training();
  EXPECT_TRUE(cluster.leaf().is_alive());
  EXPECT_EQ(cluster.leaf().status().passes, 8);
  cluster.close();
}

}  // namespace
}  // namespace ravnest::provider
