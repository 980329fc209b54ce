#include "ravnest/planner/model_costs.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <string_view>
#include <unordered_map>

#include "ravnest/base/error.h"
#include "ravnest/graph/aliasing.h"
#include "ravnest/graph/cost/batch.h"
#include "ravnest/graph/cost/pass_memory.h"
#include "ravnest/graph/shapes.h"

namespace ravnest::planner {

using graph::GraphCosts;
using graph::ValueId;

std::int64_t StageMemory::total() const {
  std::int64_t sum = 0;
  for (const std::int64_t part :
       {weights, versions, gradients, optimizer, activations, temporary}) {
    sum = graph::saturating_add(sum, part);
  }
  return sum;
}

// What is derived from the graph once and then summed over ranges.
struct ModelCosts::Facts {
  struct Weight {
    std::int64_t nbytes = 0;
    bool is_parameter = false;
    bool is_trainable = false;
  };

  Facts(const graph::Program& whole, const graph::SymbolValues& symbols)
      : program(whole),
        graph(whole.graph),
        costs(graph::estimate_costs(whole.graph, symbols)),
        aliasing(whole.graph),
        weight_of(whole.graph.values.size(), kNone),
        uses(whole.graph.ops.size()),
        overheads(costs.known ? graph::PassMemory(whole.graph, costs).overheads()
                              : std::vector<std::int64_t>(whole.graph.ops.size(), 0)) {
    for (const graph::Weight& weight : program.weights) {
      by_name.emplace(weight.name, &weight);
    }
    for (const graph::Input& input : graph.inputs) {
      if (input.is_weight()) {
        add_weight(input);
      }
    }
    for (std::size_t op = 0; op < graph.ops.size(); ++op) {
      for_each_ref(graph.ops[op], [&](ValueId id) {
        if (weight_of[id] != kNone) {
          uses[op].push_back(weight_of[id]);
        }
      });
    }
  }

  // Tied weights may come in as several inputs of one name.
  void add_weight(const graph::Input& input) {
    const auto [known, is_new] = place_of.emplace(input.target, weights.size());
    weight_of[input.value] = known->second;
    if (!is_new) {
      return;
    }
    const auto found = by_name.find(input.target);
    RAVNEST_CHECK(found != by_name.end());
    const graph::Weight* weight = found->second;
    const bool is_parameter = weight->kind == graph::InputKind::kParameter;
    weights.push_back({.nbytes = graph::nbytes(weight->type, {}).value_or(0),
                       .is_parameter = is_parameter,
                       .is_trainable = is_parameter && weight->type.requires_grad});
    names.push_back(input.target);
  }

  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  const graph::Program& program;
  const graph::Graph& graph;
  GraphCosts costs;
  graph::Aliasing aliasing;
  std::vector<Weight> weights;
  std::vector<std::string> names;                              // of the weights
  std::unordered_map<std::string_view, std::size_t> place_of;  // by name, among them
  std::unordered_map<std::string_view, const graph::Weight*> by_name;
  std::vector<std::size_t> weight_of;          // by value
  std::vector<std::vector<std::size_t>> uses;  // by op: weights
  std::vector<std::int64_t> overheads;         // by op, see PassMemory
};

ModelCosts::ModelCosts(const graph::Program& program, const PlanOptions& options)
    : state_per_byte_(graph::state_per_parameter_byte(options.optimizer)) {
  if (program.graph.ops.empty()) {
    throw_invalid("[planner] expected a model with an operator or more, got an empty one.");
  }
  const graph::Batch batch = graph::find_batch(program.graph);
  batch_ = options.batch ? options.batch : batch.captured;
  const Facts facts(program, graph::batch_symbols(program.graph, batch, options.batch));
  known_ = facts.costs.known;
  find_parameters(facts);
  std::vector<std::int64_t> forward;
  std::vector<std::int64_t> backward;
  find_crossings(facts, forward, backward);
  std::vector<std::int64_t> crossing(forward.size());
  std::ranges::transform(forward, backward, crossing.begin(), graph::saturating_add);
  choose_positions(find_allowed(facts), crossing);
  for (const std::size_t op : positions_) {
    forward_bytes_.push_back(known_ ? forward[op] : 0);
    backward_bytes_.push_back(known_ ? backward[op] : 0);
    parameters_before_.push_back(static_cast<std::size_t>(
        std::ranges::lower_bound(parameter_first_, op) - parameter_first_.begin()));
  }
  parameters_before_.back() = parameters_.size();
  measure_work(facts, options);
  measure_ranges(facts);
  if (known_ && options.kept_bytes > 0) {
    const graph::MemoryEstimate estimate =
        graph::estimate_memory(program, program.graph, facts.costs, options.optimizer);
    scale_passes(static_cast<double>(options.kept_bytes) /
                 static_cast<double>(std::max<std::int64_t>(
                     graph::saturating_add(estimate.activations, estimate.inputs_outputs), 1)));
  }
}

void ModelCosts::find_parameters(const Facts& facts) {
  std::vector<std::size_t> place(facts.weights.size(), Facts::kNone);
  for (std::size_t op = 0; op < facts.uses.size(); ++op) {
    for (const std::size_t weight : facts.uses[op]) {
      if (!facts.weights[weight].is_parameter) {
        continue;
      }
      if (place[weight] == Facts::kNone) {
        place[weight] = parameters_.size();
        parameters_.push_back(facts.names[weight]);
        parameter_bytes_.push_back(facts.weights[weight].nbytes);
        parameter_first_.push_back(op);
        parameter_uses_.emplace_back();
      }
      parameter_uses_[place[weight]].push_back(op);
    }
  }
  // Those that nobody uses are with the last stage, as `slice` has them.
  for (std::size_t weight = 0; weight < facts.weights.size(); ++weight) {
    if (facts.weights[weight].is_parameter && place[weight] == Facts::kNone) {
      parameters_.push_back(facts.names[weight]);
      parameter_bytes_.push_back(facts.weights[weight].nbytes);
      parameter_first_.push_back(facts.graph.ops.size());
      parameter_uses_.emplace_back();
    }
  }
}

void ModelCosts::find_crossings(const Facts& facts, std::vector<std::int64_t>& forward,
                                std::vector<std::int64_t>& backward) const {
  const std::size_t ops = facts.graph.ops.size();
  std::vector<std::size_t> last_use(facts.graph.values.size(), 0);
  const auto note = [&](ValueId id, std::size_t op) {
    std::size_t& last = last_use[facts.aliasing.same[id]];
    last = std::max(last, op);
  };
  for (std::size_t op = 0; op < ops; ++op) {
    for_each_ref(facts.graph.ops[op], [&](ValueId id) { note(id, op); });
  }
  for (const graph::Argument& output : facts.graph.outputs) {
    for_each_ref(output, [&](ValueId id) { note(id, ops - 1); });
  }
  forward.assign(ops + 1, 0);
  backward.assign(ops + 1, 0);
  // Cuts (first, last] carry it.
  const auto carry = [](std::vector<std::int64_t>& bytes, std::size_t first, std::size_t last,
                        std::int64_t nbytes) {
    for (std::size_t cut = first + 1; cut <= last; ++cut) {
      bytes[cut] = graph::saturating_add(bytes[cut], nbytes);
    }
  };
  for (ValueId id = 0; id < facts.graph.values.size(); ++id) {
    if (facts.aliasing.same[id] == id && facts.aliasing.definer[id] &&
        facts.graph.value(id).kind == graph::ValueKind::kTensor) {
      const std::size_t first = *facts.aliasing.definer[id];
      carry(forward, first, last_use[id], facts.costs.storage_bytes[id]);
      carry(backward, first, last_use[id],
            facts.costs.needs_grad[id] ? facts.costs.storage_bytes[id] : 0);
    }
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameter_uses_[i].empty()) {
      carry(forward, parameter_first_[i], parameter_uses_[i].back(), parameter_bytes_[i]);
      carry(backward, parameter_first_[i], parameter_uses_[i].back(), parameter_bytes_[i]);
    }
  }
}

// A buffer that is changed must have all its uses in one stage: in two processes it would
// drift apart. And memory that may or may not be shared is not cut through where it is
// changed in place, as `slice` would refuse.
std::vector<bool> ModelCosts::find_allowed(const Facts& facts) const {
  const std::size_t ops = facts.graph.ops.size();
  struct Group {
    std::size_t first = Facts::kNone;
    std::size_t last = 0;
    bool is_changed = false;
    bool is_buffer = false;
    bool may_share = false;
  };
  std::map<ValueId, Group> groups;
  for (std::size_t op = 0; op < ops; ++op) {
    const auto note = [&](ValueId id) {
      Group& group = groups[facts.aliasing.root[id]];
      group.first = std::min(group.first, op);
      group.last = op;
      group.is_buffer = group.is_buffer || facts.weight_of[id] != Facts::kNone;
    };
    for_each_ref(facts.graph.ops[op], note);
    for_each_result(facts.graph.ops[op], [&](ValueId id) {
      note(id);
      const bool is_view = facts.aliasing.root[id] != id;
      Group& group = groups[facts.aliasing.root[id]];
      group.may_share = group.may_share || (is_view && !always_shares(facts.graph.ops[op]));
    });
    for (const ValueId root : facts.aliasing.changed[op]) {
      groups[root].is_changed = true;
    }
  }
  std::vector<bool> allowed(ops + 1, true);
  for (const auto& [root, group] : groups) {
    if (group.is_changed && (group.is_buffer || group.may_share)) {
      for (std::size_t cut = group.first + 1; cut <= group.last; ++cut) {
        allowed[cut] = false;
      }
    }
  }
  return allowed;
}

void ModelCosts::choose_positions(const std::vector<bool>& allowed,
                                  const std::vector<std::int64_t>& crossing) {
  const std::size_t ops = allowed.size() - 1;
  std::vector<std::size_t> cuts;
  for (std::size_t op = 1; op < ops; ++op) {
    if (allowed[op]) {
      cuts.push_back(op);
    }
  }
  if (cuts.size() > kMostPositions) {
    std::ranges::stable_sort(cuts, {}, [&](std::size_t op) { return crossing[op]; });
    cuts.resize(kMostPositions);
    std::ranges::sort(cuts);
  }
  positions_.push_back(0);
  positions_.insert(positions_.end(), cuts.begin(), cuts.end());
  positions_.push_back(ops);
}

void ModelCosts::measure_work(const Facts& facts, const PlanOptions& options) {
  const std::size_t ops = facts.graph.ops.size();
  std::vector<double> forward(ops, 0.0);
  std::vector<double> backward(ops, 0.0);
  for (std::size_t op = 0; op < ops; ++op) {
    if (known_) {
      forward[op] = 1.0 + static_cast<double>(facts.costs.ops[op].flops);
      backward[op] = static_cast<double>(facts.costs.ops[op].backward_flops);
    }
  }
  if (!known_) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const std::size_t op = std::min(parameter_first_[i], ops - 1);
      forward[op] += static_cast<double>(parameter_bytes_[i]);
    }
    for (double& work : forward) {
      work += 1.0;
    }
  }
  if (!options.op_seconds.empty()) {
    if (options.op_seconds.size() != ops) {
      throw_invalid("[planner] expected measured seconds of ", ops, " operators, got ",
                    options.op_seconds.size(), ".");
    }
    // Time takes the place of FLOPs, and keeps their sum and the share of the backward.
    const double total = std::reduce(options.op_seconds.begin(), options.op_seconds.end());
    const double unit = std::reduce(forward.begin(), forward.end()) / std::max(total, 1e-12);
    for (std::size_t op = 0; op < ops; ++op) {
      const double ratio = forward[op] > 1.0 ? backward[op] / forward[op] : 0.0;
      forward[op] = options.op_seconds[op] * unit + 1.0;
      backward[op] = forward[op] * ratio;
    }
  }
  std::vector<double> sums{0.0};
  std::vector<double> forward_sums{0.0};
  for (std::size_t op = 0; op < ops; ++op) {
    sums.push_back(sums.back() + forward[op] + backward[op]);
    forward_sums.push_back(forward_sums.back() + forward[op]);
  }
  for (const std::size_t op : positions_) {
    work_.push_back(sums[op]);
    forward_work_.push_back(forward_sums[op]);
  }
}

void ModelCosts::measure_ranges(const Facts& facts) {
  const std::size_t cells = positions_.size() * positions_.size();
  for (auto* table : {&weight_bytes_, &trainable_bytes_, &kept_bytes_, &peak_bytes_}) {
    table->assign(cells, 0);
  }
  // Storages and weights share one space of marks.
  std::vector<std::size_t> seen(facts.graph.values.size() + facts.weights.size(), Facts::kNone);
  for (std::size_t first = 0; first < size(); ++first) {
    measure_range(facts, first, seen);
  }
}

void ModelCosts::measure_range(const Facts& facts, std::size_t first,
                               std::vector<std::size_t>& seen) {
  std::int64_t all = 0;
  std::int64_t trainable = 0;
  std::int64_t kept = 0;
  std::int64_t peak = 0;
  const auto is_new = [&](std::size_t mark) {
    const bool fresh = seen[mark] != first;
    seen[mark] = first;
    return fresh;
  };
  for (std::size_t last = first + 1; last < positions_.size(); ++last) {
    for (std::size_t op = positions_[last - 1]; op < positions_[last]; ++op) {
      for (const std::size_t weight : facts.uses[op]) {
        if (is_new(facts.graph.values.size() + weight)) {
          const Facts::Weight& facts_of = facts.weights[weight];
          all = graph::saturating_add(all, facts_of.nbytes);
          trainable = graph::saturating_add(trainable, facts_of.is_trainable ? facts_of.nbytes : 0);
        }
      }
      if (!known_) {
        continue;
      }
      kept = graph::saturating_add(kept, facts.costs.ops[op].saved_extra_bytes);
      for (const ValueId id : facts.costs.ops[op].saved) {
        kept = graph::saturating_add(kept, is_new(id) ? facts.costs.storage_bytes[id] : 0);
      }
      peak = std::max(peak, graph::saturating_add(kept, facts.overheads[op]));
    }
    weight_bytes_[at(first, last)] = all;
    trainable_bytes_[at(first, last)] = trainable;
    kept_bytes_[at(first, last)] = kept;
    peak_bytes_[at(first, last)] = std::max(peak, kept);
  }
}

void ModelCosts::scale_passes(double factor) {
  for (auto* table : {&kept_bytes_, &peak_bytes_}) {
    for (std::int64_t& nbytes : *table) {
      nbytes = static_cast<std::int64_t>(static_cast<double>(nbytes) * factor);
    }
  }
}

double ModelCosts::forward_work(std::size_t first, std::size_t last) const {
  return forward_work_[last] - forward_work_[first];
}

double ModelCosts::backward_work(std::size_t first, std::size_t last) const {
  return work(first, last) - forward_work(first, last);
}

std::vector<std::string> ModelCosts::copies(std::size_t first, std::size_t last) const {
  std::vector<std::string> found;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const bool lives_before = parameter_first_[i] < positions_[first];
    const bool is_used = std::ranges::any_of(parameter_uses_[i], [&](std::size_t op) {
      return op >= positions_[first] && op < positions_[last];
    });
    if (lives_before && is_used) {
      found.push_back(parameters_[i]);
    }
  }
  return found;
}

StageMemory ModelCosts::memory(std::size_t first, std::size_t last, std::size_t passes) const {
  const std::size_t cell = at(first, last);
  const auto times = static_cast<std::int64_t>(passes);
  StageMemory memory;
  memory.weights = weight_bytes_[cell];
  memory.versions = graph::saturating_multiply(trainable_bytes_[cell], times - 1);
  memory.gradients = trainable_bytes_[cell];
  memory.optimizer = graph::saturating_multiply(trainable_bytes_[cell], state_per_byte_);
  memory.activations = graph::saturating_multiply(kept_bytes_[cell], times);
  memory.temporary = peak_bytes_[cell] - kept_bytes_[cell];
  return memory;
}

}  // namespace ravnest::planner
