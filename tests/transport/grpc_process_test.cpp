// Nodes in processes of their own, killed and stopped after a stated event.

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <future>
#include <thread>
#include <utility>

#include "ravnest/transport/grpc/accept_loop.h"
#include "ravnest/transport/grpc/local_socket.h"
#include "tests/transport/child.h"
#include "tests/transport/sanitizers.h"
#include "tests/transport/tcp_client.h"

namespace ravnest::transport {
namespace {

class GrpcProcess : public ::testing::Test {
 protected:
  static TransportOptions quick() {
    TransportOptions options;
    options.timeouts.first_backoff = Milliseconds(5);
    options.timeouts.longest_backoff = Milliseconds(50);
    return options;
  }

  GrpcWorld world_;
  TestNode here_{world_, "node_0", quick()};
};

TEST(AcceptLoop, LeavesItsPortAlthoughAForkedProcessHasItsDescriptors) {
  auto loop = std::make_unique<AcceptLoop>("127.0.0.1:0", AcceptLimits{});
  const std::string address = loop->address();
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {  // as one that has not executed its program yet
    ::close(ends[1]);
    char byte = 0;
    ::_exit(::read(ends[0], &byte, 1) == 0 ? 0 : 1);
  }
  ASSERT_GT(child, 0);
  loop.reset();
  EXPECT_EQ(AcceptLoop(address, AcceptLimits{}).address(), address);
  ::close(ends[0]);
  ::close(ends[1]);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// As a data loader's worker, which stays for seconds where its parent is killed. It has a file in
// the place of one of them.
TEST(AcceptLoop, IsLeftBehindByAProcessThatIsForkedOff) {
  AcceptLoop loop("127.0.0.1:0", {.has_local_socket = true});
  std::promise<int> taken;
  loop.start([&, is_first = true](int descriptor) mutable {
    if (std::exchange(is_first, false)) {
      taken.set_value(descriptor);
    } else {
      ::close(descriptor);
    }
  });
  const int connected = connect_locally(loop.address());
  ASSERT_GE(connected, 0);
  const int accepted = taken.get_future().get();
  const pid_t child = ::fork();
  if (child == 0) {
    int count = 0;
    for (int descriptor = 0; descriptor < 256; ++descriptor) {
      int listens = 0;
      socklen_t size = sizeof(listens);
      ::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size);
      count += listens;
    }
    const bool are_closed = ::fcntl(connected, F_GETFD) < 0 && ::fcntl(accepted, F_GETFD) < 0;
    const int file = ::open("/dev/null", O_RDONLY);
    const int other = ::dup2(file, connected);
    const pid_t grandchild = ::fork();
    if (grandchild == 0) {
      ::_exit(::fcntl(other, F_GETFD) < 0 ? 1 : 0);
    }
    int status = 0;
    ::waitpid(grandchild, &status, 0);
    ::_exit(count > 0 ? 1 : !are_closed ? 2 : status != 0 ? 3 : 0);
  }
  ASSERT_GT(child, 0);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const int again = connect_locally(loop.address());
  EXPECT_GE(again, 0);
  for (const int descriptor : {connected, accepted, again}) {
    ::close(descriptor);
  }
}

TEST_F(GrpcProcess, AKilledReceiverIsNamedAndItsSuccessorGetsWhatWasNotTaken) {
  const std::string address = world_.reserve("node_1");
  const std::vector<std::string> words{"sink", "node_1", address, "node_0",
                                       here_.transport->address()};
  auto child = std::make_unique<Child>(words);
  const auto sender = here_.transport->open({"node_1", address}, "forward");
  sender->send(numbered(1), kPatience);
  EXPECT_TRUE(child->wait_for("got 1"));
  sender->flush(kPatience);
  child->send_signal(SIGKILL);
  EXPECT_TRUE(here_.wait_for(NoticeKind::kLost, "node_1", Milliseconds(5000)));
  child.reset();
  sender->send(numbered(2), kPatience);
  child = std::make_unique<Child>(words);
  EXPECT_TRUE(child->wait_for("got 2"));
  sender->close(kPatience);
}

TEST_F(GrpcProcess, AKilledSenderIsNamedAndItsSuccessorBeginsAnew) {
  Inbox inbox;
  const auto receiver = here_.transport->receive({"node_1", ""}, "forward", inbox.handler());
  const std::vector<std::string> words{"source", "node_1", "127.0.0.1:0", "node_0",
                                       here_.transport->address()};
  auto child = std::make_unique<Child>(words);
  EXPECT_EQ(take_passes(inbox, 50), passes_to(50));
  child->send_signal(SIGKILL);
  EXPECT_TRUE(here_.wait_for(NoticeKind::kLost, "node_1", Milliseconds(5000)));
  child = std::make_unique<Child>(words);
  std::int64_t pass = 50;
  std::uint64_t instance = 0;
  while (true) {  // what the first one had sent, then the second from its beginning
    const auto delivery = inbox.take(kPatience);
    ASSERT_TRUE(delivery);
    if (delivery->message.pass == 1) {
      EXPECT_NE(delivery->instance, instance);
      break;
    }
    instance = delivery->instance;
    EXPECT_EQ(delivery->message.pass, ++pass);
  }
}

TEST_F(GrpcProcess, AStoppedProcessIsFoundBySilenceAndHeardAgain) {
  const std::string address = world_.reserve("node_1");
  Child child({"sink", "node_1", address, "node_0", here_.transport->address()});
  const auto sender = here_.transport->open({"node_1", address}, "forward");
  sender->send(numbered(1), kPatience);
  EXPECT_TRUE(child.wait_for("got 1"));
  child.send_signal(SIGSTOP);
  // Five seconds of silence, and one for a busy machine.
  EXPECT_TRUE(here_.wait_for(NoticeKind::kLost, "node_1", Milliseconds(6000)));
  child.send_signal(SIGCONT);
  sender->send(numbered(2), kPatience);
  EXPECT_TRUE(child.wait_for("got 2"));
}

#if !RAVNEST_IS_SANITIZED

TEST_F(GrpcProcess, ServesThroughAFloodThatTakesAllDescriptors) {
  const std::string address = world_.reserve("node_1");
  Child child({"sink", "node_1", address, "node_0", here_.transport->address(), "96"});
  const auto sender = here_.transport->open({"node_1", address}, "forward");
  sender->send(numbered(1), kPatience);
  EXPECT_TRUE(child.wait_for("got 1"));
  std::vector<TcpClient> flood;
  for (int i = 0; i < 300; ++i) {
    flood.emplace_back(address);
  }
  EXPECT_TRUE(flood.back().wait_for_end());  // shed: there is no descriptor for it
  sender->send(numbered(2), kPatience);      // who is connected does not notice
  EXPECT_TRUE(child.wait_for("got 2"));
}

TEST_F(GrpcProcess, ServesNewcomersSoonAfterAFlood) {
  const std::string address = world_.reserve("node_1");
  Child child({"sink", "node_1", address, "node_0", here_.transport->address(), "96"});
  ASSERT_TRUE(child.wait_for("listening " + address));
  std::vector<TcpClient> flood;
  for (int i = 0; i < 300; ++i) {
    flood.emplace_back(address);
  }
  EXPECT_TRUE(flood.back().wait_for_end());
  flood.clear();
  const TimePoint after = std::chrono::steady_clock::now();
  const auto sender = here_.transport->open({"node_1", address}, "forward");
  sender->send(numbered(1), kPatience);
  EXPECT_TRUE(child.wait_for("got 1"));
  EXPECT_LE(std::chrono::steady_clock::now() - after, std::chrono::seconds(5));
}

#endif

}  // namespace
}  // namespace ravnest::transport
