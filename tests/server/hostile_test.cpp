// What connects and means no good. Afterwards an honest call is served.

#include <list>

#include "ravnest/server/turnstile.h"
#include "tests/server/world.h"
#include "tests/transport/tcp_client.h"

namespace ravnest::server {
namespace {

class Hostile : public World {
 protected:
  void TearDown() override { EXPECT_GT(again(honest_).ask(WantsTime{}).at("seconds"), 0); }

  const Person honest_ = provider("honest");
};

TEST_F(Hostile, ConnectionsThatSayNothing) {
  std::list<transport::TcpClient> silent;
  for (int i = 0; i < 300; ++i) {
    silent.emplace_back(server->address());
  }
  EXPECT_NO_THROW(provider("box").join());
}

TEST_F(Hostile, BytesThatAreNotTls) {
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(100'000, '\0'),
        std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), std::string("\x16\x03\x01\xff\xff", 5)}) {
    const transport::TcpClient client(server->address());
    client.write(bytes);
  }
}

TEST_F(Hostile, WordsThatAreNone) {
  const std::string large = "{\"word\":\"" + std::string(3 << 20, 'a') + "\"}";
  for (const std::string& text :
       {std::string(), std::string("garbage"), std::string("\0\xFF", 2), std::string("{}"),
        std::string(R"({"word":"begin"})"), std::string(1 << 20, '['), large}) {
    const auto talk = honest_.attend();
    talk->say(text);
    EXPECT_TRUE(has(talk->ended(), "refused")) << text.substr(0, 40);
    EXPECT_TRUE(talk->is_refused());
  }
}

TEST_F(Hostile, GarbageInTheMiddleOfASession) {
  const auto talk = honest_.join();
  talk->say("garbage");
  EXPECT_TRUE(has(talk->ended(), "expected JSON"));
  EXPECT_TRUE(becomes([&] { return presence_of(honest_, "honest") == "away"; }));
}

TEST_F(Hostile, WordsThatAreTooLarge) {
  const auto talk = honest_.attend();
  talk->say(std::string(5 << 20, 'a'));
  EXPECT_NE(talk->ended(), "");
  EXPECT_ANY_THROW(honest_.client->ask(WantsMemberGone{std::string(5 << 20, 'a')}));
}

TEST_F(Hostile, FloodsOfWords) {
  const auto talk = honest_.join();
  for (int i = 0; i < 10'000; ++i) {
    talk->say(to_text(ProviderWord(StillHere{})));
  }
  talk->say(to_text(ProviderWord(WantsToLeave{})));
  talk->hear<MayGo>();
}

TEST_F(Hostile, StreamsThatSayNothing) {
  std::list<std::unique_ptr<Talk<ServerWord>>> silent;
  for (int i = 0; i < 200; ++i) {  // more than a connection may have
    silent.push_back(honest_.attend());
  }
  EXPECT_NO_THROW(provider("box").join());
  const auto is_over = [](const auto& talk) { return talk->is_over(); };
  ASSERT_TRUE(becomes([&] { return std::ranges::any_of(silent, is_over); }));
  const auto& one = *std::ranges::find_if(silent, is_over);
  EXPECT_TRUE(has(one->ended(), "at a time"));
  EXPECT_FALSE(one->is_refused());
}

TEST_F(Hostile, TheServerEndsWhileEverybodyTalks) {
  const auto talk = honest_.join();
  const Person rita = requester("rita");
  const auto feed = rita.feed(submit(rita));
  std::list<transport::TcpClient> silent;
  for (int i = 0; i < 20; ++i) {
    silent.emplace_back(server->address());
  }
  server.reset();
  EXPECT_NE(talk->ended(), "");
  EXPECT_NE(feed->ended(), "");
  start();
  EXPECT_NO_THROW(again(honest_).join());
}

TEST(Turnstile, NeitherOneMemberNorSeveralTakeAllPlaces) {
  Turnstile turnstile(2, 3);
  const Turnstile::Pass first(turnstile, "eve");
  const Turnstile::Pass second(turnstile, "eve");
  EXPECT_THROW(Turnstile::Pass(turnstile, "eve"), Error);
  {
    const Turnstile::Pass third(turnstile, "mallory");
    EXPECT_THROW(Turnstile::Pass(turnstile, "carl"), Error);
  }
  EXPECT_NO_THROW(Turnstile::Pass(turnstile, "carl"));
}

TEST(Dashboard, SpeaksPlainHttpToItsOwnMachineAlone) {
  const TemporaryFolder folder;
  const auto serve = [&](const std::string& http, bool is_allowed) {
    return refusal_of([&] {
      const Server server({.listen = "127.0.0.1:0",
                           .http = http,
                           .allows_plain_http = is_allowed,
                           .data = folder.path() / "server"});
    });
  };
  for (const char* open : {"0.0.0.0:0", "[::]:0", "192.0.2.1:0"}) {
    EXPECT_TRUE(has(serve(open, false), "--allow-plain-http")) << open;
  }
  EXPECT_EQ(serve("0.0.0.0:0", true), "");
  EXPECT_EQ(serve("127.0.0.1:0", false), "");
}

}  // namespace
}  // namespace ravnest::server
