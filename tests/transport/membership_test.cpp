// Who may be here, where nodes prove who they are.

#include <thread>

#include "tests/base/has.h"
#include "tests/transport/raw_stream.h"
#include "tests/transport/tls_world.h"

namespace ravnest::transport {
namespace {

// TlsWorld, but who is in the plan, and which certificate a node has, is the test's to say.
struct PlannedWorld : TlsWorld {
  Members plan = TlsWorld::members();
  std::map<std::string, trust::Identity> identities{};

  Members members() const { return plan; }
  std::unique_ptr<Carrier> make_carrier(const std::string& name, const std::string& address) const {
    const auto found = identities.find(name);
    const auto identity = found == identities.end() ? identity_of(name) : found->second;
    return make_grpc_carrier({.listen = address, .credentials = make_tls_credentials(identity)},
                             handshake);
  }
};

class Membership : public ::testing::Test {
 protected:
  static TransportOptions impatient() {
    TransportOptions options;
    options.timeouts.refused_patience = Milliseconds(0);
    return options;
  }
  static TransportOptions patient() {
    TransportOptions options;
    options.timeouts.refused_patience = kPatience;
    return options;
  }
  // What a sender's user is told in the end.
  static std::string refusal_of(Sender& sender) {
    return text_thrown<std::invalid_argument>([&] {
      sender.send(numbered(1), kPatience);  // or here, where the refusal was quicker
      sender.flush(kPatience);
    });
  }

  PlannedWorld world_;
};

TEST_F(Membership, WhoIsNotInThePlanIsRefusedWithASentence) {
  PlannedWorld without;
  without.plan.erase("node_0");
  TestNode a(world_, "node_0", impatient());
  TestNode b(without, "node_1");
  Inbox inbox;
  const auto receiver = b.transport->receive(a.peer(), "forward", inbox.handler());
  const auto sender = a.transport->open(b.peer(), "forward");
  const std::string text = refusal_of(*sender);
  EXPECT_TRUE(has(text, "node_0 is not in the plan")) << text;
  EXPECT_TRUE(b.wait_for(NoticeKind::kRefused, "node_0"));
  EXPECT_EQ(receiver->state().messages, 0U);
}

TEST_F(Membership, WhoIsNotInThePlanIsRefusedOnChannelsThatNobodyAskedForToo) {
  PlannedWorld without;
  without.plan.erase("node_0");
  TestNode a(world_, "node_0", impatient());
  TestNode b(without, "node_1");
  const auto sender = a.transport->open(b.peer(), "other");
  EXPECT_TRUE(has(refusal_of(*sender), "node_0 is not in the plan"));
}

TEST_F(Membership, AMemberMayNotBearAnothersName) {
  PlannedWorld impostors;
  impostors.identities.emplace("node_0", TlsWorld::identity_of("node_3"));
  TestNode a(impostors, "node_0", impatient());
  TestNode b(world_, "node_1");
  Inbox inbox;
  const auto receiver = b.transport->receive(a.peer(), "forward", inbox.handler());
  const auto sender = a.transport->open(b.peer(), "forward");
  const std::string text = refusal_of(*sender);
  EXPECT_TRUE(has(text,
                  "node_0 is member member-node-0 by the plan, and who connects is member "
                  "member-node-3"))
      << text;
  EXPECT_EQ(receiver->state().phase, Phase::kWaiting);
}

TEST_F(Membership, AnImpostorIsToldNothing) {
  PlannedWorld impostors;
  impostors.identities.emplace("node_1", TlsWorld::identity_of("node_3"));
  Log<std::string> heard;
  const auto impostor = impostors.make_carrier("node_1", "127.0.0.1:0");
  impostor->start([&](const std::shared_ptr<Stream>& stream) {
    heard.add(stream->remote());
    return std::make_shared<RawStream>();
  });
  TestNode a(world_, "node_0", impatient());
  const auto sender = a.transport->open({"node_1", impostor->address()}, "forward");
  const std::string text = refusal_of(*sender);
  EXPECT_TRUE(has(text, "who answers there is not member member-node-1")) << text;
  impostor->stop();
  EXPECT_TRUE(heard.entries().empty());
}

TEST_F(Membership, AnotherAuthoritysNodeIsToldNothing) {
  PlannedWorld others;
  const auto other = trust::Authority::make(std::chrono::system_clock::now());
  others.identities.emplace("node_1", other.make_identity({.id = "member-node-1"}, valid_now()));
  TestNode a(world_, "node_0", impatient());
  TestNode b(others, "node_1");
  const auto sender = a.transport->open(b.peer(), "forward");
  const std::string text = refusal_of(*sender);
  EXPECT_TRUE(has(text, "certificate is not of our authority, or is not valid")) << text;
}

TEST_F(Membership, ANodeWithoutTlsIsToldNothing) {
  GrpcWorld plain;
  TestNode a(world_, "node_0", impatient());
  TestNode b(plain, "node_1");
  const auto sender = a.transport->open(b.peer(), "forward");
  const std::string text = refusal_of(*sender);
  EXPECT_TRUE(has(text, "does not speak TLS")) << text;
}

TEST_F(Membership, ALaterPlanCutsOffWhoLeft) {
  TestNode a(world_, "node_0", impatient());
  TestNode b(world_, "node_1");
  Inbox inbox;
  const auto receiver = b.transport->receive(a.peer(), "forward", inbox.handler());
  const auto sender = a.transport->open(b.peer(), "forward");
  sender->send(numbered(1), kPatience);
  EXPECT_EQ(take_passes(inbox, 1), passes_to(1));
  sender->flush(kPatience);
  Members later = world_.plan;
  later.erase("node_0");
  b.transport->set_members(later);
  EXPECT_NE(receiver->state().phase, Phase::kOpen);
  EXPECT_TRUE(has(refusal_of(*sender), "node_0 is not in the plan")) << sender->state().text;
  EXPECT_EQ(receiver->state().messages, 1U);
}

TEST_F(Membership, ALaterPlanLetsInWhoJoined) {
  PlannedWorld without;
  without.plan.erase("node_0");
  TestNode a(world_, "node_0", patient());
  TestNode b(without, "node_1");
  Inbox inbox;
  const auto receiver = b.transport->receive(a.peer(), "forward", inbox.handler());
  const auto sender = a.transport->open(b.peer(), "forward");
  sender->send(numbered(1), kPatience);
  EXPECT_TRUE(b.wait_for(NoticeKind::kRefused, "node_0"));
  b.transport->set_members(world_.plan);
  EXPECT_EQ(take_passes(inbox, 1), passes_to(1));
}

TEST_F(Membership, WhoStaysNoticesNothingOfALaterPlan) {
  TestNode a(world_, "node_0");
  TestNode b(world_, "node_1");
  Inbox inbox;
  const auto receiver = b.transport->receive(a.peer(), "forward", inbox.handler());
  const auto sender = a.transport->open(b.peer(), "forward");
  sender->send(numbered(1), kPatience);
  Members later = world_.plan;
  later.erase("node_7");
  a.transport->set_members(later);
  b.transport->set_members(later);
  sender->send(numbered(2), kPatience);
  EXPECT_EQ(take_passes(inbox, 2), passes_to(2));
  sender->close(kPatience);
  EXPECT_EQ(a.count(NoticeKind::kLost), 0U);
  EXPECT_EQ(b.count(NoticeKind::kLost), 0U);
}

TEST_F(Membership, ASenderToANodeThatLeftFails) {
  TestNode a(world_, "node_0");
  TestNode b(world_, "node_1");
  const auto sender = a.transport->open(b.peer(), "forward");
  Members later = world_.plan;
  later.erase("node_1");
  a.transport->set_members(later);
  const std::string text = text_thrown<Error>([&] { sender->send(numbered(1), kPatience); });
  EXPECT_TRUE(has(text, "is not in the plan any more")) << text;
  EXPECT_THROW(static_cast<void>(a.transport->open(b.peer(), "forward")), std::invalid_argument);
}

TEST_F(Membership, ANameMayPassToAnotherMember) {
  const std::string address = world_.reserve("node_1");
  TestNode a(world_, "node_0", patient());
  auto first = std::make_unique<TestNode>(world_, "node_1", address);
  Inbox inbox;
  auto receiver = first->transport->receive(a.peer(), "forward", inbox.handler());
  const auto sender = a.transport->open({"node_1", address}, "forward");
  sender->send(numbered(1), kPatience);
  EXPECT_EQ(take_passes(inbox, 1), passes_to(1));
  sender->flush(kPatience);
  Members later = world_.plan;
  later["node_1"] = TlsWorld::member_of("node_5");
  a.transport->set_members(later);
  sender->send(numbered(2), kPatience);  // not to the one that bore the name
  receiver.reset();
  first.reset();
  PlannedWorld next;
  next.plan = later;
  next.identities.emplace("node_1", TlsWorld::identity_of("node_5"));
  TestNode second(next, "node_1", address);
  Inbox fresh;
  const auto again = second.transport->receive(a.peer(), "forward", fresh.handler());
  const auto delivery = fresh.take(kPatience);
  ASSERT_TRUE(delivery);
  EXPECT_EQ(delivery->message.pass, 2);
}

TEST_F(Membership, APeersOwnWordGoesBeforeThePlan) {
  PlannedWorld without;
  without.plan.clear();
  TestNode a(without, "node_0");
  TestNode b(without, "node_1");
  Inbox inbox;
  const auto receiver = b.transport->receive(a.reached(), "forward", inbox.handler());
  const auto sender = a.transport->open(b.reached(), "forward");
  sender->send(numbered(1), kPatience);
  EXPECT_EQ(take_passes(inbox, 1), passes_to(1));
}

TEST_F(Membership, WithCredentialsOnlyMembersAreSpokenWith) {
  TestNode a(world_, "node_0");
  const std::string text = text_thrown<std::invalid_argument>(
      [&] { static_cast<void>(a.transport->open({"stranger", "127.0.0.1:1"}, "forward")); });
  EXPECT_TRUE(has(text, "expected a peer that is in the plan, got stranger")) << text;
}

TEST_F(Membership, WithoutCredentialsNobodyCanBeNamed) {
  TransportOptions options{.name = "node_0", .plan = "plan", .members = {{"node_1", "a"}}};
  EXPECT_THROW(make_grpc_transport({}, options), std::invalid_argument);
  options.members.clear();
  const auto transport = make_grpc_transport({}, options);
  EXPECT_THROW(transport->set_members({{"node_1", "a"}}), std::invalid_argument);
}

TEST_F(Membership, CredentialsAreCheckedBeforeTheyAreUsed) {
  const auto now = std::chrono::system_clock::now();
  const auto late = TlsWorld::authority().make_identity(
      {.id = "a"}, {.from = now - std::chrono::days(9), .until = now - std::chrono::days(1)});
  EXPECT_TRUE(has(
      text_thrown<std::invalid_argument>([&] { static_cast<void>(make_tls_credentials(late)); }),
      "expired"));
  trust::Identity mixed = TlsWorld::identity_of("node_0");
  mixed.key = trust::PrivateKey::make();
  EXPECT_THROW(static_cast<void>(make_tls_credentials(mixed)), std::invalid_argument);
}

TEST_F(Membership, MembersComeAndGoWhileOthersSend) {
  TestNode a(world_, "node_0", patient());
  TestNode b(world_, "node_1");
  Inbox inbox;
  const auto receiver = b.transport->receive(a.peer(), "forward", inbox.handler());
  const auto sender = a.transport->open(b.peer(), "forward");
  Members without = world_.plan;
  without.erase("node_0");
  std::jthread changing([&] {
    for (int i = 0; i < 20; ++i) {
      b.transport->set_members(i % 2 == 0 ? without : world_.plan);
    }
  });
  std::jthread sending([&] {
    for (std::int64_t pass = 1; pass <= 100; ++pass) {
      sender->send(numbered(pass, 1000), kPatience);
    }
  });
  EXPECT_EQ(take_passes(inbox, 100), passes_to(100));
}

}  // namespace
}  // namespace ravnest::transport
