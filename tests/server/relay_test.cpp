// Members of one job reach each other through the server; nobody else does.

#include <control.grpc.pb.h>

#include "tests/server/world.h"

namespace ravnest::server {
namespace {

// A pipe in the hands of a test.
class End {
 public:
  relay::PipeEvents events() {
    return {.on_bytes =
                [this](std::span<const std::byte> bytes) {
                  const std::lock_guard lock(mutex_);
                  heard_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
                  changed_.notify_all();
                },
            .on_end =
                [this] {
                  const std::lock_guard lock(mutex_);
                  is_over_ = true;
                  changed_.notify_all();
                }};
  }
  std::string hear(std::size_t nbytes) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kDeadline, [&] { return heard_.size() >= nbytes || is_over_; });
    return heard_;
  }
  bool ends(std::chrono::milliseconds patience = kDeadline) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [&] { return is_over_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string heard_;
  bool is_over_ = false;
};

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// Providers a and b hold the stages of rita's job; c holds nothing.
class Relay : public World {
 protected:
  Relay() {
    a_talk_->hear<Hold>();
    b_talk_->hear<Hold>();
  }

  // From one to another, and whether bytes flow both ways.
  template <typename Word>
  void exchange(const Person& from, const Person& to, Talk<Word>& talk) {
    End here;
    End there;
    const auto call = from.client->call(to.id(), here.events());
    const auto answer = to.client->answer(talk.template hear<Called>().call, there.events());
    const std::string large(3 << 20, 'x');
    EXPECT_TRUE(call->write(bytes_of("ping")));
    EXPECT_EQ(there.hear(4), "ping");
    EXPECT_TRUE(answer->write(bytes_of(large)));
    EXPECT_EQ(here.hear(large.size()), large);
    call->close();
    EXPECT_TRUE(there.ends());
  }
  bool is_put_through(const Person& from, const std::string& to) {
    End here;
    const auto call = from.client->call(to, here.events());
    return !here.ends();
  }

  const Person rita_ = requester("rita");
  const Person a_ = provider("a");
  const Person b_ = provider("b");
  const std::unique_ptr<Talk<ServerWord>> a_talk_ = a_.join();
  const std::unique_ptr<Talk<ServerWord>> b_talk_ = b_.join();
  const JobId job_ = submit(rita_, {.clusters = 1, .least_providers = 2});
};

TEST_F(Relay, CarriesBytesBothWaysBetweenMembersOfAJob) {
  exchange(a_, b_, *b_talk_);
  exchange(b_, a_, *a_talk_);
  exchange(rita_, a_, *a_talk_);
}

TEST_F(Relay, ARequesterIsCalledThroughItsFeed) {
  const auto feed = rita_.feed(job_);
  feed->hear<Standing>();
  exchange(a_, rita_, *feed);
}

// One process feeds each job: another would answer, and not know what it is asked.
TEST_F(Relay, OnlyTheFeedOfTheJobIsCalled) {
  const JobId other = submit(rita_);
  const auto other_feed = rita_.feed(other);
  other_feed->hear<Standing>();
  const auto feed = rita_.feed(job_);
  feed->hear<Standing>();
  exchange(a_, rita_, *feed);
  rita_.client->ask(WantsCancel{other});
  EXPECT_THROW(other_feed->hear<Called>(), std::runtime_error);  // it hears the end
}

TEST_F(Relay, APipeThatSaysNothingIsEnded) {
  const auto stub = control::Relay::NewStub(channel(a_));
  ::grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kDeadline);
  const auto pipe = stub->Pipe(&context);
  control::PipePart part;
  EXPECT_FALSE(pipe->Read(&part));
  EXPECT_EQ(pipe->Finish().error_code(), ::grpc::StatusCode::CANCELLED);
}

TEST_F(Relay, AStrangerIsNotPutThrough) {
  const Person c = provider("c");
  const auto talk = c.join();
  const Person carl = requester("carl");
  EXPECT_FALSE(is_put_through(c, a_.id()));
  EXPECT_FALSE(is_put_through(carl, a_.id()));
  EXPECT_FALSE(is_put_through(a_, c.id()));
  EXPECT_FALSE(is_put_through(a_, "nobody"));
  EXPECT_FALSE(is_put_through(a_, ""));
}

TEST_F(Relay, OnlyTheOneWhoIsCalledAnswers) {
  End here;
  const auto call = a_.client->call(b_.id(), here.events());
  const std::int64_t id = b_talk_->hear<Called>().call;
  const Person c = provider("c");
  for (const Person* person : {&c, &rita_, &a_}) {
    End there;
    const auto stolen = person->client->answer(id, there.events());
    EXPECT_TRUE(there.ends());
  }
  End there;
  const auto answer = b_.client->answer(id, there.events());
  EXPECT_TRUE(answer->write(bytes_of("it is me")));
  EXPECT_EQ(here.hear(8), "it is me");
}

TEST_F(Relay, ACallThatMayNoLongerBeIsEnded) {
  End here;
  End there;
  const auto call = a_.client->call(b_.id(), here.events());
  const auto answer = b_.client->answer(b_talk_->hear<Called>().call, there.events());
  call->write(bytes_of("ping"));
  EXPECT_EQ(there.hear(4), "ping");
  owner().client->ask(WantsMemberGone{"a"});
  EXPECT_TRUE(here.ends());
  EXPECT_TRUE(there.ends());
}

TEST_F(Relay, ACallThatNobodyAnswersIsEnded) {
  End here;
  const auto call = a_.client->call(b_.id(), here.events());
  const std::string beat = to_text(ProviderWord(StillHere{}));
  EXPECT_TRUE(becomes([&] {  // while both are there
    a_talk_->say(beat);
    b_talk_->say(beat);
    return here.ends(std::chrono::milliseconds(500));
  }));
  EXPECT_EQ(presence_of(a_, "a"), "present");
  EXPECT_EQ(presence_of(a_, "b"), "present");
}

}  // namespace
}  // namespace ravnest::server
