#include "ravnest/agent/lineup.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>
#include <utility>

#include "ravnest/base/error.h"
#include "ravnest/coordinator/words.h"

namespace ravnest::agent {

using coordinator::Assignment;
using coordinator::ClusterLineup;
using package::NodeConfig;

namespace {

std::size_t take_number(std::string_view& text, std::string_view before) {
  std::size_t number = 0;
  if (text.starts_with(before)) {
    const auto [end, error] =
        std::from_chars(text.data() + before.size(), text.data() + text.size(), number);
    if (error == std::errc()) {
      text.remove_prefix(static_cast<std::size_t>(end - text.data()));
      return number;
    }
  }
  throw_invalid("[agent] expected a node file with places for machines, got another.");
}

// "cluster-<shape>.stage-<k>:1"
std::size_t stage_of(std::string_view place) {
  take_number(place, "cluster-");
  const std::size_t stage = take_number(place, ".stage-");
  if (place != ":1") {
    throw_invalid("[agent] expected a node file with places for machines, got another.");
  }
  return stage;
}

class Machines {
 public:
  Machines(const Assignment& assignment, std::string self, const Resolve& resolve)
      : assignment_(assignment), self_(std::move(self)), resolve_(resolve) {}

  std::string address(std::size_t rank, std::size_t stage) const {
    const ClusterLineup& cluster = assignment_.clusters[rank];
    if (stage >= cluster.stages.size()) {
      throw_invalid("[agent] expected a node file of this line-up, got one with more stages.");
    }
    const bool is_self = cluster.id == assignment_.seat.cluster &&
                         stage == static_cast<std::size_t>(assignment_.seat.stage);
    return is_self ? self_ : resolve_(cluster.stages[stage]);
  }

  std::int64_t id(std::size_t rank, std::size_t stage) const {
    return coordinator::node_id_of(assignment_.clusters[rank].epoch,
                                   static_cast<std::int64_t>(stage));
  }

 private:
  const Assignment& assignment_;
  const std::string self_;
  const Resolve& resolve_;
};

}  // namespace

std::size_t rank_of(const Assignment& assignment) {
  for (std::size_t rank = 0; rank < assignment.clusters.size(); ++rank) {
    const ClusterLineup& cluster = assignment.clusters[rank];
    if (cluster.id == assignment.seat.cluster && assignment.seat.stage >= 0 &&
        static_cast<std::size_t>(assignment.seat.stage) < cluster.stages.size()) {
      return rank;
    }
  }
  throw_invalid("[agent] expected an assignment with its own place, got one without.");
}

NodeConfig with_machines(NodeConfig node, const Assignment& assignment, const std::string& self,
                         const Resolve& resolve) {
  const Machines machines(assignment, self, resolve);
  const std::size_t rank = rank_of(assignment);
  if (node.stage != static_cast<std::size_t>(assignment.seat.stage) ||
      node.mates.size() != assignment.clusters[rank].stages.size()) {
    throw_invalid("[agent] expected the node file of this place, got another's.");
  }
  const auto mate = [&](const std::string& place) {
    return machines.address(rank, stage_of(place));
  };
  node.id = machines.id(rank, node.stage);
  node.address = self;
  node.cluster = rank;
  node.clusters = assignment.clusters.size();
  for (std::size_t k = 0; k < node.mates.size(); ++k) {
    node.mates[k].id = machines.id(rank, k);
    node.mates[k].address = machines.address(rank, k);
  }
  for (auto* neighbour : {&node.next, &node.previous}) {
    if (*neighbour) {
      *neighbour = mate(**neighbour);
    }
  }
  for (auto& [name, home] : node.tied) {
    home = mate(home);
  }
  for (auto& [name, copies] : node.tied_copies) {
    for (std::string& copy : copies) {
      copy = mate(copy);
    }
  }
  for (package::NodeRing& ring : node.rings) {
    const std::vector<std::string> shapes = std::move(ring.members);
    ring.members.clear();
    ring.member_ids.clear();
    for (std::size_t c = 0; c < assignment.clusters.size(); ++c) {
      const auto shape = static_cast<std::size_t>(assignment.clusters[c].shape);
      if (shape >= shapes.size()) {
        throw_invalid("[agent] expected a cluster of one of the plan's shapes, got another.");
      }
      const std::size_t stage = stage_of(shapes[shape]);
      ring.members.push_back(machines.address(c, stage));
      ring.member_ids.push_back(machines.id(c, stage));
    }
  }
  return node;
}

bool fill_gaps(Assignment& assignment, const Assignment* former) {
  std::map<std::pair<coordinator::Epoch, coordinator::MemberId>, coordinator::Peer> known;
  for (const ClusterLineup& cluster : former ? former->clusters : std::vector<ClusterLineup>()) {
    for (const coordinator::Peer& peer : cluster.stages) {
      known.emplace(std::pair(cluster.epoch, peer.provider), peer);
    }
  }
  bool is_whole = true;
  for (ClusterLineup& cluster : assignment.clusters) {
    for (coordinator::Peer& peer : cluster.stages) {
      const auto found = known.find({cluster.epoch, peer.provider});
      if (found != known.end() && (peer.address.empty() || peer.address == found->second.address)) {
        peer.address = found->second.address;
        peer.is_relayed |= found->second.is_relayed;
      }
      is_whole &= !peer.address.empty();
    }
  }
  auto& feed = assignment.feed;
  if (feed && former && former->feed && former->feed->requester == feed->requester &&
      former->feed->address == feed->address) {
    feed->is_relayed |= former->feed->is_relayed;
  }
  return is_whole;
}

std::int64_t providers_here(const Assignment& assignment) {
  const auto& mates = assignment.clusters[rank_of(assignment)].stages;
  const auto host = [](const coordinator::Peer& peer) {
    return peer.address.substr(0, peer.address.rfind(':'));
  };
  const std::string here = host(mates[static_cast<std::size_t>(assignment.seat.stage)]);
  std::int64_t count = 0;
  for (const ClusterLineup& cluster : assignment.clusters) {
    count += std::ranges::count(cluster.stages, here, host);
  }
  return std::max<std::int64_t>(count, 1);
}

std::map<std::string, std::string> members_of(const Assignment& assignment) {
  std::map<std::string, std::string> members;
  for (const ClusterLineup& cluster : assignment.clusters) {
    for (std::size_t k = 0; k < cluster.stages.size(); ++k) {
      members[concat("node_",
                     coordinator::node_id_of(cluster.epoch, static_cast<std::int64_t>(k)))] =
          cluster.stages[k].provider;
    }
  }
  if (assignment.feed) {
    members[coordinator::kRequesterName] = assignment.feed->requester;
  }
  return members;
}

}  // namespace ravnest::agent
