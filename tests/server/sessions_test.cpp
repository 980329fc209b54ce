// A provider's session, a requester's feed.

#include <thread>

#include "ravnest/control/reached.h"
#include "tests/server/world.h"

namespace ravnest::server {
namespace {

class Sessions : public World {
 protected:
  static std::string text_of(const ProviderWord& word) { return to_text(word); }
};

TEST_F(Sessions, WhoSaysHelloIsGreetedWithItsAddress) {
  const Person box = provider("box");
  const auto talk = box.attend();
  talk->say(text_of(hello()));
  const auto greeting = talk->hear<Greeting>();
  EXPECT_GT(greeting.session, 0);
  EXPECT_EQ(greeting.address, "127.0.0.1:9000");
  EXPECT_FALSE(greeting.is_relayed);
  EXPECT_EQ(presence_of(box, "box"), "present");
}

TEST_F(Sessions, WhoIsReachedIsNotRelayed) {
  const control::ReachTest test(0);
  Hello words = hello();
  words.reach = test.reach("");
  const Person box = provider("box");
  const auto talk = box.attend();
  talk->say(text_of(words));
  EXPECT_FALSE(talk->hear<Greeting>().is_relayed);
  words.reach.nonce = std::string(32, '0');  // somebody else listens there
  const auto other = box.attend();
  other->say(text_of(words));
  EXPECT_TRUE(other->hear<Greeting>().is_relayed);
}

// It could be a machine of the server's own network.
TEST_F(Sessions, WhoComesOverIpv6IsReached) {
  server.reset();
  start("[::1]:0");
  const control::ReachTest test(0);
  Hello words = hello();
  words.reach = test.reach("");
  const auto talk = provider("box").attend();
  talk->say(text_of(words));
  const auto greeting = talk->hear<Greeting>();
  EXPECT_FALSE(greeting.is_relayed);
  EXPECT_EQ(greeting.address, concat("[::1]:", test.port()));
}

TEST_F(Sessions, TheServerConnectsToNoHostOfTheMembersChoice) {
  relay::Nonce nonce{};
  nonce.fill(std::byte{0x11});
  const relay::Echo elsewhere("127.0.0.2:0", nonce);
  Hello words = hello();
  words.reach = {.host = "127.0.0.2",
                 .port = std::stoi(elsewhere.address().substr(elsewhere.address().rfind(':') + 1)),
                 .nonce = std::string(32, '1'),
                 .was_reached = false};
  const auto talk = provider("box").attend();
  talk->say(text_of(words));
  const auto greeting = talk->hear<Greeting>();
  EXPECT_TRUE(greeting.is_relayed);
  EXPECT_TRUE(greeting.address.starts_with("127.0.0.2:"));  // for peers, as it says
}

TEST_F(Sessions, AnotherVersionIsRefusedWithBothNamed) {
  Hello words = hello();
  words.protocol = 99;
  words.program = "9.9.9\x1b[31m";
  const auto talk = provider("box").attend();
  talk->say(text_of(words));
  const std::string reason = talk->ended();
  const std::string expected =
      concat("Expected protocol ", kControlProtocol, " of ravnest ", version());
  EXPECT_TRUE(has(reason, expected)) << reason;
  EXPECT_TRUE(has(reason, "got 99 of ravnest 9.9.9?[31m")) << reason;
  EXPECT_TRUE(talk->is_refused());
}

TEST_F(Sessions, HelloComesFirst) {
  const auto talk = provider("box").attend();
  talk->say(text_of(StillHere{}));
  EXPECT_TRUE(has(talk->ended(), "Expected hello first"));
}

TEST_F(Sessions, HelloComesOnce) {
  const Person box = provider("box");
  const auto talk = box.join();
  talk->say(text_of(hello()));
  EXPECT_TRUE(has(talk->ended(), "Expected hello once"));
  EXPECT_TRUE(becomes([&] { return presence_of(box, "box") == "away"; }));
}

TEST_F(Sessions, AHelloThatCannotBeIsRefusedAndTheServerStands) {
  const Person box = provider("box");
  std::vector<Hello> wrong(10, hello());
  wrong[0].reach.port = -1;
  wrong[1].reach.port = 70'000;
  wrong[2].reach.host = "a b";
  wrong[3].reach.host = std::string(300, 'a');
  wrong[4].reach.nonce = "12";
  wrong[5].reach.nonce = std::string(32, 'x');
  wrong[6].measured.ram_gb = -1.0;
  wrong[7].measured.mbps = 0.0;
  wrong[8].measured.threads = 0;
  wrong[9].measured.links = {{"nobody", {}}};
  for (const Hello& words : wrong) {
    const auto talk = box.attend();
    talk->say(text_of(words));
    EXPECT_NE(talk->ended(), "") << text_of(words);
    EXPECT_TRUE(talk->is_refused()) << text_of(words);
  }
  EXPECT_NO_THROW(box.join());
}

TEST_F(Sessions, WhoHangsUpIsLostAtOnce) {
  const Person box = provider("box");
  const auto talk = box.join();
  talk->hang_up();
  EXPECT_TRUE(becomes([&] { return presence_of(box, "box") == "away"; }));
}

TEST_F(Sessions, WhoSaysNothingForLongIsLost) {
  const Person box = provider("box");
  const auto talk = box.join();
  const std::string reason = talk->ended();
  EXPECT_TRUE(has(reason, "nothing was heard of it for 5 s")) << reason;
  EXPECT_FALSE(talk->is_refused());  // it may come back
  EXPECT_EQ(presence_of(box, "box"), "away");
  EXPECT_NO_THROW(box.join());
}

TEST_F(Sessions, ANewSessionOfTheSameMemberTakesThePlaceOfTheOlder) {
  const Person box = provider("box");
  const auto first = box.join();
  const auto second = box.join();
  EXPECT_TRUE(has(first->ended(), "has joined anew"));
  EXPECT_EQ(presence_of(box, "box"), "present");
  second->say(text_of(WantsToLeave{}));
  second->hear<MayGo>();
}

TEST_F(Sessions, AWordAboutAStageThatItDoesNotHoldChangesNothing) {
  const Person box = provider("box");
  const Person rita = requester("rita");
  rita.client->upload(write_file(file("weights"), "weights"));
  const auto talk = box.join();
  const Post post{.seat = {.job = 1, .cluster = 1, .stage = 0}, .epoch = 1};
  talk->say(text_of(IsReady{post}));
  talk->say(text_of(Tells{post, {}}));
  talk->say(text_of(HasFailed{.post = post, .reason = "no", .is_memory = true, .is_final = true}));
  talk->say(text_of(CannotReach{.post = post, .peer = rita.id(), .reason = "no"}));
  talk->say(text_of(HasResult{.post = post, .artifact = hash_of("weights")}));
  talk->say(text_of(WantsToLeave{}));
  talk->hear<MayGo>();
}

TEST_F(Sessions, ANewcomerIsToldWhomToMeasureAndSaysWhatItFound) {
  const Person box = provider("box");
  const Person other = provider("other");
  const Person rita = requester("rita");
  const auto first = other.join();
  first->say(text_of(IsMeasurable{std::string(32, 'a')}));
  // What is handled in order: the secret is known before anybody else comes.
  first->say(text_of(HasMeasured{{{rita.id(), {.mbps = 1.0, .latency_ms = 1.0}}}}));
  const auto links_of = [&](const std::string& name) {
    const nlohmann::json view = rita.ask(WantsView{});
    for (const auto& each : view.at("providers")) {
      if (each.at("name") == name) {
        return each.at("links");
      }
    }
    return nlohmann::json();
  };
  ASSERT_TRUE(becomes([&] { return links_of("other").size() == 1; }));
  const auto second = box.join();
  second->say(text_of(IsMeasurable{std::string(32, 'b')}));
  const auto measure = second->hear<Measure>();
  ASSERT_EQ(measure.neighbours.size(), 1U);
  EXPECT_EQ(measure.neighbours[0].provider, other.id());
  EXPECT_EQ(measure.neighbours[0].address, "127.0.0.1:9000");
  EXPECT_EQ(measure.neighbours[0].probe, std::string(32, 'a'));
  // What cannot be is passed over.
  second->say(text_of(HasMeasured{{{"nobody", {.mbps = 1.0, .latency_ms = 1.0}}}}));
  second->say(text_of(IsMeasurable{"short"}));
  second->say(text_of(HasMeasured{{{other.id(), {.mbps = 500.0, .latency_ms = 2.0}}}}));
  ASSERT_TRUE(becomes([&] { return links_of("box").size() == 1; }));
  EXPECT_EQ(links_of("box").at(0).at("name"), "other");
  EXPECT_EQ(links_of("box").at(0).at("mbps"), 500.0);
  // As the planner reads it.
  const nlohmann::json pool = rita.ask(WantsPool{});
  ASSERT_EQ(pool.size(), 2U);
  const bool is_box_first = pool.at("0").at("name") == "box";
  const auto& benchmarks = pool.at(is_box_first ? "0" : "1").at("benchmarks");
  EXPECT_EQ(benchmarks.at("links"),
            nlohmann::json({{is_box_first ? "1" : "0", {{"bandwidth", 500.0}, {"latency", 2.0}}}}));
  EXPECT_FALSE(pool.at(is_box_first ? "1" : "0").at("benchmarks").contains("links"))
      << "a requester is no node";
}

TEST_F(Sessions, WhatIsNoNameOfAFileIsNoCheckpoint) {
  for (const Hash& hash : {Hash("../server.json"), Hash()}) {
    const auto talk = provider("box-" + std::to_string(hash.size())).join();
    talk->say(text_of(HasCheckpoint{.post = {}, .version = 1, .artifact = hash}));
    EXPECT_TRUE(has(talk->ended(), "the name of a file")) << hash;
  }
}

// Holds the only stage of rita's job, and trains.
class Checkpoints : public World {
 protected:
  Checkpoints() {
    talk_->say(to_text(ProviderWord(IsReady{post_})));
    talk_->hear<Begin>();
  }
  std::filesystem::path artifact(const std::string& text) const {
    return data() / "artifacts" / hash_of(text);
  }
  void say_sent(std::int64_t version, const std::string& text) {
    box_.client->upload(write_file(file(text), text));
    talk_->say(to_text(ProviderWord(HasCheckpoint{post_, version, hash_of(text)})));
  }
  nlohmann::json restore_point() const { return rita_.ask(WantsJobView{job_}).at("restore_point"); }

  const Person rita_ = requester("rita");
  const Person box_ = provider("box");
  const std::unique_ptr<Talk<ServerWord>> talk_ = box_.join();
  const JobId job_ = submit(rita_);
  const Hold hold_ = talk_->hear<Hold>();
  const Post post_{hold_.assignment.seat, hold_.assignment.epoch};
};

TEST_F(Checkpoints, OnlyWhatIsAskedForIsKept) {
  talk_->say(to_text(ProviderWord(HasKept{post_, {8, 10}})));
  EXPECT_EQ(talk_->hear<Send>().version, 10);
  say_sent(10, "ten");
  ASSERT_TRUE(becomes([&] { return !restore_point().is_null(); }));
  EXPECT_EQ(restore_point().at("version"), 10);
  say_sent(8, "eight");
  say_sent(99, "made up");
  EXPECT_TRUE(becomes([&] {
    return !std::filesystem::exists(artifact("eight")) &&
           !std::filesystem::exists(artifact("made up"));
  }));
  EXPECT_TRUE(std::filesystem::exists(artifact("ten")));
}

TEST_F(Checkpoints, WhatAnotherSentIsNotDroppedByWhoCallsItItsOwn) {
  rita_.client->upload(write_file(file("hers"), "hers"));
  talk_->say(to_text(ProviderWord(HasCheckpoint{post_, 5, hash_of("hers")})));
  say_sent(5, "refused");
  EXPECT_TRUE(becomes([&] { return !std::filesystem::exists(artifact("refused")); }));
  EXPECT_TRUE(std::filesystem::exists(artifact("hers")));
}

TEST_F(Checkpoints, AJobThatWasCancelledGivesItsRestorePoint) {
  EXPECT_TRUE(has(refusal_of([&] { rita_.client->ask(WantsResults{job_}); }), "a restore point"));
  talk_->say(to_text(ProviderWord(HasKept{post_, {10}})));
  talk_->hear<Send>();
  say_sent(10, "ten");
  ASSERT_TRUE(becomes([&] { return !restore_point().is_null(); }));
  rita_.client->ask(WantsCancel{job_});
  const Results results = read_results(rita_.client->ask(WantsResults{job_}));
  ASSERT_EQ(results.pieces.size(), 1U);
  EXPECT_EQ(results.pieces[0].piece.artifact, hash_of("ten"));
  EXPECT_FALSE(results.pieces[0].files.empty());
  EXPECT_NO_THROW(rita_.client->download(hash_of("ten"), file("back")));
  const Person carl = requester("carl");
  EXPECT_NE(refusal_of([&] { carl.client->download(hash_of("ten"), file("stolen")); }), "");
}

// Two clusters may have the same file: what one sent is dropped when a newer restore point is
// there.
TEST_F(Sessions, ACheckpointThatWasDroppedMeanwhileIsPassedOver) {
  const auto talk = provider("box").join();
  talk->say(text_of(HasCheckpoint{.post = {}, .version = 1, .artifact = hash_of("dropped")}));
  talk->say(text_of(WantsToLeave{}));
  talk->hear<MayGo>();
}

// The provider comes back, and sends it again.
TEST_F(Sessions, AResultThatWasDroppedMeanwhileIsWantedAgain) {
  const auto talk = provider("box").join();
  talk->say(text_of(HasResult{.post = {}, .artifact = hash_of("dropped")}));
  EXPECT_TRUE(has(talk->ended(), "to come again"));
  EXPECT_FALSE(talk->is_refused());
}

TEST_F(Sessions, AFeedHearsHowItsJobStandsUntilItIsOver) {
  const Person rita = requester("rita");
  const JobId job = submit(rita);
  const auto feed = rita.feed(job);
  EXPECT_EQ(feed->hear<Standing>().phase, Phase::kQueued);
  rita.client->ask(WantsCancel{job});
  EXPECT_EQ(feed->hear<Standing>().phase, Phase::kCancelled);
  EXPECT_EQ(feed->ended(), "");
  const auto late = rita.feed(job);  // is told how it ended
  EXPECT_EQ(late->hear<Standing>().phase, Phase::kCancelled);
  EXPECT_EQ(late->ended(), "");
}

TEST_F(Sessions, AFeedIsForTheJobsRequester) {
  const JobId job = submit(requester("rita"));
  const auto feed = requester("carl").feed(job);
  EXPECT_TRUE(has(feed->ended(), "a job of yours"));
  EXPECT_TRUE(feed->is_refused());
}

// A requester that lost its connection comes back before the server has noticed.
TEST_F(Sessions, AFeedThatWasReplacedTakesNothingWithIt) {
  const Person rita = requester("rita");
  const JobId job = submit(rita);
  const auto is_fed = [&] { return rita.ask(WantsJobView{job}).at("is_fed").get<bool>(); };
  const auto first = rita.feed(job);
  first->hear<Standing>();
  const auto second = rita.feed(job);
  second->hear<Standing>();
  EXPECT_TRUE(has(first->ended(), "offered by another now"));
  EXPECT_TRUE(first->is_refused());
  EXPECT_TRUE(is_fed());
  second->hang_up();
  EXPECT_TRUE(becomes([&] { return !is_fed(); }));
}

}  // namespace
}  // namespace ravnest::server
