#pragma once

#include <filesystem>
#include <latch>
#include <limits>
#include <thread>

#include "tests/transport/world.h"

namespace ravnest::transport {

// What every transport does when all is well. Instantiated for each kind of network.
template <typename World>
class TransportContract : public ::testing::Test {
 protected:
  static TransportOptions small_window(std::size_t messages, std::size_t nbytes = 1 << 30) {
    TransportOptions options;
    options.window = {.messages = messages, .nbytes = nbytes};
    return options;
  }

  World world_;
};

TYPED_TEST_SUITE_P(TransportContract);

TYPED_TEST_P(TransportContract, DeliversInOrder) {
  TestNode a(this->world_, "node_0");
  TestNode b(this->world_, "node_1");
  Inbox inbox;
  const auto receiver = b.transport->receive(a.peer(), "forward", inbox.handler());
  const auto sender = a.transport->open(b.peer(), "forward");
  std::jthread sending([&] {
    for (std::int64_t pass = 1; pass <= 200; ++pass) {
      sender->send(numbered(pass), kPatience);
    }
  });
  EXPECT_EQ(take_passes(inbox, 200), passes_to(200));
}

TYPED_TEST_P(TransportContract, CarriesTensorsOfAllSizes) {
  TestNode a(this->world_, "node_0");
  TestNode b(this->world_, "node_1");
  Inbox inbox;
  const auto receiver = b.transport->receive(a.peer(), "forward", inbox.handler());
  const auto sender = a.transport->open(b.peer(), "forward");
  for (const std::size_t size : {0U, 1U, 7U, 1000U, 16U << 20}) {
    Message message{.tensors = {byte_tensor(size, 3)}};
    sender->send(message, kPatience);
    const auto delivery = inbox.take(kPatience);
    ASSERT_TRUE(delivery);
    ASSERT_EQ(delivery->message.tensors.size(), 1U);
    EXPECT_EQ(delivery->message.tensors[0].shape, message.tensors[0].shape);
    EXPECT_TRUE(equal(delivery->message.tensors[0].bytes, message.tensors[0].bytes));
  }
}

TYPED_TEST_P(TransportContract, CarriesEverythingThatAMessageHas) {
  TestNode a(this->world_, "node_0");
  TestNode b(this->world_, "node_1");
  Inbox inbox;
  const auto receiver = b.transport->receive(a.peer(), "forward", inbox.handler());
  const auto sender = a.transport->open(b.peer(), "forward");
  Message sent{.kind = MessageKind::kNoGradForward,
               .pass = -5,
               .epoch = std::int64_t{1} << 40,
               .fields = {1, -2, std::numeric_limits<std::int64_t>::min()},
               .metadata = "{\"shape\": \"é\"}"};
  for (unsigned i = 0; i < 500; ++i) {
    sent.tensors.push_back(
        {.dtype = graph::DType::kInt64, .shape = {i % 3, 2, 1}, .bytes = pattern(i % 3 * 16, i)});
  }
  sent.tensors.push_back({.dtype = graph::DType::kFloat64, .shape = {}, .bytes = pattern(8)});
  sender->send(sent, kPatience);
  const auto delivery = inbox.take(kPatience);
  ASSERT_TRUE(delivery);
  const Message& got = delivery->message;
  EXPECT_EQ(delivery->from, "node_0");
  EXPECT_EQ(got.kind, sent.kind);
  EXPECT_EQ(got.pass, sent.pass);
  EXPECT_EQ(got.epoch, sent.epoch);
  EXPECT_EQ(got.fields, sent.fields);
  EXPECT_EQ(got.metadata, sent.metadata);
  ASSERT_EQ(got.tensors.size(), sent.tensors.size());
  for (std::size_t i = 0; i < sent.tensors.size(); ++i) {
    EXPECT_EQ(got.tensors[i].dtype, sent.tensors[i].dtype);
    EXPECT_EQ(got.tensors[i].shape, sent.tensors[i].shape);
    EXPECT_TRUE(equal(got.tensors[i].bytes, sent.tensors[i].bytes)) << i;
  }
}

TYPED_TEST_P(TransportContract, CarriesEveryCodec) {
  TestNode a(this->world_, "node_0");
  TestNode b(this->world_, "node_1");
  Inbox inbox;
  const auto receiver = b.transport->receive(a.peer(), "forward", inbox.handler());
  const auto sender = a.transport->open(b.peer(), "forward");
  const std::vector<float> values{1.0F, -0.5F, 0.25F, 127.0F};  // exact in every codec but int8
  const Tensor tensor{.dtype = graph::DType::kFloat32,
                      .shape = {1, 4},
                      .bytes = Bytes::copy_of(std::as_bytes(std::span(values)))};
  for (const char* name : {"none", "fp16", "bf16", "int8", "zstd", "fp16+zstd", "int8+zstd"}) {
    sender->send({.tensors = {tensor}, .codec = parse_codec(name)}, kPatience);
    const auto delivery = inbox.take(kPatience);
    ASSERT_TRUE(delivery) << name;
    EXPECT_EQ(name_of(delivery->message.codec), name);
    const Bytes bytes = delivery->message.tensors.at(0).bytes;
    ASSERT_EQ(bytes.size(), 16U) << name;
    for (std::size_t i = 0; i < 4; ++i) {
      float value = 0;
      std::memcpy(&value, bytes.data() + 4 * i, 4);
      EXPECT_NEAR(value, values[i], 0.5) << name;
    }
  }
}

TYPED_TEST_P(TransportContract, CarriesBothDirectionsAtOnce) {
  TestNode a(this->world_, "node_0");
  TestNode b(this->world_, "node_1");
  Inbox to_b;
  Inbox to_a;
  const auto forward_in = b.transport->receive(a.peer(), "forward", to_b.handler());
  const auto backward_in = a.transport->receive(b.peer(), "backward", to_a.handler());
  const auto forward = a.transport->open(b.peer(), "forward");
  const auto backward = b.transport->open(a.peer(), "backward");
  const auto send_all = [](Sender& sender) {
    for (std::int64_t pass = 1; pass <= 30; ++pass) {
      sender.send(numbered(pass, 300'000), kPatience);
    }
  };
  std::jthread one([&] { send_all(*forward); });
  std::jthread two([&] { send_all(*backward); });
  std::jthread three([&] { EXPECT_EQ(take_passes(to_a, 30), passes_to(30)); });
  EXPECT_EQ(take_passes(to_b, 30), passes_to(30));
}

TYPED_TEST_P(TransportContract, ChannelsOfOnePairHaveTheirOwnWindows) {
  TestNode a(this->world_, "node_0", this->small_window(1));
  TestNode b(this->world_, "node_1", this->small_window(1));
  Inbox full;
  Inbox free;
  const auto in1 = b.transport->receive(a.peer(), "forward", full.handler());
  const auto in2 = b.transport->receive(a.peer(), "control", free.handler());
  const auto forward = a.transport->open(b.peer(), "forward");
  const auto control = a.transport->open(b.peer(), "control");
  forward->send(numbered(1), kPatience);
  EXPECT_EQ(kind_thrown([&] { forward->send(numbered(2), Milliseconds(20)); }),
            ErrorKind::kTimeout);
  control->send(numbered(1), kPatience);
  EXPECT_EQ(take_passes(free, 1), passes_to(1));
}

TYPED_TEST_P(TransportContract, BlocksTheSenderUntilTheConsumerHasTaken) {
  TestNode a(this->world_, "node_0", this->small_window(2));
  TestNode b(this->world_, "node_1", this->small_window(2));
  Inbox inbox;
  const auto receiver = b.transport->receive(a.peer(), "forward", inbox.handler());
  const auto sender = a.transport->open(b.peer(), "forward");
  sender->send(numbered(1), kPatience);
  sender->send(numbered(2), kPatience);
  auto first = inbox.take(kPatience);
  // Delivered, and still held: its place is not free.
  const std::string text = text_thrown<Error>([&] { sender->send(numbered(3), Milliseconds(50)); });
  EXPECT_NE(text.find("node_1"), std::string::npos) << text;
  std::jthread sending([&] { sender->send(numbered(3), kPatience); });
  first.reset();
  EXPECT_EQ(take_passes(inbox, 2), (std::vector<std::int64_t>{2, 3}));
}

TYPED_TEST_P(TransportContract, ASenderThatIsBrokenOffLetsGoOfWhoWaitsInIt) {
  TestNode a(this->world_, "node_0", this->small_window(1));
  TestNode b(this->world_, "node_1");
  Inbox inbox;
  const auto receiver = b.transport->receive(a.peer(), "forward", inbox.handler());
  const auto sender = a.transport->open(b.peer(), "forward");
  sender->send(numbered(1), kPatience);
  const auto held = inbox.take(kPatience);
  std::jthread breaking([&] { sender->break_off(); });
  EXPECT_EQ(kind_thrown([&] { sender->send(numbered(2), kPatience); }), ErrorKind::kPeerLost);
}

TYPED_TEST_P(TransportContract, CountsTheWindowInBytesToo) {
  TestNode a(this->world_, "node_0", this->small_window(100, 1000));
  TestNode b(this->world_, "node_1", this->small_window(100, 1000));
  Inbox inbox;
  const auto receiver = b.transport->receive(a.peer(), "forward", inbox.handler());
  const auto sender = a.transport->open(b.peer(), "forward");
  sender->send(numbered(1, 600), kPatience);
  EXPECT_EQ(kind_thrown([&] { sender->send(numbered(2, 600), Milliseconds(50)); }),
            ErrorKind::kTimeout);
  sender->send(numbered(2, 400), kPatience);
  EXPECT_EQ(take_passes(inbox, 2), passes_to(2));
  sender->send(numbered(3, 5000), kPatience);  // larger than the window: alone
  EXPECT_EQ(take_passes(inbox, 1), (std::vector<std::int64_t>{3}));
}

TYPED_TEST_P(TransportContract, KeepsToTheReceiversSmallerWindow) {
  TestNode a(this->world_, "node_0", this->small_window(50));
  TestNode b(this->world_, "node_1", this->small_window(2));
  Inbox inbox;
  const auto receiver = b.transport->receive(a.peer(), "forward", inbox.handler());
  const auto sender = a.transport->open(b.peer(), "forward");
  for (std::int64_t pass = 1; pass <= 50; ++pass) {
    sender->send(numbered(pass), kPatience);
  }
  EXPECT_EQ(take_passes(inbox, 50), passes_to(50));
  EXPECT_EQ(receiver->state().phase, Phase::kOpen);
}

TYPED_TEST_P(TransportContract, CreditMayComeBackInAnyOrder) {
  TestNode a(this->world_, "node_0", this->small_window(3));
  TestNode b(this->world_, "node_1", this->small_window(3));
  Inbox inbox;
  const auto receiver = b.transport->receive(a.peer(), "forward", inbox.handler());
  const auto sender = a.transport->open(b.peer(), "forward");
  for (std::int64_t round = 0; round < 5; ++round) {
    for (std::int64_t pass = 1; pass <= 3; ++pass) {
      sender->send(numbered(pass), kPatience);
    }
    auto one = inbox.take(kPatience);
    auto two = inbox.take(kPatience);
    auto three = inbox.take(kPatience);
    three.reset();
    one.reset();
    two.reset();
    sender->flush(kPatience);
  }
}

TYPED_TEST_P(TransportContract, TheSenderMayStartFirst) {
  const Peer late{.name = "node_1", .address = this->world_.reserve("node_1")};
  TransportOptions options;
  options.timeouts.progress = Milliseconds(10);
  TestNode a(this->world_, "node_0", options);
  const auto sender = a.transport->open(late, "forward");
  sender->send(numbered(1), kPatience);
  EXPECT_TRUE(a.wait_for(NoticeKind::kWaiting, "node_1"));
  EXPECT_EQ(sender->state().phase, Phase::kWaiting);
  EXPECT_EQ(sender->state().text, "node_0 waits for node_1 at " + late.address + " (0 s)");

  TestNode b(this->world_, "node_1", late.address);
  Inbox inbox;
  const auto receiver = b.transport->receive(a.peer(), "forward", inbox.handler());
  EXPECT_EQ(take_passes(inbox, 1), passes_to(1));
  EXPECT_TRUE(a.wait_for(NoticeKind::kOpen, "node_1"));
}

TYPED_TEST_P(TransportContract, TheReceiverMayStartFirst) {
  const Peer late{.name = "node_0", .address = this->world_.reserve("node_0")};
  TransportOptions options;
  options.timeouts.progress = Milliseconds(10);
  TestNode b(this->world_, "node_1", options);
  Inbox inbox;
  const auto receiver = b.transport->receive(late, "forward", inbox.handler());
  EXPECT_TRUE(b.wait_for(NoticeKind::kWaiting, "node_0"));

  TestNode a(this->world_, "node_0", late.address);
  const auto sender = a.transport->open(b.peer(), "forward");
  sender->send(numbered(1), kPatience);
  EXPECT_EQ(take_passes(inbox, 1), passes_to(1));
  EXPECT_TRUE(b.wait_for(NoticeKind::kOpen, "node_0"));
}

TYPED_TEST_P(TransportContract, AReceiverMayBeAskedForLater) {
  TestNode a(this->world_, "node_0");
  TestNode b(this->world_, "node_1");
  const auto sender = a.transport->open(b.peer(), "forward");
  sender->send(numbered(1), kPatience);
  // node_1 is there and does not expect us; we keep trying.
  while (sender->state().text.find("does not expect node_0") == std::string::npos) {
    ASSERT_EQ(sender->state().phase, Phase::kWaiting);
    std::this_thread::yield();
  }
  Inbox inbox;
  const auto receiver = b.transport->receive(a.peer(), "forward", inbox.handler());
  EXPECT_EQ(take_passes(inbox, 1), passes_to(1));
}

TYPED_TEST_P(TransportContract, AGoodbyeIsNoLoss) {
  TestNode a(this->world_, "node_0");
  TestNode b(this->world_, "node_1");
  Inbox inbox;
  const auto receiver = b.transport->receive(a.peer(), "forward", inbox.handler());
  const auto sender = a.transport->open(b.peer(), "forward");
  sender->send(numbered(1), kPatience);
  EXPECT_EQ(take_passes(inbox, 1), passes_to(1));
  a.transport->close(kPatience);
  EXPECT_FALSE(inbox.take(kPatience));  // the end, and no error
  a.transport.reset();
  b.transport->close(kPatience);
  b.transport.reset();  // all notices have come
  for (const TestNode* node : {&a, &b}) {
    EXPECT_EQ(node->count(NoticeKind::kLost), 0U);
    EXPECT_EQ(node->count(NoticeKind::kFailed), 0U);
    EXPECT_EQ(node->count(NoticeKind::kClosed), 1U);
  }
}

TYPED_TEST_P(TransportContract, AReceiverMaySayGoodbye) {
  TestNode a(this->world_, "node_0");
  TestNode b(this->world_, "node_1");
  Inbox inbox;
  const auto receiver = b.transport->receive(a.peer(), "forward", inbox.handler());
  const auto sender = a.transport->open(b.peer(), "forward");
  sender->send(numbered(1), kPatience);
  EXPECT_EQ(take_passes(inbox, 1), passes_to(1));
  receiver->close(kPatience);
  EXPECT_TRUE(a.wait_for(NoticeKind::kClosed, "node_1"));
  const std::string text = text_thrown<Error>([&] { sender->send(numbered(2), kPatience); });
  EXPECT_NE(text.find("goodbye"), std::string::npos) << text;
  EXPECT_EQ(a.count(NoticeKind::kLost), 0U);
}

TYPED_TEST_P(TransportContract, ClosingWaitsForMessagesInFlight) {
  TestNode a(this->world_, "node_0");
  TestNode b(this->world_, "node_1");
  Inbox inbox;
  const auto receiver = b.transport->receive(a.peer(), "forward", inbox.handler());
  const auto sender = a.transport->open(b.peer(), "forward");
  for (std::int64_t pass = 1; pass <= 8; ++pass) {
    sender->send(numbered(pass, 3'000'000), kPatience);
  }
  std::jthread closing([&] { a.transport->close(kPatience); });
  EXPECT_EQ(take_passes(inbox, 8), passes_to(8));
  EXPECT_FALSE(inbox.take(kPatience));
}

TYPED_TEST_P(TransportContract, ClosingHasADeadline) {
  TestNode a(this->world_, "node_0");
  const auto sender = a.transport->open({"node_1", this->world_.reserve("node_1")}, "forward");
  sender->send(numbered(1), kPatience);
  EXPECT_EQ(kind_thrown([&] { sender->flush(Milliseconds(20)); }), ErrorKind::kTimeout);
  EXPECT_EQ(kind_thrown([&] { a.transport->close(Milliseconds(20)); }), ErrorKind::kTimeout);
}

TYPED_TEST_P(TransportContract, EndsOutliveTheTransport) {
  TestNode a(this->world_, "node_0");
  TestNode b(this->world_, "node_1");
  Inbox inbox;
  const auto receiver = b.transport->receive(a.peer(), "forward", inbox.handler());
  const auto sender = a.transport->open(b.peer(), "forward");
  sender->send(numbered(1), kPatience);
  auto delivery = inbox.take(kPatience);
  a.transport.reset();
  b.transport.reset();
  EXPECT_EQ(kind_thrown([&] { sender->send(numbered(2), kPatience); }), ErrorKind::kPeerLost);
  delivery.reset();
  EXPECT_EQ(receiver->state().phase, Phase::kFailed);
}

// A notice used to be given by the thread that connects and beats.
TYPED_TEST_P(TransportContract, WhoReadsNoticesSlowlyHoldsNothingUp) {
  std::latch may_go_on(1);
  TransportOptions options;
  options.on_notice = [&](const Notice&) { may_go_on.wait(); };
  TestNode a(this->world_, "node_0", options);
  TestNode b(this->world_, "node_1");
  const Credit at_the_end([&] { may_go_on.count_down(); });
  Inbox inbox;
  const auto receiver = b.transport->receive(a.peer(), "forward", inbox.handler());
  const auto later = b.transport->receive(a.peer(), "inputs", inbox.handler());
  const auto sender = a.transport->open(b.peer(), "forward");
  const auto any = [](const Notice&) { return true; };
  ASSERT_TRUE(a.notices.wait_for(any));  // and its reader stays there
  const auto opened_then = a.transport->open(b.peer(), "inputs");
  opened_then->send(numbered(1), kPatience);
  EXPECT_EQ(take_passes(inbox, 1), passes_to(1));
}

TYPED_TEST_P(TransportContract, AnAddressIsNotShared) {
  TestNode a(this->world_, "node_0");
  const std::string text =
      text_thrown<Error>([&] { TestNode(this->world_, "node_1", a.transport->address()); });
  EXPECT_NE(text.find("taken"), std::string::npos) << text;
  EXPECT_NE(text.find(a.transport->address()), std::string::npos) << text;
}

TYPED_TEST_P(TransportContract, RefusesASecondEndOfAChannel) {
  TestNode a(this->world_, "node_0");
  const Peer peer{"node_1", this->world_.reserve("node_1")};
  auto sender = a.transport->open(peer, "forward");
  EXPECT_THROW(a.transport->open(peer, "forward"), std::invalid_argument);
  sender.reset();
  sender = a.transport->open(peer, "forward");
}

TYPED_TEST_P(TransportContract, RefusesAMessageOverTheLimitsWhereItIsSent) {
  TransportOptions options;
  options.limits = {
      .tensors = 2, .fields = 1, .metadata_bytes = 10, .tensor_bytes = 100, .message_bytes = 150};
  TestNode a(this->world_, "node_0", options);
  const auto sender = a.transport->open({"node_1", this->world_.reserve("node_1")}, "forward");
  const auto refuses = [&](const Message& message) {
    EXPECT_THROW(sender->send(message, kPatience), std::invalid_argument);
  };
  refuses({.fields = {1, 2}});
  refuses({.metadata = "more than ten bytes"});
  refuses({.tensors = {byte_tensor(101)}});
  refuses({.tensors = {byte_tensor(100), byte_tensor(51)}});
  refuses({.tensors = {byte_tensor(1), byte_tensor(1), byte_tensor(1)}});
  refuses({.tensors = {{.dtype = graph::DType::kFloat32, .shape = {2}, .bytes = pattern(7)}}});
  sender->send({.tensors = {byte_tensor(100), byte_tensor(50)}}, kPatience);
}

TYPED_TEST_P(TransportContract, LeavesNoThreadAndNoDescriptorBehind) {
  const auto connect_once = [this] {
    TestNode a(this->world_, "node_0");
    TestNode b(this->world_, "node_1");
    Inbox inbox;
    const auto receiver = b.transport->receive(a.peer(), "forward", inbox.handler());
    const auto sender = a.transport->open(b.peer(), "forward");
    sender->send(numbered(1), kPatience);
    EXPECT_EQ(take_passes(inbox, 1), passes_to(1));
    a.transport->close(kPatience);
  };
  const auto entries = [](const char* folder) {
    return std::distance(std::filesystem::directory_iterator(folder), {});
  };
  for (int i = 0; i < 5; ++i) {
    connect_once();  // gRPC makes threads and descriptors that it keeps
  }
  const auto threads = entries("/proc/self/task");
  const auto descriptors = entries("/proc/self/fd");
  for (int i = 0; i < 100; ++i) {
    connect_once();
  }
  // gRPC lets go a moment later, on threads of its own.
  const TimePoint deadline = deadline_in(kPatience);
  while (std::chrono::steady_clock::now() < deadline &&
         (entries("/proc/self/fd") > descriptors || entries("/proc/self/task") > threads)) {
    std::this_thread::yield();
  }
  EXPECT_LE(entries("/proc/self/fd"), descriptors);
  EXPECT_LE(entries("/proc/self/task"), threads);
}

REGISTER_TYPED_TEST_SUITE_P(
    TransportContract, DeliversInOrder, CarriesTensorsOfAllSizes, CarriesEverythingThatAMessageHas,
    CarriesEveryCodec, CarriesBothDirectionsAtOnce, ChannelsOfOnePairHaveTheirOwnWindows,
    BlocksTheSenderUntilTheConsumerHasTaken, ASenderThatIsBrokenOffLetsGoOfWhoWaitsInIt,
    CountsTheWindowInBytesToo, KeepsToTheReceiversSmallerWindow, CreditMayComeBackInAnyOrder,
    TheSenderMayStartFirst, TheReceiverMayStartFirst, AReceiverMayBeAskedForLater, AGoodbyeIsNoLoss,
    AReceiverMaySayGoodbye, ClosingWaitsForMessagesInFlight, ClosingHasADeadline,
    EndsOutliveTheTransport, WhoReadsNoticesSlowlyHoldsNothingUp, AnAddressIsNotShared,
    RefusesASecondEndOfAChannel, RefusesAMessageOverTheLimitsWhereItIsSent,
    LeavesNoThreadAndNoDescriptorBehind);

}  // namespace ravnest::transport
