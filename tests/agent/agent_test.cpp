// A machine that is lent, from its token to its leave, with a script in place of the program that
// holds a stage.

#include "ravnest/agent/agent.h"

#include <csignal>

#include "ravnest/base/address.h"
#include "ravnest/control/reached.h"
#include "ravnest/relay/reach.h"
#include "ravnest/trust/token.h"
#include "tests/agent/fake_provider.h"
#include "tests/base/has.h"
#include "tests/server/world.h"

namespace ravnest::agent {
namespace {

using namespace coordinator;

class AgentTest : public server::World {
 protected:
  AgentTest() { std::signal(SIGPIPE, SIG_IGN); }

  AgentOptions options(const std::string& body) {
    return {.server = server->address(),
            .data = file("agent"),
            .name = "box",
            .token = server->make_token(Role::kProvider, 1, 60),
            .ram_gb = 1.0,
            .threads = 2,
            .host = "",
            .port = 0,
            .program = write_fake_provider(file("provider.sh"), body),
            .tell = [](const std::string&) {}};
  }
  // Ticks until it is so.
  bool ticks_until(Agent& agent, const std::function<bool()>& is_so) const {
    return becomes([&] { return agent.tick() && is_so(); });
  }
  bool is_present() const { return presence_of(owner(), "box") == "present"; }
  std::vector<nlohmann::json> links() const {
    std::vector<nlohmann::json> all;
    const nlohmann::json view = owner().ask(WantsView{});
    for (const auto& provider : view.at("providers")) {
      all.insert(all.end(), provider.at("links").begin(), provider.at("links").end());
    }
    return all;
  }
  std::size_t count_links() const { return links().size(); }
  // Where the box says that it is.
  int port() const {
    const std::string address = owner().ask(WantsView{}).at("providers").at(0).at("address");
    return std::stoi(address.substr(address.rfind(':') + 1));
  }
  static bool is_taken(int port) {
    try {
      const relay::Echo echo(concat(every_host(), ":", port), {});
      return false;
    } catch (const Error&) {
      return true;
    }
  }
};

const std::string kTrains = std::string(kReady) + R"(
echo '{"event": "report", "version": 3, "loss": 0.5}'
echo trained > "$stage/submod_0.safetensors"
echo '{"event": "saved"}'
)";

TEST_F(AgentTest, JoinsAndLeaves) {
  Agent agent(options(kListens));
  EXPECT_EQ(agent.measured().gflops, 5.0);
  EXPECT_EQ(agent.measured().ram_gb, 1.0);
  EXPECT_EQ(agent.measured().threads, 2);
  EXPECT_GT(agent.measured().mbps, 0.0);
  ASSERT_TRUE(ticks_until(agent, [&] { return is_present(); }));
  ASSERT_TRUE(ticks_until(agent, [&] { return agent.describe() == "waits for work"; }));
  agent.leave();
  EXPECT_TRUE(becomes([&] { return !agent.tick(); }));
}

TEST_F(AgentTest, HoldsAStageToItsEndAndStaysForTheNext) {
  Agent agent(options(kTrains));
  const server::Person rita = requester("rita");
  for (int i = 0; i < 2; ++i) {
    const JobId job = submit(rita);
    const auto feed = rita.feed(job);
    ASSERT_TRUE(ticks_until(agent, [&] { return phase_of(rita, job) == "done"; }));
    ASSERT_TRUE(ticks_until(agent, [&] { return agent.describe() == "waits for work"; }));
  }
}

// It keeps version 7 whenever it is asked: the second time the server has it.
TEST_F(AgentTest, HandsOverAtOnceWhereNothingWasLearnedSinceTheRestorePoint) {
  Agent agent(options(std::string(kReady) + kListens));
  const server::Person rita = requester("rita");
  const JobId job = submit(rita);
  const auto feed = rita.feed(job);
  const auto view = [&] { return rita.ask(WantsJobView{job}); };
  ASSERT_TRUE(ticks_until(agent, [&] { return view().at("phase") == "running"; }));
  agent.keep_checkpoint();
  ASSERT_TRUE(ticks_until(agent, [&] { return !view().at("restore_point").is_null(); }));
  agent.leave();
  const auto is_handed_over = [&] {
    return has(view().at("notes").dump(), "box has handed over stage 0");
  };
  EXPECT_TRUE(becomes([&] { return !agent.tick() || is_handed_over(); }));
  EXPECT_TRUE(is_handed_over());
}

TEST_F(AgentTest, MeasuresItsPeersWhileItHoldsNoStage) {
  AgentOptions other = options(kListens);
  other.data = file("other");
  other.name = "other";
  Agent first(options(kListens));
  ASSERT_TRUE(ticks_until(first, [&] { return is_present(); }));
  Agent second(other);
  ASSERT_TRUE(ticks_until(second, [&] { return first.tick() && count_links() == 1; }));
  EXPECT_GT(links()[0].at("mbps"), 0.0);
  EXPECT_GE(links()[0].at("latency_ms"), 0.0);
}

TEST_F(AgentTest, ThePortIsTheStagesWhileThereIsOne) {
  Agent agent(options(std::string(kReady) + kListens));
  ASSERT_TRUE(ticks_until(agent, [&] { return is_present() && is_taken(port()); }));
  const server::Person rita = requester("rita");
  const JobId job = submit(rita);
  const auto feed = rita.feed(job);
  ASSERT_TRUE(ticks_until(agent, [&] { return phase_of(rita, job) == "running"; }));
  EXPECT_FALSE(is_taken(port())) << "its stage could not listen there";
  rita.client->ask(WantsCancel{job});
  EXPECT_TRUE(ticks_until(agent, [&] { return is_taken(port()); }));
}

TEST_F(AgentTest, OnTheUsersOwnMachineNothingIsMeasured) {
  AgentOptions local = options(kListens);
  local.is_local = true;
  Agent agent(local);
  ASSERT_TRUE(ticks_until(agent, [&] { return agent.describe() == "waits for work"; }));
  EXPECT_FALSE(is_taken(port()));
}

TEST_F(AgentTest, ComesBackToAServerThatWasAway) {
  const std::string address = server->address();
  Agent agent(options(std::string(kReady) + kListens));
  const server::Person rita = requester("rita");
  const JobId job = submit(rita);
  auto feed = rita.feed(job);
  ASSERT_TRUE(ticks_until(agent, [&] { return phase_of(rita, job) == "running"; }));
  const auto epoch_of = [&](const server::Person& person) {
    return person.ask(WantsJobView{job}).at("clusters").at(0).at("epoch");
  };
  const auto epoch = epoch_of(rita);
  server.reset();
  feed.reset();
  ASSERT_TRUE(ticks_until(agent, [&] { return has(agent.describe(), "the server is away"); }));
  start(address);
  ASSERT_TRUE(ticks_until(agent, [&] { return is_present(); }));
  const server::Person back = again(rita);
  EXPECT_EQ(phase_of(back, job), "running");
  EXPECT_EQ(epoch_of(back), epoch);  // nobody was lost
  // Its identity is kept: no token is needed again.
  EXPECT_TRUE(std::filesystem::exists(file("agent") / "identity.pem"));
}

TEST_F(AgentTest, WhoIsRemovedHearsIt) {
  Agent agent(options(kListens));
  ASSERT_TRUE(ticks_until(agent, [&] { return is_present(); }));
  owner().client->ask(WantsMemberGone{"box"});
  std::string reason;
  EXPECT_TRUE(becomes([&] {
    reason = server::refusal_of([&] { agent.tick(); });
    return !reason.empty();
  }));
  EXPECT_TRUE(has(reason, "one that was removed")) << reason;
}

// The old identity is of nobody whom the new server knows.
TEST_F(AgentTest, ATokenOfAnotherServerEnrolsAnew) {
  static_cast<void>(Agent(options(kListens)));
  server.reset();
  std::filesystem::remove_all(data());
  start();
  {
    Agent agent(options(kListens));
    EXPECT_TRUE(ticks_until(agent, [&] { return is_present(); }));
  }
  // Nor does an old token stop who has a good identity.
  std::string said;
  AgentOptions stale = options(kListens);
  stale.token = trust::to_text(trust::make_token(trust::Role::kProvider, {}));
  stale.tell = [&](const std::string& line) { said += line; };
  Agent agent(stale);
  EXPECT_TRUE(has(said, "the token is of no use")) << said;
  EXPECT_TRUE(ticks_until(agent, [&] { return is_present(); }));
}

TEST_F(AgentTest, NeedsATokenForAProvider) {
  AgentOptions wrong = options(kListens);
  wrong.token = server->make_token(Role::kRequester, 1, 60);
  EXPECT_TRUE(has(server::refusal_of([&] { const Agent agent(wrong); }), "a token for a provider"));
  wrong.token.reset();
  EXPECT_TRUE(has(server::refusal_of([&] { const Agent agent(wrong); }), "expected --token"));
}

// What an agent that cannot be says of it.
std::string error_of(const AgentOptions& options) {
  try {
    const Agent agent(options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_F(AgentTest, AFolderIsForOne) {
  const Agent agent(options(kListens));
  EXPECT_TRUE(has(error_of(options(kListens)), "is in use by another"));
}

TEST_F(AgentTest, DoesNotEnrolWhereItsPortIsTaken) {
  const control::ReachTest taken(0);
  AgentOptions wrong = options(kListens);
  wrong.port = taken.port();
  EXPECT_TRUE(has(error_of(wrong), "is taken"));
  EXPECT_FALSE(std::filesystem::exists(wrong.data / "identity.pem"));
}

TEST_F(AgentTest, AProgramThatDoesNotTellItsSpeedIsAnError) {
  AgentOptions wrong = options(kListens);
  wrong.program = {"/bin/sh", "-c", "echo nothing", "--"};
  EXPECT_THROW(const Agent agent(wrong), Error);
}

}  // namespace
}  // namespace ravnest::agent
