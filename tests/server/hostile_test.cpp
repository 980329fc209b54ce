// What connects and means no good. Afterwards an honest call is served.

#include <control.grpc.pb.h>

#include <deque>
#include <list>
#include <map>

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

TEST_F(Hostile, LaterWordsThatAreLarge) {
  const auto talk = honest_.join();
  talk->say(R"({"word":"still_here","more":")" + std::string(100'000, 'a') + "\"}");
  EXPECT_TRUE(has(talk->ended(), "a word of at most 65536 bytes"));
}

// So many questions at once, of one member. Gives what they were answered, by status.
class Flood {
 public:
  Flood(std::shared_ptr<::grpc::Channel> channel, std::size_t count, std::string text)
      : stub_(control::Control::NewStub(channel)), calls_(count) {
    question_.set_text(std::move(text));
    for (Call& call : calls_) {
      stub_->async()->Ask(&call.context, &question_, &call.answer,
                          [this, &call](const ::grpc::Status& status) {
                            const std::lock_guard lock(mutex_);
                            call.status = status;
                            ++done_;
                            changed_.notify_all();
                          });
    }
  }
  ~Flood() { wait(); }
  Flood(const Flood&) = delete;
  Flood& operator=(const Flood&) = delete;

  std::map<::grpc::StatusCode, std::string> wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_ == calls_.size(); });
    std::map<::grpc::StatusCode, std::string> found;
    for (const Call& call : calls_) {
      found[call.status.error_code()] = call.status.error_message();
    }
    return found;
  }

 private:
  struct Call {
    ::grpc::ClientContext context;
    control::Word answer;
    ::grpc::Status status;
  };
  const std::unique_ptr<control::Control::Stub> stub_;
  control::Word question_;
  std::deque<Call> calls_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t done_ = 0;
};

TEST_F(Hostile, FloodsOfLargeQuestions) {
  const Person eve = provider("eve");
  std::list<Flood> floods;
  for (int i = 0; i < 4; ++i) {
    floods.emplace_back(channel(eve), 64,
                        R"({"word":"time","more":")" + std::string(3 << 20, 'a') + "\"}");
  }
  EXPECT_GT(honest_.ask(WantsTime{}).at("seconds"), 0);
  for (Flood& flood : floods) {
    const auto said = flood.wait();
    ASSERT_TRUE(said.contains(::grpc::StatusCode::INVALID_ARGUMENT));
    EXPECT_TRUE(has(said.at(::grpc::StatusCode::INVALID_ARGUMENT), "of at most 1048576 bytes"));
    EXPECT_FALSE(said.contains(::grpc::StatusCode::OK));
  }
}

TEST_F(Hostile, FloodsOfQuestions) {
  const Person eve = provider("eve");
  EXPECT_TRUE(becomes([&] {
    const auto said = Flood(channel(eve), 64, to_text(Question(WantsView{}))).wait();
    EXPECT_GT(honest_.ask(WantsTime{}).at("seconds"), 0);
    const auto found = said.find(::grpc::StatusCode::RESOURCE_EXHAUSTED);
    return found != said.end() && has(found->second, "at most 16 such calls");
  })) << "all of them wait in everybody's way";
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
