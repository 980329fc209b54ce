#include "ravnest/planner/report/report.h"

#include <algorithm>

#include "ravnest/base/error.h"
#include "ravnest/planner/json.h"

namespace ravnest::planner {

namespace {

const std::string& address_of(const Plan& plan, std::size_t cluster, std::size_t stage) {
  return plan.machine(plan.clusters[cluster].stages[stage]).address;
}

// Characters that Python's repr writes as \xNN: C0 and C1 controls, DEL, and the two
// blanks of Latin-1 that cannot be seen. Gives the bytes taken, 0 for any other.
std::size_t unseen_at(std::string_view text, std::size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x20 || byte == 0x7f) {
    return 1;
  }
  if (byte != 0xc2 || at + 1 == text.size()) {
    return 0;
  }
  const auto next = static_cast<unsigned char>(text[at + 1]);
  return (next >= 0x80 && next <= 0xa0) || next == 0xad ? 2 : 0;
}

std::string python_escaped(unsigned char code) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  switch (code) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return {'\\', 'x', kDigits[code >> 4], kDigits[code & 15]};
  }
}

std::string python_repr(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const bool has_double = text.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string out(1, quote);
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (const std::size_t taken = unseen_at(text, at); taken > 0) {
      at += taken - 1;
      out += python_escaped(static_cast<unsigned char>(text[at]));
      continue;
    }
    if (text[at] == quote || text[at] == '\\') {
      out += '\\';
    }
    out += text[at];
  }
  return out + quote;
}

// Where a machine works; by node id these are the entries of the log.
struct Seat {
  std::int64_t node;
  std::size_t cluster;
  std::size_t stage;
};

std::vector<Seat> seats_by_node(const Plan& plan) {
  std::vector<Seat> seats;
  for (std::size_t c = 0; c < plan.clusters.size(); ++c) {
    for (std::size_t k = 0; k < plan.clusters[c].stages.size(); ++k) {
      seats.push_back({plan.machine(plan.clusters[c].stages[k]).id, c, k});
    }
  }
  std::ranges::sort(seats, {}, &Seat::node);
  return seats;
}

std::string log_entry(const Plan& plan, const Seat& seat) {
  std::string ids;
  for (const Ring* ring : rings_of(plan, seat.cluster, seat.stage)) {
    ids += concat(ids.empty() ? "" : ", ", ring->id, ": ", python_repr(ring->parameters.at(0)));
  }
  std::string addresses;
  for (const auto& [address, parameter] : next_holders(plan, seat.cluster, seat.stage)) {
    addresses +=
        concat(addresses.empty() ? "" : ", ", python_repr(address), ": ", python_repr(parameter));
  }
  return concat("Node(", seat.node, ", Cluster(", seat.cluster, "))\nself.IP(",
                address_of(plan, seat.cluster, seat.stage), ")\nRing IDs({", ids,
                "})\nAddress2Param({", addresses, "})\n");
}

OrderedJson memory_json(const StageMemory& memory) {
  return {{"weights", memory.weights},
          {"versions", memory.versions},
          {"gradients", memory.gradients},
          {"optimizer", memory.optimizer},
          {"activations", memory.activations},
          {"temporary", memory.temporary},
          {"total", memory.total()}};
}

OrderedJson link_json(const Plan& plan, const Cluster& cluster, std::size_t index) {
  if (index + 1 == cluster.stages.size()) {
    return nullptr;
  }
  const Stage& stage = cluster.stages[index];
  const Link link = link_between(plan.machine(stage), plan.machine(cluster.stages[index + 1]));
  return {{"forward_bytes", stage.forward_bytes},
          {"backward_bytes", stage.backward_bytes},
          {"seconds", stage.link_seconds},
          {"mbps", link.mbps},
          {"latency_ms", link.latency_ms}};
}

OrderedJson stage_json(const Plan& plan, const Cluster& cluster, std::size_t index) {
  const Stage& stage = cluster.stages[index];
  const Machine& machine = plan.machine(stage);
  return {{"stage", index},
          {"node", machine.id},
          {"address", machine.address},
          {"role", role_of(cluster, index)},
          {"ops", {stage.first_op, stage.last_op}},
          {"parameters", stage.parameters},
          {"copies", stage.copies},
          {"parameter_bytes", stage.parameter_bytes},
          {"memory", memory_json(stage.memory)},
          {"ram_bytes", machine.ram_bytes()},
          {"forward_flops", stage.forward_flops},
          {"backward_flops", stage.backward_flops},
          {"flops_share", or_null(flops_share(plan, stage))},
          {"forward_seconds", stage.forward_seconds},
          {"backward_seconds", stage.backward_seconds},
          {"link", link_json(plan, cluster, index)},
          {"delay", stage.delay},
          {"passes_in_flight", stage.passes_in_flight()}};
}

OrderedJson cluster_json(const Plan& plan, std::size_t index) {
  const Cluster& cluster = plan.clusters[index];
  const Slowest slowest = slowest_of(cluster);
  OrderedJson stages = OrderedJson::array();
  for (std::size_t k = 0; k < cluster.stages.size(); ++k) {
    stages.push_back(stage_json(plan, cluster, k));
  }
  return {{"cluster", index},
          {"bottleneck",
           {{"seconds", cluster.bottleneck_seconds},
            {"stage", slowest.stage},
            {"kind", slowest.is_link ? "link" : "compute"}}},
          {"samples_per_second", or_null(samples_per_second(plan, cluster))},
          {"stages", std::move(stages)}};
}

OrderedJson ring_json(const Plan& plan, const Ring& ring) {
  OrderedJson holders = OrderedJson::array();
  for (std::size_t c = 0; c < ring.holders.size(); ++c) {
    const Machine& machine = plan.machine(plan.clusters[c].stages[ring.holders[c]]);
    holders.push_back({{"cluster", c},
                       {"stage", ring.holders[c]},
                       {"node", machine.id},
                       {"address", machine.address}});
  }
  return {{"id", ring.id},
          {"parameters", ring.parameters},
          {"buffers", ring.buffers},
          {"bytes", ring.nbytes},
          {"holders", std::move(holders)}};
}

OrderedJson spare_json(const Plan& plan, const Spare& spare) {
  const Machine& machine = plan.pool[spare.machine];
  return {{"node", machine.id},
          {"address", machine.address},
          {"ram_bytes", machine.ram_bytes()},
          {"reason", spare.reason}};
}

}  // namespace

std::string_view role_of(const Cluster& cluster, std::size_t stage) {
  if (stage == 0) {
    return "root";
  }
  return stage + 1 == cluster.stages.size() ? "leaf" : "stem";
}

std::vector<const Ring*> rings_of(const Plan& plan, std::size_t cluster, std::size_t stage) {
  std::vector<const Ring*> rings;
  for (const Ring& ring : plan.rings) {
    if (ring.holders.at(cluster) == stage) {
      rings.push_back(&ring);
    }
  }
  return rings;
}

std::vector<std::pair<std::string, std::string>> next_holders(const Plan& plan, std::size_t cluster,
                                                              std::size_t stage) {
  using Holder = std::pair<std::string, std::string>;
  const std::size_t next = (cluster + 1) % plan.clusters.size();
  std::vector<Holder> holders;
  for (const Ring* ring : rings_of(plan, cluster, stage)) {
    const std::string& address = address_of(plan, next, ring->holders.at(next));
    if (std::ranges::find(holders, address, &Holder::first) == holders.end()) {
      holders.emplace_back(address, ring->parameters.at(0));
    }
  }
  return holders;
}

Slowest slowest_of(const Cluster& cluster) {
  Slowest slowest;
  double seconds = -1.0;
  const auto note = [&](double candidate, Slowest what) {
    if (candidate > seconds) {
      seconds = candidate;
      slowest = what;
    }
  };
  for (std::size_t k = 0; k < cluster.stages.size(); ++k) {
    note(cluster.stages[k].compute_seconds(), {.stage = k, .is_link = false});
    if (k + 1 < cluster.stages.size()) {
      note(cluster.stages[k].link_seconds, {.stage = k, .is_link = true});
    }
  }
  return slowest;
}

std::optional<double> flops_share(const Plan& plan, const Stage& stage) {
  if (plan.total_flops <= 0) {
    return std::nullopt;
  }
  return static_cast<double>(stage.forward_flops + stage.backward_flops) /
         static_cast<double>(plan.total_flops);
}

std::optional<double> samples_per_second(const Plan& plan, const Cluster& cluster) {
  if (!plan.batch || cluster.bottleneck_seconds <= 0.0) {
    return std::nullopt;
  }
  return static_cast<double>(*plan.batch) / pass_seconds(plan.pool, cluster);
}

std::optional<double> samples_per_second(const Plan& plan) {
  double sum = 0.0;
  for (const Cluster& cluster : plan.clusters) {
    const auto samples = samples_per_second(plan, cluster);
    if (!samples) {
      return std::nullopt;
    }
    sum += *samples;
  }
  return sum;
}

std::string reference_log(const Plan& plan) {
  std::string log;
  for (const Seat& seat : seats_by_node(plan)) {
    log += (log.empty() ? "" : "\n\n") + log_entry(plan, seat);
  }
  return log;
}

std::string plan_json(const Plan& plan) {
  OrderedJson out;
  out["batch"] = plan.batch ? OrderedJson(*plan.batch) : OrderedJson(nullptr);
  out["optimizer"] = graph::name_of(plan.optimizer);
  out["seed"] = plan.seed;
  out["costs_known"] = plan.costs_known;
  out["speeds_known"] = plan.speeds_known;
  out["model_bytes"] = plan.model_bytes;
  out["total_flops"] = plan.total_flops;
  out["samples_per_second"] = or_null(samples_per_second(plan));
  out["clusters"] = OrderedJson::array();
  for (std::size_t c = 0; c < plan.clusters.size(); ++c) {
    out["clusters"].push_back(cluster_json(plan, c));
  }
  out["rings"] = OrderedJson::array();
  for (const Ring& ring : plan.rings) {
    out["rings"].push_back(ring_json(plan, ring));
  }
  out["spares"] = OrderedJson::array();
  for (const Spare& spare : plan.spares) {
    out["spares"].push_back(spare_json(plan, spare));
  }
  // Names come from the model's file and need not be UTF-8.
  return out.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace ravnest::planner
