// What becomes of an assignment, with a script in place of the program that holds a stage.

#include "ravnest/agent/keeper.h"

#include <csignal>
#include <deque>
#include <future>
#include <sstream>

#include "ravnest/agent/process.h"
#include "ravnest/base/address.h"
#include "ravnest/base/workers.h"
#include "tests/agent/fake_provider.h"
#include "tests/base/has.h"
#include "tests/server/world.h"

namespace ravnest::agent {
namespace {

namespace fs = std::filesystem;
using namespace coordinator;
using server::kDeadline;

class KeeperTest : public server::World {
 protected:
  KeeperTest() { std::signal(SIGPIPE, SIG_IGN); }
  ~KeeperTest() override {
    on_loop([&] {
      if (keeper_) {
        keeper_->give_up_files();
      }
    });
    slow_.reset();
    on_loop([&] { keeper_.reset(); });
  }

  // The keeper's program, and the place that the server gives it: the only one of its job.
  Assignment begin(const std::string& body, const std::string& training = "") {
    const auto program = write_fake_provider(file("provider.sh"), body);
    JobOptions options;
    options.training = training;
    const JobId job = submit(rita_, options);
    feed_ = rita_.feed(job);
    talk_ = box_.join();
    Assignment assignment = talk_->hear<Hold>().assignment;
    while (!assignment.feed) {
      assignment = talk_->hear<Hold>().assignment;
    }
    on_loop([&] {
      keeper_ = std::make_unique<Keeper>(
          KeeperOptions{.data = file("keeper"),
                        .program = program,
                        .threads = 3,
                        .shares_cores = true,
                        .most_memory = most_memory_,
                        .resolve = [](const Peer& peer) { return peer.address; },
                        .silence = silence_},
          std::make_shared<control::Client>(server->address(), box_.identity),
          KeeperHooks{.say = [this](const ProviderWord& word) { add(word); },
                      .post =
                          [this](std::function<void()> task) {
                            before_post_();
                            loop_.post(std::move(task));
                          },
                      .post_slow = [this](std::function<void()> task) { post_slow(task); },
                      .tell = [this](const std::string& line) { tell(line); }});
    });
    return assignment;
  }
  void hold(const Assignment& assignment) {
    on_loop([&] { keeper_->hold(assignment, "127.0.0.1:9000"); });
  }
  void on_loop(const std::function<void()>& task) {
    std::promise<void> done;
    loop_.post([&] {
      task();
      done.set_value();
    });
    done.get_future().wait();
  }
  void say(const std::string& word) {  // as the server might
    on_loop([&] {
      if (word == "checkpoint") {
        keeper_->keep(post_);
      }
    });
  }

  void ask_for(std::int64_t version) {
    on_loop([&] { keeper_->send(post_, version); });
  }

  template <typename T>
  T hear() {
    std::unique_lock lock(mutex_);
    while (true) {
      if (!changed_.wait_for(lock, kDeadline, [this] { return !words_.empty(); })) {
        throw std::runtime_error("expected a word, heard none in time");
      }
      const ProviderWord word = words_.front();
      words_.pop_front();
      if (const T* found = std::get_if<T>(&word)) {
        return *found;
      }
      if (const auto* failed = std::get_if<HasFailed>(&word)) {  // nothing comes after it
        throw std::runtime_error("expected another word, heard that it failed: " + failed->reason);
      }
    }
  }
  template <typename T>
  T hear_while_ticking() {
    EXPECT_TRUE(becomes([&] {
      on_loop([&] { keeper_->tick(); });
      return has_heard<T>() || has_heard<HasFailed>();
    }));
    return hear<T>();
  }
  template <typename T>
  bool has_heard() {
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(
        words_, [](const ProviderWord& word) { return std::holds_alternative<T>(word); });
  }
  std::string told() {
    const std::lock_guard lock(mutex_);
    return told_;
  }
  bool is_told(const std::string& part) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kDeadline, [&] { return has(told_, part); });
  }
  std::string describe() {
    std::string text;
    on_loop([&] { text = keeper_->describe(); });
    return text;
  }
  Epoch holds() {
    Epoch epoch = 0;
    on_loop([&] { epoch = keeper_->holds(); });
    return epoch;
  }
  std::string arguments() const {
    std::ifstream stream(file("provider.sh.args"));
    std::stringstream text;
    text << stream.rdbuf();
    return text.str();
  }
  std::size_t places() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(file("keeper") / "work"), {}));
  }

  const server::Person rita_ = requester("rita");
  const server::Person box_ = provider("box");
  std::unique_ptr<server::Talk<FeedWord>> feed_;
  std::unique_ptr<server::Talk<ServerWord>> talk_;
  Post post_;
  std::int64_t most_memory_ = 0;
  std::chrono::milliseconds silence_{60'000};
  std::function<void()> before_post_ = [] {};

 private:
  void add(const ProviderWord& word) {
    EXPECT_NO_THROW(read_provider_word(to_text(word))) << to_text(word);
    const std::lock_guard lock(mutex_);
    words_.push_back(word);
    changed_.notify_all();
  }
  void tell(const std::string& line) {
    const std::lock_guard lock(mutex_);
    told_ += line + "\n";
    changed_.notify_all();
  }
  void post_slow(const std::function<void()>& task) { slow_->post(task); }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<ProviderWord> words_;
  std::string told_;

 protected:
  Workers loop_{1};
  std::unique_ptr<Workers> slow_ = std::make_unique<Workers>(1);
  std::unique_ptr<Keeper> keeper_;
};

TEST_F(KeeperTest, RunsTheProgramInAPlaceOfItsOwn) {
  const Assignment assignment = begin(std::string(kReady) + kListens, R"({"codec": "fp16"})");
  hold(assignment);
  const auto ready = hear<IsReady>();
  EXPECT_EQ(ready.post.seat, assignment.seat);
  EXPECT_EQ(ready.post.epoch, assignment.epoch);
  EXPECT_EQ(holds(), assignment.epoch);
  const std::string words = arguments();
  EXPECT_TRUE(has(words, "--agent\n"));
  EXPECT_TRUE(has(words, "--sandbox\n"));
  EXPECT_TRUE(has(words, concat("--name\nnode_", node_id_of(assignment.epoch, 0), "\n")));
  EXPECT_TRUE(has(words, concat("--listen\n", every_host(), ":9000\n")))
      << "wherever peers come from";
  EXPECT_TRUE(has(words, "--threads\n3\n"));
  EXPECT_TRUE(has(words, concat("--job\njob-", assignment.seat.job, "\n")));
  EXPECT_TRUE(has(words, "--requester\nrequester@127.0.0.1:9000\n"));
  EXPECT_TRUE(has(words, "--codec=fp16\n"));
  EXPECT_FALSE(has(words, "--from-ring"));
  EXPECT_TRUE(has(describe(), "is ready"));
}

TEST_F(KeeperTest, TheSameAssignmentAgainDisturbsNothing) {
  const Assignment assignment = begin(std::string(kReady) + kListens);
  hold(assignment);
  hear<IsReady>();
  hold(assignment);
  hear<IsReady>();  // said again, for a server that was away
  Assignment unfed = assignment;
  unfed.feed.reset();
  hold(unfed);
  hear<IsReady>();
  Assignment without = assignment;  // of a server that was started again
  without.clusters[0].stages[0].address = "";
  hold(without);
  hear<IsReady>();
  EXPECT_EQ(places(), 1U);
  EXPECT_FALSE(has(told(), "failed"));
}

TEST_F(KeeperTest, WaitsForTheRequesterAndForPeers) {
  const Assignment assignment = begin(std::string(kReady) + kListens);
  Assignment early = assignment;
  early.feed.reset();
  hold(early);
  EXPECT_TRUE(has(describe(), "waits for the requester's data"));
  early = assignment;
  early.clusters[0].stages[0].address = "";
  early.clusters[0].stages[0].provider = "another";
  hold(early);
  EXPECT_TRUE(has(describe(), "waits for its peers"));
  EXPECT_EQ(holds(), 0);
  hold(assignment);
  hear<IsReady>();
}

TEST_F(KeeperTest, SendsACheckpointWhenItIsAsked) {
  const Assignment assignment = begin(std::string(kReady) + kListens);
  hold(assignment);
  post_ = hear<IsReady>().post;
  post_.epoch += 1;
  say("checkpoint");  // of another epoch: passed over
  post_.epoch -= 1;
  say("checkpoint");
  EXPECT_EQ(hear<HasKept>().versions, (std::vector<std::int64_t>{7}));
  ask_for(7);
  const auto kept = hear<HasCheckpoint>();
  EXPECT_EQ(kept.version, 7);
  EXPECT_EQ(kept.artifact, server::hash_of("weights at 7\n"));
  owner().client->download(kept.artifact, file("back"));
}

// The word may have been said into a session that was lost.
TEST_F(KeeperTest, SaysItsResultAgainToAServerThatWasAway) {
  const Assignment assignment = begin(std::string(kReady) + R"(
echo trained > "$stage/submod_0.safetensors"
echo '{"event": "saved"}'
)");
  hold(assignment);
  const auto result = hear<HasResult>();
  EXPECT_EQ(result.artifact, server::hash_of("trained\n"));
  hold(assignment);
  EXPECT_EQ(hear<HasResult>().artifact, result.artifact);
}

TEST_F(KeeperTest, SendsItsResultAgainToAServerThatLostIt) {
  const Assignment assignment = begin(std::string(kReady) + R"(
echo trained > "$stage/submod_0.safetensors"
echo '{"event": "saved"}'
)");
  hold(assignment);
  const fs::path there = data() / "artifacts" / hear<HasResult>().artifact;
  ASSERT_TRUE(fs::remove(there));
  hold(assignment);
  hear<HasResult>();
  EXPECT_TRUE(fs::exists(there));
}

TEST_F(KeeperTest, SendsAFileWhenTheServerIsBack) {
  const std::string address = server->address();
  const Assignment assignment = begin(std::string(kReady) + kListens);
  hold(assignment);
  post_ = hear<IsReady>().post;
  server.reset();
  say("checkpoint");
  hear<HasKept>();
  ask_for(7);
  EXPECT_TRUE(is_told("could not send 7.safetensors"));
  start(address);
  EXPECT_EQ(hear<HasCheckpoint>().version, 7);
  const std::string all = told();
  EXPECT_EQ(all.find("could not send"), all.rfind("could not send")) << all;
}

TEST_F(KeeperTest, FetchesItsFilesWhenTheServerIsBack) {
  const std::string address = server->address();
  const Assignment assignment = begin(std::string(kReady) + kListens);
  server.reset();
  hold(assignment);
  EXPECT_TRUE(is_told("could not fetch its files"));
  start(address);
  EXPECT_NO_THROW(hear<IsReady>());
}

TEST_F(KeeperTest, AStageDoesNotWaitForTheFilesOfTheOneBefore) {
  Assignment assignment = begin(std::string(kReady) + kListens);
  hold(assignment);
  post_ = hear<IsReady>().post;
  server.reset();
  say("checkpoint");
  hear<HasKept>();
  ask_for(7);
  ASSERT_TRUE(is_told("could not send 7.safetensors"));
  assignment.epoch += 1;  // of files that are here
  assignment.clusters[0].epoch += 1;
  hold(assignment);
  EXPECT_EQ(hear<IsReady>().post.epoch, assignment.epoch);
}

// The stage runs a stranger's model: what waits for the server stays little.
TEST_F(KeeperTest, OfCheckpointsThatNobodyAsksForTheNewestAreKept) {
  const Assignment assignment = begin(std::string(kReady) + R"(
for i in $(seq 30); do
  echo "weights at $i" > "$checkpoints/$i.safetensors"
  echo "{\"event\": \"checkpoint\", \"version\": $i}"
done
)" + kListens);
  hold(assignment);
  post_ = hear<IsReady>().post;
  std::vector<std::int64_t> versions;
  do {
    versions = hear<HasKept>().versions;
    ASSERT_LE(versions.size(), kMostKept);
  } while (versions.back() != 30);
  ask_for(29);
  EXPECT_EQ(hear<HasCheckpoint>().version, 29);
  const fs::path folder = file("keeper") / "work" / "place-1" / "checkpoints";
  EXPECT_FALSE(fs::exists(folder / "27.safetensors")) << "an older one is of no use";
  EXPECT_TRUE(fs::exists(folder / "30.safetensors")) << "a newer one is";
}

// However many come meanwhile.
TEST_F(KeeperTest, ACheckpointThatWasAskedForStaysUntilItIsSent) {
  const std::string address = server->address();
  const Assignment assignment = begin(std::string(kReady) + R"(
echo "weights at 1" > "$checkpoints/1.safetensors"
echo '{"event": "checkpoint", "version": 1}'
read word
for i in $(seq 2 30); do
  echo "weights at $i" > "$checkpoints/$i.safetensors"
  echo "{\"event\": \"checkpoint\", \"version\": $i}"
done
echo '{"event": "note", "text": "all said"}'
)" + kListens);
  hold(assignment);
  post_ = hear<IsReady>().post;
  hear<HasKept>();
  server.reset();
  ask_for(1);
  say("checkpoint");
  ASSERT_TRUE(is_told("all said"));
  start(address);
  EXPECT_EQ(hear<HasCheckpoint>().version, 1);
}

TEST_F(KeeperTest, ACheckpointThatIsNotThereIsPassedOver) {
  hold(begin(std::string(kReady) + R"(echo '{"event": "checkpoint", "version": 9}'
)" + kListens));
  post_ = hear<IsReady>().post;
  hear<HasKept>();
  ask_for(9);
  ASSERT_TRUE(is_told("could not send 9.safetensors"));
  EXPECT_TRUE(hear<HasKept>().versions.empty());
  ask_for(9);
  EXPECT_TRUE(hear<HasKept>().versions.empty()) << "the server believed otherwise";
  say("checkpoint");
  EXPECT_EQ(hear<HasKept>().versions, (std::vector<std::int64_t>{7}));
  ask_for(7);
  EXPECT_EQ(hear<HasCheckpoint>().version, 7);
  const std::string all = told();
  EXPECT_EQ(all.find("could not send"), all.rfind("could not send")) << all;
}

TEST_F(KeeperTest, OfManyReportsTheNewestIsTold) {
  hold(begin(std::string(kReady) + R"(
for i in $(seq 1000); do echo "{\"event\": \"report\", \"version\": $i}"; done
)" + kListens));
  hear<IsReady>();
  int ticks = 0;
  int reports = 0;
  std::int64_t version = 0;
  EXPECT_TRUE(becomes([&] {
    on_loop([&] { keeper_->tick(); });
    ++ticks;
    while (has_heard<Tells>()) {
      version = hear<Tells>().report.version;
      ++reports;
    }
    return version == 1000;
  }));
  EXPECT_LE(reports, ticks);
}

TEST_F(KeeperTest, WhoLeavesDoesNotWaitForFiles) {
  hold(begin(std::string(kReady) + kListens));
  post_ = hear<IsReady>().post;
  server.reset();
  say("checkpoint");
  hear<HasKept>();
  ask_for(7);
  ASSERT_TRUE(is_told("could not send 7.safetensors"));
  std::promise<void> is_free;
  slow_->post([&] { is_free.set_value(); });
  on_loop([&] { keeper_->give_up_files(); });
  EXPECT_EQ(is_free.get_future().wait_for(kDeadline), std::future_status::ready);
}

TEST_F(KeeperTest, APlaceThatIsGoneIsAStageThatFailed) {
  const Assignment assignment = begin(std::string(kReady) + kListens);
  before_post_ = [this] { fs::remove_all(file("keeper") / "work"); };
  hold(assignment);
  EXPECT_FALSE(hear<HasFailed>().reason.empty());
}

TEST_F(KeeperTest, NumbersThatCannotBeAreMadeOnesThatTheServerTakes) {
  hold(begin(std::string(kReady) + R"(
echo '{"event": "report", "version": 1e300, "loss": -1e300, "memory_bytes": 1e18, "accuracy": 1e300}'
read word
echo '{"event": "report", "version": "x", "loss": null, "delay": [], "accuracy": true}'
)" + kListens));
  post_ = hear<IsReady>().post;
  const auto large = hear_while_ticking<Tells>().report;
  say("checkpoint");  // the next, please
  EXPECT_EQ(large.version, kLargestNumber);
  EXPECT_EQ(large.memory_bytes, kLargestNumber);
  const auto odd = hear_while_ticking<Tells>().report;
  EXPECT_EQ(odd.version, 0);
  EXPECT_EQ(odd.accuracy, -1.0);
}

TEST_F(KeeperTest, LinesThatMakeNoSenseArePassedOver) {
  hold(begin(R"(
echo garbage
echo '[]'
echo '{"event": 7}'
echo '{"event": "unknown"}'
echo '{"no": "event"}'
printf '\377\n'
printf '%050000d\n' 0 | tr 0 '['
)" + std::string(kReady) +
             kListens));
  EXPECT_NO_THROW(hear<IsReady>());
}

TEST_F(KeeperTest, AProgramThatFailsIsAStageThatFailed) {
  const Assignment assignment = begin("exit 3");
  hold(assignment);
  const auto failed = hear<HasFailed>();
  EXPECT_TRUE(has(failed.reason, "ended with exit code 3")) << failed.reason;
  EXPECT_FALSE(failed.is_memory);
  EXPECT_FALSE(failed.is_final);
  EXPECT_EQ(holds(), 0);
}

// The kernel counts those whom it kills for want of memory; where it does not, they may be among
// all that are killed.
TEST_F(KeeperTest, WhoIsKilledBySomebodyDidNotRunOutOfMemory) {
  hold(begin("kill -9 $$"));
  EXPECT_EQ(hear<HasFailed>().is_memory, !count_oom_kills().has_value());
}

TEST_F(KeeperTest, WhoTakesMoreMemoryThanIsLentIsEnded) {
  most_memory_ = 50'000'000;
  hold(begin(std::string(kReady) + "x=$(head -c 100000000 /dev/zero | tr '\\0' x)\n" + kListens));
  const auto failed = hear_while_ticking<HasFailed>();
  EXPECT_TRUE(failed.is_memory);
  EXPECT_TRUE(has(failed.reason, "of memory, and may take 50")) << failed.reason;
}

TEST_F(KeeperTest, WhoFillsTheDiskIsEnded) {
  most_memory_ = 10'000'000;
  hold(begin("head -c 100000000 /dev/zero > $data/junk\n" + std::string(kReady) + kListens));
  const auto failed = hear_while_ticking<HasFailed>();
  EXPECT_FALSE(failed.is_memory);
  EXPECT_TRUE(has(failed.reason, "of the disk, and may take 80")) << failed.reason;
}

TEST_F(KeeperTest, AProcessThatIsStoppedWhenItIsReadyIsFound) {
  silence_ = std::chrono::milliseconds(500);
  hold(begin(std::string(kReady) + "kill -STOP $$"));
  EXPECT_TRUE(has(hear_while_ticking<HasFailed>().reason, "says nothing any more"));
}

TEST_F(KeeperTest, AProcessThatIsStoppedBeforeItIsReadyIsFound) {
  silence_ = std::chrono::milliseconds(500);
  hold(begin("kill -STOP $$"));
  EXPECT_TRUE(has(hear_while_ticking<HasFailed>().reason, "says nothing any more"));
}

TEST_F(KeeperTest, AProcessThatHasMuchToReadFirstIsWaitedFor) {
  silence_ = std::chrono::milliseconds(500);
  hold(begin("end=$(($(date +%s) + 2)); while [ $(date +%s) -lt $end ]; do :; done\n" +
             std::string(kReady) + kListens));
  EXPECT_NO_THROW(hear_while_ticking<IsReady>());
}

TEST_F(KeeperTest, SaysWhomItsStageDoesNotReach) {
  const Assignment assignment =
      begin(std::string(kReady) + R"(echo '{"event": "unreached", "peer": "node_1", "reason": "no"}'
echo '{"event": "unreached", "peer": "requester", "reason": "no answer"}'
)" + kListens);
  hold(assignment);
  const auto unreached = hear<CannotReach>();
  EXPECT_EQ(unreached.peer, rita_.id()) << "node_1 is nobody of this line-up";
  EXPECT_EQ(unreached.reason, "no answer");
  EXPECT_EQ(unreached.post.epoch, assignment.epoch);
}

TEST_F(KeeperTest, AStageSaysItselfWhyItFails) {
  hold(begin(R"(echo '{"event": "failed", "reason": "no such operator", "is_final": true}'
)" + std::string(kListens)));
  const auto failed = hear<HasFailed>();
  EXPECT_EQ(failed.reason, "no such operator");
  EXPECT_TRUE(failed.is_final);
  EXPECT_EQ(failed.suspect, "");
}

TEST_F(KeeperTest, AStageSaysWhoIsToBlame) {
  hold(begin(R"(echo '{"event": "failed", "reason": "odd values", "suspect": "requester"}'
)" + std::string(kListens)));
  EXPECT_EQ(hear<HasFailed>().suspect, rita_.id());
}

TEST_F(KeeperTest, NobodyIsToBlameWhoIsNotOfItsLineup) {
  hold(begin(R"(echo '{"event": "failed", "reason": "odd values", "suspect": "node_77"}'
)" + std::string(kListens)));
  EXPECT_EQ(hear<HasFailed>().suspect, "");
}

TEST_F(KeeperTest, OptionsThatNobodyKnowsAreTheJobsFault) {
  hold(begin(kReady, R"({"identity": "/etc/passwd"})"));
  const auto failed = hear<HasFailed>();
  EXPECT_TRUE(has(failed.reason, "'identity'")) << failed.reason;
  EXPECT_TRUE(failed.is_final);
}

TEST_F(KeeperTest, WhatIsDroppedIsGone) {
  const Assignment assignment = begin(std::string(kReady) + kListens);
  hold(assignment);
  hear<IsReady>();
  on_loop([&] { keeper_->drop(assignment.seat.job + 1); });  // another's
  EXPECT_EQ(holds(), assignment.epoch);
  on_loop([&] { keeper_->drop(assignment.seat.job); });
  EXPECT_EQ(describe(), "waits for work");
  EXPECT_EQ(places(), 0U);
}

TEST_F(KeeperTest, TheSamePlaceInAnotherEpochGoesOnWithItsWeights) {
  Assignment assignment = begin(R"(
[ -f "$stage/submod_0_checkpoint.safetensors" ] && echo '{"event": "note", "text": "goes on"}'
)" + std::string(kReady) + kListens);
  hold(assignment);
  hear<IsReady>();
  EXPECT_FALSE(has(told(), "goes on"));
  assignment.epoch += 1;
  assignment.clusters[0].epoch += 1;
  assignment.origin = Origin::kKept;
  hold(assignment);
  EXPECT_EQ(hear<IsReady>().post.epoch, assignment.epoch);
  EXPECT_TRUE(is_told("goes on"));
  EXPECT_EQ(places(), 1U);
}

// The requester is away meanwhile: what was kept is not forgotten.
TEST_F(KeeperTest, WeightsThatWereKeptOutliveAWait) {
  Assignment assignment = begin(R"(
[ -f "$stage/submod_0_checkpoint.safetensors" ] && echo '{"event": "note", "text": "goes on"}'
)" + std::string(kReady) + kListens);
  hold(assignment);
  hear<IsReady>();
  assignment.epoch += 1;
  assignment.clusters[0].epoch += 1;
  assignment.origin = Origin::kKept;
  Assignment unfed = assignment;
  unfed.feed.reset();
  hold(unfed);
  EXPECT_TRUE(has(describe(), "waits for the requester's data"));
  hold(assignment);
  hear<IsReady>();
  EXPECT_TRUE(is_told("goes on"));
}

TEST_F(KeeperTest, WhoHasNoWeightsDoesNotBeginAfreshInstead) {
  Assignment assignment = begin(std::string(kReady) + kListens);
  assignment.origin = Origin::kKept;
  hold(assignment);
  EXPECT_TRUE(has(hear<HasFailed>().reason, "weights that were kept"));
  assignment.origin = Origin::kCheckpoint;
  assignment.epoch += 1;
  assignment.clusters[0].epoch += 1;
  hold(assignment);
  EXPECT_TRUE(has(hear<HasFailed>().reason, "a restore point"));
}

}  // namespace
}  // namespace ravnest::agent
