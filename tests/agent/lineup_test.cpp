// A node file of a plan's shapes, for the machines of an assignment.

#include "ravnest/agent/lineup.h"

#include <gtest/gtest.h>

#include "ravnest/base/error.h"
#include "ravnest/coordinator/words.h"

namespace ravnest::agent {
namespace {

using coordinator::Assignment;
using coordinator::ClusterLineup;
using coordinator::node_id_of;
using coordinator::Peer;

Peer peer(const std::string& name) {
  return {.provider = "id-" + name, .name = name, .address = name + ":7000"};
}

std::string resolve(const Peer& peer) { return peer.is_relayed ? "127.0.0.1:1" : peer.address; }

// Cluster 4 is of shape 0, with two stages; cluster 5 of shape 1, with three; cluster 9 came later,
// and is cut like the first. This machine holds the second stage of the later one.
Assignment later_cluster() {
  Assignment assignment{.seat = {.job = 1, .cluster = 9, .stage = 1}, .epoch = 12, .shape = 0};
  assignment.clusters = {
      {.id = 4, .shape = 0, .epoch = 10, .stages = {peer("a"), peer("b")}},
      {.id = 5, .shape = 1, .epoch = 11, .stages = {peer("c"), peer("d"), peer("e")}},
      {.id = 9, .shape = 0, .epoch = 12, .stages = {peer("f"), peer("g")}}};
  return assignment;
}

// The second stage of shape 0, as the plan has it.
package::NodeConfig second_stage() {
  package::NodeConfig node{.id = 1,
                           .address = "cluster-0.stage-1:1",
                           .plan = "plan",
                           .cluster = 0,
                           .clusters = 2,
                           .stage = 1,
                           .stages = 2,
                           .role = "leaf"};
  node.previous = "cluster-0.stage-0:1";
  node.mates = {{.id = 0, .address = "cluster-0.stage-0:1", .inputs = {0}},
                {.id = 1, .address = "cluster-0.stage-1:1"}};
  node.tied = {{"in.weight", "cluster-0.stage-0:1"}};
  node.tied_copies = {{"out.weight", {"cluster-0.stage-0:1"}}};
  // The range is held by stage 1 in shape 0, and by stages 1 and 2 in shape 1.
  node.rings = {{.id = 3,
                 .parameters = {"late.weight"},
                 .members = {"cluster-0.stage-1:1", "cluster-1.stage-1:1"},
                 .member_ids = {1, 3}},
                {.id = 4,
                 .parameters = {"out.weight"},
                 .members = {"cluster-0.stage-1:1", "cluster-1.stage-2:1"},
                 .member_ids = {1, 4}}};
  return node;
}

TEST(Lineup, GivesPlacesTheirMachines) {
  const auto node = with_machines(second_stage(), later_cluster(), "here:9", resolve);
  EXPECT_EQ(node.id, node_id_of(12, 1));
  EXPECT_EQ(node.address, "here:9");
  EXPECT_EQ(node.plan, "plan");
  EXPECT_EQ(node.cluster, 2U);  // the rank among the job's clusters
  EXPECT_EQ(node.clusters, 3U);
  EXPECT_EQ(node.previous, "f:7000");
  EXPECT_FALSE(node.next);
  ASSERT_EQ(node.mates.size(), 2U);
  EXPECT_EQ(node.mates[0].id, node_id_of(12, 0));
  EXPECT_EQ(node.mates[0].address, "f:7000");
  EXPECT_EQ(node.mates[0].inputs, std::vector<std::size_t>{0});
  EXPECT_EQ(node.mates[1].address, "here:9");
  EXPECT_EQ(node.tied.at("in.weight"), "f:7000");
  EXPECT_EQ(node.tied_copies.at("out.weight"), std::vector<std::string>{"f:7000"});
}

TEST(Lineup, AClusterThatCameLaterHasThePartOfItsShapeInEveryRing) {
  const auto node = with_machines(second_stage(), later_cluster(), "here:9", resolve);
  ASSERT_EQ(node.rings.size(), 2U);
  EXPECT_EQ(node.rings[0].id, 3U);
  EXPECT_EQ(node.rings[0].members, (std::vector<std::string>{"b:7000", "d:7000", "here:9"}));
  EXPECT_EQ(node.rings[0].member_ids,
            (std::vector<std::int64_t>{node_id_of(10, 1), node_id_of(11, 1), node_id_of(12, 1)}));
  EXPECT_EQ(node.rings[1].members, (std::vector<std::string>{"b:7000", "e:7000", "here:9"}));
  EXPECT_EQ(node.rings[1].member_ids[1], node_id_of(11, 2));
}

TEST(Lineup, ARelayedPeerIsAtTheEndOfTheRelay) {
  Assignment assignment = later_cluster();
  assignment.clusters[2].stages[0].is_relayed = true;
  const auto node = with_machines(second_stage(), assignment, "here:9", resolve);
  EXPECT_EQ(node.previous, "127.0.0.1:1");
  EXPECT_EQ(node.mates[0].address, "127.0.0.1:1");
}

TEST(Lineup, WhatDoesNotFitIsRefused) {
  const auto refuses = [](const package::NodeConfig& node, const Assignment& assignment) {
    EXPECT_THROW(with_machines(node, assignment, "here:9", resolve), std::invalid_argument);
  };
  Assignment assignment = later_cluster();
  assignment.seat.cluster = 7;
  refuses(second_stage(), assignment);
  for (const std::int64_t stage : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{2}}) {
    assignment = later_cluster();
    assignment.seat.stage = stage;
    refuses(second_stage(), assignment);
  }
  assignment = later_cluster();
  assignment.clusters[2].stages.push_back(peer("h"));  // another cut
  refuses(second_stage(), assignment);
  for (const std::int64_t shape : {std::int64_t{-1}, std::int64_t{2}}) {
    assignment = later_cluster();
    assignment.clusters[1].shape = shape;
    refuses(second_stage(), assignment);
  }
  for (const char* place :
       {"", "a:7000", "cluster-0.stage-5:1", "cluster-0.stage-0:2", "cluster-0.stage-0",
        "cluster-.stage-0:1", "cluster-0.stage-99999999999999999999:1", "xcluster-0.stage-0:1"}) {
    package::NodeConfig node = second_stage();
    node.previous = place;
    refuses(node, later_cluster());
    node = second_stage();
    node.rings[0].members[1] = place;
    refuses(node, later_cluster());
  }
}

TEST(Lineup, EveryNodeIsBorneByItsMember) {
  Assignment assignment = later_cluster();
  assignment.feed = coordinator::Feed{.requester = "id-rita", .address = "rita:1"};
  const auto members = members_of(assignment);
  EXPECT_EQ(members.size(), 8U);
  EXPECT_EQ(members.at(concat("node_", node_id_of(10, 0))), "id-a");
  EXPECT_EQ(members.at(concat("node_", node_id_of(11, 2))), "id-e");
  EXPECT_EQ(members.at(concat("node_", node_id_of(12, 1))), "id-g");
  EXPECT_EQ(members.at("requester"), "id-rita");
}

TEST(Lineup, ProvidersOfTheSameHostShareItsCores) {
  Assignment assignment = later_cluster();
  EXPECT_EQ(providers_here(assignment), 1);
  assignment.clusters[0].stages[1].address = "g:7001";
  assignment.clusters[1].stages[0].address = "g:7002";
  assignment.clusters[1].stages[1].address = "gg:7000";
  EXPECT_EQ(providers_here(assignment), 3);
  assignment.clusters[2].stages[1].address = "[::1]:7000";
  EXPECT_EQ(providers_here(assignment), 1);
}

TEST(Lineup, AnAddressThatTheServerHasForgottenIsTheOneFromBefore) {
  const Assignment before = later_cluster();
  Assignment now = before;
  EXPECT_TRUE(fill_gaps(now, nullptr));
  now.clusters[0].stages[0].address = "";
  now.clusters[1].stages[0].address = "moved:1";
  Assignment unknown = now;
  EXPECT_FALSE(fill_gaps(unknown, nullptr));
  EXPECT_TRUE(fill_gaps(now, &before));
  EXPECT_EQ(now.clusters[0].stages[0].address, "a:7000");
  EXPECT_EQ(now.clusters[1].stages[0].address, "moved:1");
  now.clusters[0].stages[0] = {.provider = "id-new", .name = "new"};
  EXPECT_FALSE(fill_gaps(now, &before));
}

// A stage that works is not to be started again because the server was.
TEST(Lineup, ALinkThatWasRelayedStaysSoInItsEpoch) {
  Assignment before = later_cluster();
  before.clusters[0].stages[0].is_relayed = true;
  before.clusters[1].stages[0].is_relayed = true;
  before.feed = {.requester = "rita", .address = "r:1", .is_relayed = true};
  Assignment now = later_cluster();
  now.clusters[1].epoch = 13;
  now.feed = {.requester = "rita", .address = "r:1"};
  EXPECT_TRUE(fill_gaps(now, &before));
  EXPECT_TRUE(now.clusters[0].stages[0].is_relayed);
  EXPECT_FALSE(now.clusters[0].stages[1].is_relayed);
  EXPECT_FALSE(now.clusters[1].stages[0].is_relayed);
  EXPECT_TRUE(now.feed->is_relayed);
  now.feed = {.requester = "rita", .address = "r:2"};
  EXPECT_TRUE(fill_gaps(now, &before));
  EXPECT_FALSE(now.feed->is_relayed);
}

}  // namespace
}  // namespace ravnest::agent
