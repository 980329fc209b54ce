// The server ends and is started again with the same folder; or cannot go on.

#include <sys/resource.h>

#include <csignal>

#include "tests/server/world.h"

namespace ravnest::server {
namespace {

class Restart : public World {};

TEST_F(Restart, MembersJobsAndTokensAreStillThere) {
  const std::string token = server->make_token(Role::kProvider, 2, 60);
  const Person box{server->address(), enrol(token, "box")};
  const Person rita = requester("rita");
  const JobId job = submit(rita);
  restart();
  EXPECT_NO_THROW(enrol(token, "second"));
  EXPECT_TRUE(has(refusal_of([&] { enrol(token, "third"); }), "not used up"));
  EXPECT_NO_THROW(again(box).join());
  const Person back = again(rita);
  EXPECT_EQ(back.ask(WantsJobView{job}).at("name"), "digits");
  EXPECT_EQ(submit(back), job + 1);
}

TEST_F(Restart, WhoDidNotHearTheAnswerGetsTheSameJob) {
  const Person rita = requester("rita");
  graph::write_pt2(package::make_program(), file("model.pt2"));
  const WantsJob job{.name = "digits",
                     .program = rita.client->upload(file("model.pt2")),
                     .options = {},
                     .key = "k1"};
  const JobId id = rita.ask(job).at("job");
  restart();
  EXPECT_EQ(again(rita).ask(job).at("job"), id);
}

TEST_F(Restart, WhoHeldAStageGoesOnWithIt) {
  const Person rita = requester("rita");
  const Person box = provider("box");
  const JobId job = submit(rita);
  Assignment held;
  {
    const auto talk = box.join();
    held = talk->hear<Hold>().assignment;
    talk->say(to_text(ProviderWord(IsReady{{held.seat, held.epoch}})));
    talk->hear<Begin>();
    server.reset();
    EXPECT_NE(talk->ended(), "");
    EXPECT_FALSE(talk->is_refused());
  }
  start();
  Hello words = hello();
  words.holds = held.epoch;
  const Person back = again(box);
  const auto talk = back.join(words);
  const Assignment still = talk->hear<Hold>().assignment;
  EXPECT_EQ(still.epoch, held.epoch);
  EXPECT_EQ(still.seat, held.seat);
  talk->say(to_text(ProviderWord(IsReady{{held.seat, held.epoch}})));
  EXPECT_TRUE(becomes([&] { return phase_of(back, job) == "running"; }));
}

TEST_F(Restart, TwoServersDoNotShareAFolder) { EXPECT_ANY_THROW(start()); }

TEST_F(Restart, ServerJsonSaysWhereItIs) {
  std::ifstream file(data() / "server.json");
  EXPECT_EQ(nlohmann::json::parse(file).at("address"), server->address());
}

// Whatever waits for it is told, and it can be ended.
TEST_F(Restart, AServerWhoseLogCannotBeWrittenAcknowledgesNothing) {
  const Person box = provider("box");
  const Person rita = requester("rita");
  const auto talk = box.join();
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit nothing{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &nothing);
  EXPECT_ANY_THROW(box.client->ask(WantsPause{}));
  const std::string why = wait_until_broken();
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_NE(why, "");
  EXPECT_THROW(box.client->ask(WantsTime{}), Error);
  EXPECT_THROW(rita.client->upload(write_file(file("a"), "bytes")), Error);
  const auto late = box.attend();
  late->say(to_text(ProviderWord(hello())));
  EXPECT_NE(late->ended(), "");
  EXPECT_FALSE(late->is_refused());  // it may come back
  talk->say(to_text(ProviderWord(StillHere{})));
  EXPECT_NE(talk->ended(), "");
  restart();
  const nlohmann::json view = owner().ask(WantsView{});
  EXPECT_EQ(view.at("providers").at(0).at("is_paused"), false);
}

}  // namespace
}  // namespace ravnest::server
