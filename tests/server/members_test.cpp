// Who comes in, and what each may ask.

#include "tests/server/world.h"

namespace ravnest::server {
namespace {

class Members : public World {};

TEST_F(Members, ATokenIsGoodForItsUsesAlone) {
  const std::string token = server->make_token(Role::kProvider, 2, 60);
  EXPECT_EQ(enrol(token, "one").certificate.member().role, trust::Role::kProvider);
  EXPECT_NO_THROW(enrol(token, "two"));
  EXPECT_TRUE(has(refusal_of([&] { enrol(token, "three"); }), "not used up"));
}

TEST_F(Members, ATokenOfAnotherServerIsNotShownToThisOne) {
  const trust::Token token = trust::make_token(
      trust::Role::kProvider,
      trust::Authority::make(std::chrono::system_clock::now()).certificate().fingerprint());
  EXPECT_NE(refusal_of([&] { enrol(trust::to_text(token), "one"); }), "");
}

TEST_F(Members, ATokenThatNobodyMadeIsRefused) {
  const trust::Token token =
      trust::make_token(trust::Role::kProvider, authority().certificate().fingerprint());
  EXPECT_TRUE(
      has(refusal_of([&] { enrol(trust::to_text(token), "one"); }), "a token that is known"));
}

// The role of the certificate is the server's word, not the token's text.
TEST_F(Members, ATokenGivesTheRoleThatItWasMadeFor) {
  const trust::Token token = trust::parse_token(server->make_token(Role::kRequester, 1, 60));
  const trust::Token forged{
      .role = trust::Role::kProvider, .secret = token.secret, .fingerprint = token.fingerprint};
  std::optional<trust::Identity> identity;
  const std::string refusal = refusal_of([&] { identity = enrol(trust::to_text(forged), "one"); });
  EXPECT_TRUE(!refusal.empty() || identity->certificate.member().role == trust::Role::kRequester);
}

TEST_F(Members, ATokenExpires) {
  const Person boss = owner();
  for (const std::int64_t minutes : {std::int64_t{0}, std::int64_t{-1}, 60 * 24 * 366 + 1L}) {
    EXPECT_TRUE(
        has(refusal_of([&] { boss.client->ask(WantsToken{.uses = 1, .minutes = minutes}); }),
            "1 minute to a year"));
  }
  for (const std::int64_t uses : {std::int64_t{0}, std::int64_t{-1}}) {
    EXPECT_TRUE(has(refusal_of([&] { boss.client->ask(WantsToken{.uses = uses}); }), "one use"));
  }
}

TEST_F(Members, ANameIsBorneByOne) {
  provider("box");
  EXPECT_TRUE(has(refusal_of([&] { provider("box"); }), "that nobody has"));
  for (const char* name : {"", "-box", "a b", "../box", "böx"}) {
    EXPECT_NE(refusal_of([&] { provider(name); }), "") << name;
  }
}

TEST_F(Members, WhatIsTheOwnersToAskIsForNobodyElse) {
  const Person box = provider("box");
  const Person rita = requester("rita");
  const std::vector<Question> questions{WantsToken{}, WantsMemberGone{"box"},
                                        WantsPause{.member = "rita", .is_paused = true}};
  for (const Question& question : questions) {
    for (const Person* person : {&box, &rita}) {
      EXPECT_TRUE(has(refusal_of([&] { person->client->ask(question); }), "This is not for a"))
          << to_text(question);
    }
  }
  EXPECT_EQ(enrol(owner().ask(WantsToken{}).at("token"), "new").certificate.member().role,
            trust::Role::kProvider);
}

TEST_F(Members, AProviderPausesItselfAndTheOwnerAnybody) {
  const Person box = provider("box");
  const Person boss = owner();
  EXPECT_NO_THROW(box.client->ask(WantsPause{.member = "", .is_paused = true}));
  EXPECT_NO_THROW(boss.client->ask(WantsPause{.member = "box", .is_paused = false}));
  EXPECT_NO_THROW(boss.client->ask(WantsPause{.member = box.id(), .is_paused = true}));
  EXPECT_NE(refusal_of([&] { boss.client->ask(WantsPause{}); }), "");  // it is no provider
  EXPECT_NE(refusal_of([&] { requester("rita").client->ask(WantsPause{}); }), "");
  EXPECT_NE(refusal_of([&] { boss.client->ask(WantsMemberGone{"nobody"}); }), "");
}

TEST_F(Members, AJobIsItsRequestersAlone) {
  const Person rita = requester("rita");
  const Person carl = requester("carl");
  const JobId job = submit(rita);
  EXPECT_TRUE(has(refusal_of([&] { carl.client->ask(WantsResults{job}); }), "a job of yours"));
  EXPECT_TRUE(has(refusal_of([&] { carl.client->ask(WantsCancel{job}); }), "a job of yours"));
  EXPECT_TRUE(has(refusal_of([&] { carl.client->ask(WantsForget{job}); }), "a job of yours"));
  EXPECT_TRUE(has(refusal_of([&] { rita.client->ask(WantsResults{job}); }), "a job that is done"));
  const Person box = provider("box");
  EXPECT_TRUE(has(refusal_of([&] { box.client->ask(WantsCancel{job}); }), "This is not for a"));
  EXPECT_TRUE(has(refusal_of([&] { box.client->ask(WantsResults{job}); }), "This is not for a"));
  EXPECT_NO_THROW(owner().client->ask(WantsCancel{job}));
  EXPECT_EQ(phase_of(rita, job), "cancelled");
  for (const Person* stranger : {&carl, &box}) {
    EXPECT_TRUE(has(refusal_of([&] { phase_of(*stranger, job); }), "a job of yours"));
    const nlohmann::json seen = stranger->ask(WantsView{}).at("jobs").at(0);
    EXPECT_EQ(seen.at("phase"), "cancelled");
    EXPECT_EQ(seen.at("reason"), "");
    EXPECT_EQ(seen.at("requester"), "");
  }
  EXPECT_NO_THROW(rita.client->ask(WantsForget{job}));
}

TEST_F(Members, OnlyARequesterSubmitsAndOnlyWhatItSent) {
  const Person rita = requester("rita");
  const WantsJob job{.name = "digits", .program = hash_of("never sent"), .options = {}};
  EXPECT_TRUE(has(refusal_of([&] { rita.client->ask(job); }), "that was sent before"));
  for (const char* name : {"", "../model.pt2", "server.json"}) {
    const WantsJob odd{.name = "digits", .program = name, .options = {}};
    EXPECT_TRUE(has(refusal_of([&] { rita.client->ask(odd); }), "that was sent before"));
  }
  EXPECT_TRUE(has(refusal_of([&] { provider("box").client->ask(job); }), "This is not for a"));
  EXPECT_TRUE(has(refusal_of([&] { owner().client->ask(job); }), "This is not for a"));
}

TEST_F(Members, AJobThatIsNotThereIsASentenceAndTheServerStands) {
  const Person rita = requester("rita");
  for (const JobId job : {JobId{0}, JobId{-1}, JobId{77}}) {
    EXPECT_NE(refusal_of([&] { rita.client->ask(WantsJobView{job}); }), "");
    EXPECT_NE(refusal_of([&] { rita.client->ask(WantsResults{job}); }), "");
    EXPECT_NE(refusal_of([&] { rita.client->ask(WantsCancel{job}); }), "");
    EXPECT_NE(refusal_of([&] { rita.client->ask(WantsForget{job}); }), "");
  }
  EXPECT_GT(rita.ask(WantsTime{}).at("seconds"), 0);
}

TEST_F(Members, WhoWasRemovedIsRefusedEverywhere) {
  const Person box = provider("box");
  const Person rita = requester("rita");
  const JobId job = submit(rita);
  const auto session = box.join();
  const auto feed = rita.feed(job);
  feed->hear<Standing>();
  const Person boss = owner();
  boss.client->ask(WantsMemberGone{"box"});
  boss.client->ask(WantsMemberGone{"rita"});
  EXPECT_NE(session->ended(), "");
  feed->say(to_text(RequesterWord(StillHere{})));
  EXPECT_NE(feed->ended(), "it has not ended");
  EXPECT_EQ(boss.ask(WantsJobView{job}).at("phase"), "cancelled");
  for (const Person* gone : {&box, &rita}) {
    EXPECT_TRUE(has(refusal_of([&] { gone->client->ask(WantsTime{}); }), "one that was removed"));
    EXPECT_TRUE(has(refusal_of([&] { gone->client->upload(write_file(file("a"), "some bytes")); }),
                    "one that was removed"));
    EXPECT_TRUE(has(refusal_of([&] { gone->client->download(hash_of("b"), file("b")); }),
                    "one that was removed"));
    EXPECT_TRUE(has(refusal_of([&] { gone->client->measure(std::chrono::seconds(1)); }),
                    "one that was removed"));
  }
  const auto again = box.attend();
  again->say(to_text(ProviderWord(hello())));
  EXPECT_TRUE(has(again->ended(), "one that was removed"));
  EXPECT_TRUE(again->is_refused());
}

TEST_F(Members, ThePoolIsANodeConfigurationOfThoseWhoAreThere) {
  const Person box = provider("box");
  const auto session = box.join();
  const nlohmann::json pool = box.ask(WantsPool{});
  ASSERT_EQ(pool.size(), 1U);
  EXPECT_EQ(pool.at("0").at("name"), "box");
  EXPECT_EQ(pool.at("0").at("IP"), "127.0.0.1:9000");
  EXPECT_EQ(pool.at("0").at("benchmarks").at("ram"), 8.0);
}

}  // namespace
}  // namespace ravnest::server
