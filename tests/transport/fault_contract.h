#pragma once

#include <atomic>
#include <thread>

#include "tests/transport/raw_stream.h"
#include "tests/transport/resident.h"
#include "tests/transport/sanitizers.h"
#include "tests/transport/world.h"

namespace ravnest::transport {

// What every transport does when something goes wrong. Instantiated for each kind of network.
template <typename World>
class FaultContract : public ::testing::Test {
 protected:
  static TransportOptions quick() {
    TransportOptions options;
    options.timeouts.first_backoff = Milliseconds(5);
    options.timeouts.longest_backoff = Milliseconds(50);
    return options;
  }
  // Nodes that think a peer lost after half a second.
  static TransportOptions alert() {
    TransportOptions options = quick();
    options.timeouts.heartbeat = Milliseconds(50);
    options.timeouts.lost_after = Milliseconds(500);
    return options;
  }

  World world_;
};

TYPED_TEST_SUITE_P(FaultContract);

TYPED_TEST_P(FaultContract, EveryFaultOfAFrameIsHarmless) {
  struct Case {
    Fault fault;
    const char* frame;
    bool at_sender;
  };
  std::vector<Case> cases;
  for (const Fault fault :
       {Fault::kDrop, Fault::kDuplicate, Fault::kReorder, Fault::kBreak, Fault::kDelay}) {
    for (const char* frame : {"begin", "piece", "hello"}) {
      cases.push_back({fault, frame, true});
    }
    for (const char* frame : {"welcome", "ack"}) {
      cases.push_back({fault, frame, false});
    }
  }
  TransportOptions options = this->quick();
  options.largest_chunk = 64 << 10;
  options.timeouts.handshake = Milliseconds(300);  // for hellos and welcomes that are dropped
  options.timeouts.heartbeat = Milliseconds(100);  // for the last ack
  options.window.messages = 3;
  for (const Case& each : cases) {
    SCOPED_TRACE(concat(static_cast<int>(each.fault), " ", each.frame));
    TestNode a(this->world_, "node_0", options);
    TestNode b(this->world_, "node_1", options);
    Faults& faults = each.at_sender ? *a.faults : *b.faults;
    faults.inject(each.fault, each.frame);
    Inbox inbox;
    const auto receiver = b.transport->receive(a.peer(), "forward", inbox.handler());
    const auto sender = a.transport->open(b.peer(), "forward");
    std::jthread sending([&] {
      for (std::int64_t pass = 1; pass <= 12; ++pass) {
        sender->send(numbered(pass, 200'000), kPatience);
      }
      sender->close(kPatience);
    });
    EXPECT_EQ(take_passes(inbox, 12), passes_to(12));
    EXPECT_FALSE(inbox.take(kPatience));
    EXPECT_EQ(faults.count(each.fault), 1U);
  }
}

TYPED_TEST_P(FaultContract, ManyLostConnectionsLoseNothing) {
  TestNode a(this->world_, "node_0", this->quick());
  TestNode b(this->world_, "node_1", this->quick());
  Inbox inbox;
  const auto receiver = b.transport->receive(a.peer(), "forward", inbox.handler());
  const auto sender = a.transport->open(b.peer(), "forward");
  std::jthread sending([&] {
    for (std::int64_t pass = 1; pass <= 100; ++pass) {
      if (pass % 10 == 0) {
        a.faults->inject(Fault::kBreak, "begin");
      }
      sender->send(numbered(pass, 1000), kPatience);
    }
  });
  EXPECT_EQ(take_passes(inbox, 100), passes_to(100));
  EXPECT_EQ(a.faults->count(Fault::kBreak), 10U);
}

TYPED_TEST_P(FaultContract, SendsAgainOnceWhatWasLost) {
  TestNode a(this->world_, "node_0", this->quick());
  TestNode b(this->world_, "node_1", this->quick());
  Inbox inbox;
  const auto receiver = b.transport->receive(a.peer(), "forward", inbox.handler());
  const auto sender = a.transport->open(b.peer(), "forward");
  sender->send(numbered(1), kPatience);
  EXPECT_EQ(take_passes(inbox, 1), passes_to(1));
  sender->flush(kPatience);
  a.faults->inject(Fault::kBreak, "begin");
  sender->send(numbered(2), kPatience);
  EXPECT_EQ(take_passes(inbox, 1), (std::vector<std::int64_t>{2}));
  sender->flush(kPatience);
  EXPECT_EQ(sender->state().resent, 1U);
  EXPECT_EQ(receiver->state().messages, 2U);
}

TYPED_TEST_P(FaultContract, TellsAtOnceWhatWasTakenWhileNobodyWasConnected) {
  TransportOptions options = this->quick();
  options.timeouts.heartbeat = 2 * kPatience;  // its ack would come too late
  options.timeouts.lost_after = 4 * kPatience;
  TestNode a(this->world_, "node_0", options);
  TestNode b(this->world_, "node_1", options);
  Inbox inbox;
  const auto receiver = b.transport->receive(a.peer(), "forward", inbox.handler());
  const auto sender = a.transport->open(b.peer(), "forward");
  sender->send(numbered(1), kPatience);
  auto held = inbox.take(kPatience);
  a.faults->partition("node_1");
  EXPECT_TRUE(b.wait_for(NoticeKind::kLost, "node_0"));
  held.reset();
  a.faults->heal("node_1");
  sender->flush(kPatience);
  EXPECT_EQ(sender->state().resent, 0U);
}

TYPED_TEST_P(FaultContract, DropsWhatComesTwice) {
  TestNode a(this->world_, "node_0", this->quick());
  TestNode b(this->world_, "node_1", this->quick());
  Inbox inbox;
  const auto receiver = b.transport->receive(a.peer(), "forward", inbox.handler());
  a.faults->inject(Fault::kDuplicate, "begin", 5);
  const auto sender = a.transport->open(b.peer(), "forward");
  for (std::int64_t pass = 1; pass <= 5; ++pass) {
    sender->send(numbered(pass), kPatience);
  }
  EXPECT_EQ(take_passes(inbox, 5), passes_to(5));
  sender->close(kPatience);
  EXPECT_FALSE(inbox.take(kPatience));
  EXPECT_EQ(receiver->state().duplicates, 5U);
}

TYPED_TEST_P(FaultContract, APeerThatDiesIsNamedAndMayComeBack) {
  TestNode a(this->world_, "node_0", this->quick());
  const Peer peer{"node_1", this->world_.reserve("node_1")};
  auto b = std::make_unique<TestNode>(this->world_, "node_1", peer.address, this->quick());
  const auto sender = a.transport->open(peer, "forward");
  Inbox back;
  const auto from_b = a.transport->receive(peer, "backward", back.handler());
  {
    Inbox inbox;
    const auto receiver = b->transport->receive(a.peer(), "forward", inbox.handler());
    const auto backward = b->transport->open(a.peer(), "backward");
    backward->send(numbered(7), kPatience);
    sender->send(numbered(1), kPatience);
    EXPECT_EQ(take_passes(inbox, 1), passes_to(1));
    EXPECT_EQ(take_passes(back, 1), (std::vector<std::int64_t>{7}));
    sender->flush(kPatience);
    sender->send(numbered(2), kPatience);
    const auto held = inbox.take(kPatience);  // delivered, but the node dies with it
    b->transport.reset();
  }
  const auto is_lost = [](const char* channel) {
    return [channel](const Notice& notice) {
      return notice.kind == NoticeKind::kLost && notice.peer == "node_1" &&
             notice.channel == channel;
    };
  };
  EXPECT_TRUE(a.notices.wait_for(is_lost("forward"), Milliseconds(5000)));
  EXPECT_TRUE(a.notices.wait_for(is_lost("backward"), Milliseconds(5000)));
  EXPECT_NE(sender->state().text.find("node_0 lost node_1 at " + peer.address), std::string::npos)
      << sender->state().text;
  sender->send(numbered(3), kPatience);

  b = std::make_unique<TestNode>(this->world_, "node_1", peer.address, this->quick());
  Inbox inbox;
  const auto receiver = b->transport->receive(a.peer(), "forward", inbox.handler());
  const auto backward = b->transport->open(a.peer(), "backward");
  EXPECT_EQ(take_passes(inbox, 2), (std::vector<std::int64_t>{2, 3}));
  backward->send(numbered(8), kPatience);
  EXPECT_EQ(take_passes(back, 1), (std::vector<std::int64_t>{8}));
}

TYPED_TEST_P(FaultContract, ASilentPeerIsFoundAndHeardAgain) {
  TestNode a(this->world_, "node_0", this->alert());
  TestNode b(this->world_, "node_1", this->alert());
  Inbox inbox;
  const auto receiver = b.transport->receive(a.peer(), "forward", inbox.handler());
  const auto sender = a.transport->open(b.peer(), "forward");
  sender->send(numbered(1), kPatience);
  EXPECT_EQ(take_passes(inbox, 1), passes_to(1));
  a.faults->silence("node_1");
  sender->send(numbered(2), kPatience);
  EXPECT_TRUE(a.wait_for(NoticeKind::kLost, "node_1"));
  EXPECT_TRUE(b.wait_for(NoticeKind::kLost, "node_0"));
  EXPECT_GT(a.faults->cut_off(), 0U);
  a.faults->heal("node_1");
  EXPECT_EQ(take_passes(inbox, 1), (std::vector<std::int64_t>{2}));
}

TYPED_TEST_P(FaultContract, AQuietChannelIsNoSilentPeer) {
  TransportOptions options = this->alert();
  options.timeouts.lost_after = Milliseconds(1000);
  TestNode a(this->world_, "node_0", options);
  TestNode b(this->world_, "node_1", options);
  Inbox inbox;
  const auto receiver = b.transport->receive(a.peer(), "forward", inbox.handler());
  const auto sender = a.transport->open(b.peer(), "forward");
  sender->send(numbered(1), kPatience);
  EXPECT_EQ(take_passes(inbox, 1), passes_to(1));
  // Nothing is sent for longer than the time after which a peer is thought lost.
  EXPECT_EQ(kind_thrown([&] { inbox.take(Milliseconds(1500)); }), ErrorKind::kTimeout);
  EXPECT_EQ(a.count(NoticeKind::kLost) + b.count(NoticeKind::kLost), 0U);
  EXPECT_EQ(sender->state().phase, Phase::kOpen);
}

TYPED_TEST_P(FaultContract, ANodeWhoseLoopHangsIsFoundThoughItsProcessLives) {
  std::atomic<bool> is_alive = true;
  TransportOptions options = this->alert();
  options.is_alive = [&] { return is_alive.load(); };
  TestNode a(this->world_, "node_0", this->alert());
  TestNode b(this->world_, "node_1", options);
  Inbox inbox;
  const auto receiver = b.transport->receive(a.peer(), "forward", inbox.handler());
  const auto sender = a.transport->open(b.peer(), "forward");
  EXPECT_TRUE(a.wait_for(NoticeKind::kOpen, "node_1"));
  is_alive = false;
  EXPECT_TRUE(a.wait_for(NoticeKind::kLost, "node_1"));
}

TYPED_TEST_P(FaultContract, WhoeverWaitsForALostPeerIsTold) {
  TransportOptions options = this->quick();
  options.timeouts.return_within = Milliseconds(300);
  options.window.messages = 1;
  TestNode a(this->world_, "node_0", options);
  TestNode b(this->world_, "node_1", options);
  Inbox inbox;
  const auto receiver = b.transport->receive(a.peer(), "forward", inbox.handler());
  const auto sender = a.transport->open(b.peer(), "forward");
  sender->send(numbered(1), kPatience);
  const auto held = inbox.take(kPatience);
  b.faults->partition("node_0");
  const std::string sent = text_thrown<Error>([&] { sender->send(numbered(2), kPatience); });
  EXPECT_NE(sent.find("node_0 lost node_1"), std::string::npos) << sent;
  const std::string taken = text_thrown<Error>([&] { inbox.take(kPatience); });
  EXPECT_NE(taken.find("node_1 lost node_0"), std::string::npos) << taken;
  EXPECT_EQ(kind_thrown([&] { sender->flush(kPatience); }), ErrorKind::kPeerLost);
  EXPECT_GT(b.faults->cut_off(), 0U);
}

TYPED_TEST_P(FaultContract, APartitionHeals) {
  TestNode a(this->world_, "node_0", this->quick());
  TestNode b(this->world_, "node_1", this->quick());
  Inbox inbox;
  const auto receiver = b.transport->receive(a.peer(), "forward", inbox.handler());
  const auto sender = a.transport->open(b.peer(), "forward");
  EXPECT_TRUE(a.wait_for(NoticeKind::kOpen, "node_1"));
  a.faults->partition("node_1");
  EXPECT_TRUE(a.wait_for(NoticeKind::kLost, "node_1"));
  sender->send(numbered(1), kPatience);
  a.faults->heal("node_1");
  EXPECT_EQ(take_passes(inbox, 1), passes_to(1));
}

TYPED_TEST_P(FaultContract, APeerThatNeverStartsMayBeGivenUp) {
  TransportOptions options = this->quick();
  options.timeouts.start_within = Milliseconds(100);
  TestNode a(this->world_, "node_0", options);
  const Peer absent{"node_1", this->world_.reserve("node_1")};
  const auto sender = a.transport->open(absent, "forward");
  Inbox inbox;
  const auto receiver = a.transport->receive(absent, "backward", inbox.handler());
  const std::string text = text_thrown<Error>([&] {
    sender->send(numbered(1), kPatience);
    sender->flush(kPatience);
  });
  EXPECT_NE(text.find("node_0 waits for node_1 at " + absent.address), std::string::npos) << text;
  EXPECT_EQ(kind_thrown([&] { inbox.take(kPatience); }), ErrorKind::kPeerLost);
}

TYPED_TEST_P(FaultContract, RefusesAPeerOfAnotherPlan) {
  TransportOptions options = this->quick();
  options.timeouts.refused_patience = Milliseconds(0);
  options.plan = "1111";
  TestNode a(this->world_, "node_0", options);
  options.plan = "2222";
  TestNode b(this->world_, "node_1", options);
  Inbox inbox;
  const auto receiver = b.transport->receive(a.peer(), "forward", inbox.handler());
  const auto sender = a.transport->open(b.peer(), "forward");
  const std::string text = text_thrown<std::invalid_argument>([&] {
    sender->send(numbered(1), kPatience);  // or here, where the refusal was quicker
    sender->flush(kPatience);
  });
  EXPECT_NE(text.find("node_1 runs plan 2222, node_0 plan 1111"), std::string::npos) << text;
  EXPECT_TRUE(b.wait_for(NoticeKind::kRefused, "node_0"));
  EXPECT_EQ(receiver->state().phase, Phase::kWaiting);
}

TYPED_TEST_P(FaultContract, WaitsForALeftoverOfAnotherPlanToGo) {
  TransportOptions options = this->quick();
  options.timeouts.refused_patience = kPatience;
  TestNode a(this->world_, "node_0", options);
  options.plan = "old";
  const Peer peer{"node_1", this->world_.reserve("node_1")};
  auto leftover = std::make_unique<TestNode>(this->world_, "node_1", peer.address, options);
  const auto sender = a.transport->open(peer, "forward");
  sender->send(numbered(1), kPatience);
  EXPECT_TRUE(leftover->wait_for(NoticeKind::kRefused, "node_0"));
  leftover.reset();
  TestNode b(this->world_, "node_1", peer.address, this->quick());
  Inbox inbox;
  const auto receiver = b.transport->receive(a.peer(), "forward", inbox.handler());
  EXPECT_EQ(take_passes(inbox, 1), passes_to(1));
}

TYPED_TEST_P(FaultContract, RefusesTheWrongNode) {
  TransportOptions options = this->quick();
  options.timeouts.refused_patience = Milliseconds(0);
  TestNode a(this->world_, "node_0", options);
  TestNode b(this->world_, "node_2", options);
  const auto sender = a.transport->open({"node_1", b.peer().address}, "forward");
  const std::string text = text_thrown<std::invalid_argument>([&] {
    sender->send(numbered(1), kPatience);  // or here, where the refusal was quicker
    sender->flush(kPatience);
  });
  EXPECT_NE(text.find(this->world_.wrong_node()), std::string::npos) << text;
}

TYPED_TEST_P(FaultContract, TheWordsOfARefusalDoNoHarm) {
  class Refuser : public RawStream {
    void on_frame(const InFrame&) override {
      this->write(Refusal{.text = "\x1b[2J" + std::string(100'000, 'x')});
    }
  };
  const auto carrier = this->world_.make_carrier("node_1", this->world_.anywhere("node_1"));
  carrier->start([](std::shared_ptr<Stream> stream) {
    auto refuser = std::make_shared<Refuser>();
    refuser->set_stream(std::move(stream));
    return refuser;
  });
  TransportOptions options = this->quick();
  options.timeouts.refused_patience = Milliseconds(0);
  TestNode a(this->world_, "node_0", options);
  const auto sender = a.transport->open({"node_1", carrier->address()}, "forward");
  EXPECT_TRUE(a.wait_for(NoticeKind::kFailed, "node_1"));
  const std::string text = sender->state().text;
  EXPECT_NE(text.find("refused: "), std::string::npos) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_LT(text.size(), 3000U);
  carrier->stop();
}

TYPED_TEST_P(FaultContract, AHandlerThatThrowsEndsItsChannelAlone) {
  TestNode a(this->world_, "node_0", this->quick());
  TestNode b(this->world_, "node_1", this->quick());
  Log<std::string> ended;
  const Handler bad{
      .on_message = [](const Delivery&) { throw std::runtime_error("full up"); },
      .on_end =
          [&](const std::exception_ptr& error) {
            ended.add(text_thrown<std::runtime_error>([&] { std::rethrow_exception(error); }));
          }};
  Inbox inbox;
  const auto bad_end = b.transport->receive(a.peer(), "bad", bad);
  const auto good_end = b.transport->receive(a.peer(), "good", inbox.handler());
  const auto to_bad = a.transport->open(b.peer(), "bad");
  const auto to_good = a.transport->open(b.peer(), "good");
  to_bad->send(numbered(1), kPatience);
  EXPECT_TRUE(ended.wait_for([](const std::string& text) { return text == "full up"; }));
  EXPECT_TRUE(a.wait_for(NoticeKind::kFailed, "node_1"));
  const std::string text = text_thrown<Error>([&] { to_bad->send(numbered(2), kPatience); });
  EXPECT_NE(text.find("full up"), std::string::npos) << text;
  to_good->send(numbered(1), kPatience);
  EXPECT_EQ(take_passes(inbox, 1), passes_to(1));
}

TYPED_TEST_P(FaultContract, RefusesAnotherVersionNamingBoth) {
  TestNode b(this->world_, "node_1", this->quick());
  const auto carrier = this->world_.make_carrier("raw", this->world_.anywhere("raw"));
  const auto raw = connect_raw(*carrier, b.reached());
  Hello hello = hello_to("node_1");
  hello.protocol = 99;
  raw->write(hello);
  EXPECT_TRUE(raw->template wait_for<Refusal>());
  const auto refusal = raw->template last<Refusal>();
  const auto both = concat("version ", kProtocolVersion, " of the protocol, raw version 99");
  EXPECT_NE(refusal.text.find(both), std::string::npos) << refusal.text;
  EXPECT_FALSE(refusal.try_again);
  EXPECT_TRUE(raw->wait_for_end());
  carrier->stop();
}

TYPED_TEST_P(FaultContract, RefusesASecondProcessOfTheSameName) {
  TestNode b(this->world_, "node_1", this->quick());
  Inbox inbox;
  const auto receiver = b.transport->receive({"raw", ""}, "forward", inbox.handler());
  const auto carrier = this->world_.make_carrier("raw", this->world_.anywhere("raw"));
  const auto first = connect_raw(*carrier, b.reached());
  first->write(hello_to("node_1"));
  EXPECT_TRUE(first->template wait_for<Welcome>());
  const auto second = connect_raw(*carrier, b.reached());
  Hello other = hello_to("node_1");
  other.instance = 78;
  second->write(other);
  EXPECT_TRUE(second->template wait_for<Refusal>());
  EXPECT_TRUE(second->template last<Refusal>().try_again);
  // The same process, connecting again, replaces its old connection.
  const auto again = connect_raw(*carrier, b.reached());
  again->write(hello_to("node_1"));
  EXPECT_TRUE(again->template wait_for<Welcome>());
  EXPECT_TRUE(first->wait_for_end());
  carrier->stop();
}

TYPED_TEST_P(FaultContract, TurnsAwayWhoDoesNotSayHello) {
  TransportOptions options = this->quick();
  options.timeouts.handshake = Milliseconds(100);
  TestNode b(this->world_, "node_1", options);
  const auto carrier = this->world_.make_carrier("raw", this->world_.anywhere("raw"));
  const auto mute = connect_raw(*carrier, b.reached());
  const auto rude = connect_raw(*carrier, b.reached());
  rude->write(Begin{.sequence = 1});
  EXPECT_TRUE(rude->wait_for_end());
  EXPECT_TRUE(mute->wait_for_end());
  carrier->stop();
}

TYPED_TEST_P(FaultContract, RefusesWhatNoSenderOfOursWouldSend) {
  const TensorClaim fine{.dtype = 1, .shape = {3}, .nbytes = 3};
  const auto with = [&](TensorClaim claim) {
    return Begin{.sequence = 1, .kind = 1, .tensors = {std::move(claim)}};
  };
  const std::vector<FrameHead> heads{
      Begin{.sequence = 1, .kind = 99},
      with({.dtype = 99, .shape = {3}, .nbytes = 3}),
      with({.dtype = 1, .shape = {-3}, .nbytes = 3}),
      with({.dtype = 1, .shape = {1, 1, 1, 1, 1, 1, 1, 1, 3}, .nbytes = 3}),
      with({.dtype = 1, .shape = {4}, .nbytes = 3}),
      with({.dtype = 7, .shape = {std::int64_t{1} << 62, 8}, .nbytes = 0}),
      with({.dtype = 1, .shape = {3}, .numbers = 1, .nbytes = 3}),
      with({.dtype = 1, .shape = {3}, .numbers = 9, .nbytes = 3}),
      Begin{.sequence = 1, .kind = 1, .metadata = std::string(100'000, 'x')},
      Begin{.sequence = 1, .kind = 1, .fields = std::vector<std::int64_t>(17)},
  };
  for (std::size_t i = 0; i < heads.size(); ++i) {
    SCOPED_TRACE(i);
    TestNode b(this->world_, "node_1", this->quick());
    Inbox inbox;
    const auto receiver = b.transport->receive({"raw", ""}, "forward", inbox.handler());
    const auto carrier = this->world_.make_carrier("raw", this->world_.anywhere("raw"));
    const auto raw = connect_raw(*carrier, b.reached());
    raw->write(hello_to("node_1"));
    EXPECT_TRUE(raw->template wait_for<Welcome>());
    raw->write(heads[i]);
    EXPECT_TRUE(raw->template wait_for<Refusal>());
    const std::string text = text_thrown<std::invalid_argument>([&] { inbox.take(kPatience); });
    EXPECT_NE(text.find("It came from raw."), std::string::npos) << text;
    carrier->stop();
  }
}

TYPED_TEST_P(FaultContract, AFrameOutOfPlaceEndsTheConnectionAlone) {
  TestNode b(this->world_, "node_1", this->quick());
  Inbox inbox;
  const auto receiver = b.transport->receive({"raw", ""}, "forward", inbox.handler());
  const auto carrier = this->world_.make_carrier("raw", this->world_.anywhere("raw"));
  const std::vector<FrameHead> heads{hello_to("node_1"), Welcome{}, Ack{.taken = 1},
                                     Piece{.sequence = 1}, Begin{.sequence = 5, .kind = 1}};
  for (const FrameHead& head : heads) {
    SCOPED_TRACE(name_of(head));
    const auto raw = connect_raw(*carrier, b.reached());
    raw->write(hello_to("node_1"));
    EXPECT_TRUE(raw->template wait_for<Welcome>());
    raw->write(head);
    EXPECT_TRUE(raw->wait_for_end());
    EXPECT_TRUE(b.wait_for(NoticeKind::kLost, "raw"));
    b.notices.clear();
  }
  EXPECT_FALSE(b.wait_for(NoticeKind::kFailed, "raw", Milliseconds(0)));
  carrier->stop();
}

TYPED_TEST_P(FaultContract, ClaimsTakeNoMemory) {
  TestNode b(this->world_, "node_1", this->quick());
  const auto carrier = this->world_.make_carrier("raw", this->world_.anywhere("raw"));
  const Bytes first = pattern(1000);
  const auto claim = [&](std::uint64_t nbytes) {
    Inbox inbox;
    const auto receiver = b.transport->receive({"raw", ""}, "forward", inbox.handler());
    const auto raw = connect_raw(*carrier, b.reached());
    raw->write(hello_to("node_1"));
    EXPECT_TRUE(raw->template wait_for<Welcome>());
    const auto size = static_cast<std::int64_t>(nbytes);
    raw->write(
        Begin{
            .sequence = 1, .kind = 1, .tensors = {{.dtype = 1, .shape = {size}, .nbytes = nbytes}}},
        first);
    raw->write(Goodbye{});
    // Refused, or a goodbye in the middle of a message; either way it was read.
    EXPECT_TRUE(raw->wait_for_end());
  };
  const auto claim_often = [&](int times) {
    for (int i = 0; i < times; ++i) {
      claim(std::uint64_t{1} << 40);
      claim(std::uint64_t{2} << 30);
    }
  };
  claim_often(50);
  const std::size_t before = resident_bytes();
  claim_often(kIsSanitized ? 100 : 1000);
  EXPECT_TRUE(kIsSanitized || resident_bytes() < before + (16 << 20));
  carrier->stop();
}

TYPED_TEST_P(FaultContract, RefusesASenderThatIgnoresTheWindow) {
  TransportOptions options = this->quick();
  options.window.messages = 2;
  TestNode b(this->world_, "node_1", options);
  Inbox inbox;
  const auto receiver = b.transport->receive({"raw", ""}, "forward", inbox.handler());
  const auto carrier = this->world_.make_carrier("raw", this->world_.anywhere("raw"));
  const auto raw = connect_raw(*carrier, b.reached());
  raw->write(hello_to("node_1"));
  EXPECT_TRUE(raw->template wait_for<Welcome>());
  EXPECT_EQ(raw->template last<Welcome>().window_messages, 2U);
  for (std::uint64_t sequence = 1; sequence <= 3; ++sequence) {
    raw->write(Begin{.sequence = sequence, .kind = 1});
  }
  EXPECT_TRUE(raw->template wait_for<Refusal>());
  EXPECT_NE(raw->template last<Refusal>().text.find("window of 2 messages"), std::string::npos);
  carrier->stop();
}

REGISTER_TYPED_TEST_SUITE_P(FaultContract, ClaimsTakeNoMemory,
                            AFrameOutOfPlaceEndsTheConnectionAlone, EveryFaultOfAFrameIsHarmless,
                            ManyLostConnectionsLoseNothing, SendsAgainOnceWhatWasLost,
                            TellsAtOnceWhatWasTakenWhileNobodyWasConnected, DropsWhatComesTwice,
                            APeerThatDiesIsNamedAndMayComeBack, ASilentPeerIsFoundAndHeardAgain,
                            AQuietChannelIsNoSilentPeer,
                            ANodeWhoseLoopHangsIsFoundThoughItsProcessLives,
                            WhoeverWaitsForALostPeerIsTold, APartitionHeals,
                            APeerThatNeverStartsMayBeGivenUp, RefusesAPeerOfAnotherPlan,
                            WaitsForALeftoverOfAnotherPlanToGo, RefusesTheWrongNode,
                            TheWordsOfARefusalDoNoHarm, AHandlerThatThrowsEndsItsChannelAlone,
                            RefusesAnotherVersionNamingBoth, RefusesASecondProcessOfTheSameName,
                            TurnsAwayWhoDoesNotSayHello, RefusesWhatNoSenderOfOursWouldSend,
                            RefusesASenderThatIgnoresTheWindow);

}  // namespace ravnest::transport
