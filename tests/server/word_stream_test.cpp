// The server's end of a stream, where the other side does not read.

#include "ravnest/server/word_stream.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <future>

#include "tests/base/temporary_folder.h"

namespace ravnest::server {
namespace {

constexpr std::chrono::seconds kDeadline{30};

// Says so many words at the first that it hears.
class Chatty final : public WordStream {
 public:
  Chatty(Desk& desk, Verdict verdict, int words, std::promise<void>& closed)
      : WordStream(desk, std::move(verdict)), words_(words), closed_(closed) {}

 private:
  Handling read(const std::string& /*text*/) override {
    return [this] {
      for (int i = 0; i < words_; ++i) {
        say(std::string(1000, 'a'));
      }
      return true;
    };
  }
  void on_closed() override {
    if (!std::exchange(is_closed_, true)) {
      closed_.set_value();
    }
  }

  const int words_;
  std::promise<void>& closed_;
  bool is_closed_ = false;
};

class Service final : public control::Control::CallbackService {
 public:
  Service(Desk& desk, int words) : desk_(desk), words_(words) {}

  ::grpc::ServerBidiReactor<control::Word, control::Word>* Attend(
      ::grpc::CallbackServerContext* context) override {
    Verdict verdict{.caller = Caller(), .status = {}};
    verdict.caller->member.role = trust::Role::kServer;
    return WordStream::start(std::make_shared<Chatty>(desk_, std::move(verdict), words_, closed),
                             turnstile_, *context);
  }

  std::promise<void> closed;

 private:
  Desk& desk_;
  const int words_;
  Turnstile turnstile_{1};
};

class Unread : public testing::Test {
 protected:
  void start(int words) {
    service_ = std::make_unique<Service>(desk_, words);
    ::grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", ::grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    stub_ = control::Control::NewStub(::grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                                            ::grpc::InsecureChannelCredentials()));
    context_.set_deadline(std::chrono::system_clock::now() + kDeadline);
    stream_ = stub_->Attend(&context_);
    control::Word word;
    word.set_text("go");
    EXPECT_TRUE(stream_->Write(word));
  }
  int read_all() {
    control::Word word;
    int count = 0;
    while (stream_->Read(&word)) {
      ++count;
    }
    return count;
  }

  TemporaryFolder folder_;
  Desk desk_{{.data = folder_.path(), .on_broken = [](const std::string&) {}, .on_change = {}}};
  std::unique_ptr<Service> service_;
  std::unique_ptr<::grpc::Server> server_;
  std::unique_ptr<control::Control::Stub> stub_;
  ::grpc::ClientContext context_;
  std::unique_ptr<::grpc::ClientReaderWriter<control::Word, control::Word>> stream_;
};

TEST_F(Unread, WhoDoesNotReadIsNotWaitedFor) {
  start(10'000);
  ASSERT_EQ(service_->closed.get_future().wait_for(kDeadline), std::future_status::ready);
  EXPECT_LT(read_all(), 10'000);
  EXPECT_FALSE(stream_->Finish().ok());
}

TEST_F(Unread, WhoReadsLateHearsAll) {
  start(4000);
  stream_->WritesDone();
  EXPECT_EQ(read_all(), 4000);
  EXPECT_TRUE(stream_->Finish().ok());
}

}  // namespace
}  // namespace ravnest::server
