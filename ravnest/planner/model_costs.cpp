#include "ravnest/planner/model_costs.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "ravnest/base/error.h"
#include "ravnest/graph/cost/batch.h"
#include "ravnest/graph/shapes.h"
#include "ravnest/planner/model_facts.h"

namespace ravnest::planner {

using graph::ValueId;

namespace {

// Cuts (first, last] carry something.
void carry(std::vector<std::int64_t>& bytes, std::size_t first, std::size_t last,
           std::int64_t nbytes) {
  for (std::size_t cut = first + 1; cut <= last; ++cut) {
    bytes[cut] = graph::saturating_add(bytes[cut], nbytes);
  }
}

}  // namespace

std::int64_t StageMemory::total() const {
  std::int64_t sum = 0;
  for (const std::int64_t part :
       {weights, versions, gradients, optimizer, activations, temporary}) {
    sum = graph::saturating_add(sum, part);
  }
  return sum;
}

ModelCosts::ModelCosts(const graph::Program& program, const PlanOptions& options)
    : state_per_byte_(graph::state_per_parameter_byte(options.optimizer)) {
  if (program.graph.ops.empty()) {
    throw_invalid("[planner] expected a model with an operator or more, got an empty one.");
  }
  const graph::Batch batch = graph::find_batch(program.graph);
  batch_ = options.batch ? options.batch : batch.captured;
  const ModelFacts facts(program, graph::batch_symbols(program.graph, batch, options.batch));
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

void ModelCosts::find_parameters(const ModelFacts& facts) {
  std::vector<std::size_t> place(facts.weights.size(), ModelFacts::kNone);
  for (std::size_t op = 0; op < facts.uses.size(); ++op) {
    for (const std::size_t weight : facts.uses[op]) {
      if (!facts.weights[weight].is_parameter) {
        continue;
      }
      if (place[weight] == ModelFacts::kNone) {
        place[weight] = parameters_.size();
        parameters_.push_back(facts.weights[weight].name);
        parameter_bytes_.push_back(facts.weights[weight].nbytes);
        parameter_first_.push_back(op);
        parameter_uses_.emplace_back();
      }
      parameter_uses_[place[weight]].push_back(op);
    }
  }
  // Those that nobody uses are with the last stage, as `slice` has them.
  for (std::size_t weight = 0; weight < facts.weights.size(); ++weight) {
    if (facts.weights[weight].is_parameter && place[weight] == ModelFacts::kNone) {
      parameters_.push_back(facts.weights[weight].name);
      parameter_bytes_.push_back(facts.weights[weight].nbytes);
      parameter_first_.push_back(facts.graph.ops.size());
      parameter_uses_.emplace_back();
    }
  }
}

void ModelCosts::find_crossings(const ModelFacts& facts, std::vector<std::int64_t>& forward,
                                std::vector<std::int64_t>& backward) const {
  const std::size_t ops = facts.graph.ops.size();
  forward.assign(ops + 1, 0);
  backward.assign(ops + 1, 0);
  for (const ModelFacts::Crossing& crossing : facts.crossings) {
    carry(forward, crossing.first, crossing.last, crossing.nbytes);
    carry(backward, crossing.first, crossing.last, crossing.has_gradient ? crossing.nbytes : 0);
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
std::vector<bool> ModelCosts::find_allowed(const ModelFacts& facts) const {
  const std::size_t ops = facts.graph.ops.size();
  struct Group {
    std::size_t first = ModelFacts::kNone;
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
      group.is_buffer = group.is_buffer || facts.weight_of[id] != ModelFacts::kNone;
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

void ModelCosts::measure_work(const ModelFacts& facts, const PlanOptions& options) {
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

namespace {

// What a part of the model takes, while the part grows at its end.
class GrowingRange {
 public:
  GrowingRange(const ModelFacts& facts, std::size_t first_op)
      : facts_(facts),
        first_(first_op),
        weight_seen_(facts.weights.size(), false),
        saved_(facts.graph.values.size(), false),
        held_(facts.graph.values.size(), 0) {
    for (const ModelFacts::Crossing& crossing : facts.crossings) {
      if (crossing.first < first_op && crossing.last >= first_op) {
        hold(crossing.storage, crossing.nbytes);
      }
    }
  }

  void add_op(std::size_t op) {
    for (const std::size_t weight : facts_.uses[op]) {
      if (!weight_seen_[weight]) {
        weight_seen_[weight] = true;
        const ModelFacts::Weight& seen = facts_.weights[weight];
        weights = graph::saturating_add(weights, seen.nbytes);
        trainable = graph::saturating_add(trainable, seen.is_trainable ? seen.nbytes : 0);
      }
    }
    if (!facts_.costs.known) {
      return;
    }
    for (const ValueId input : facts_.user_inputs[op]) {
      if (held_[input] == 0 && !saved_[input]) {
        hold(input, facts_.costs.storage_bytes[input]);
      }
    }
    kept = graph::saturating_add(kept, facts_.costs.ops[op].saved_extra_bytes);
    for (const ValueId id : facts_.costs.ops[op].saved) {
      save(id);
    }
    pass_ = std::max(pass_, graph::saturating_add(kept, facts_.overheads[op]));
  }

  // Of a part that ends here: what enters it, what leaves it and the gradients that come
  // back are there all the time.
  std::int64_t peak(std::size_t last_op, const std::vector<std::size_t>& crossing) const {
    std::int64_t leaving = 0;
    for (const std::size_t index : crossing) {
      const ModelFacts::Crossing& value = facts_.crossings[index];
      const bool comes_back = value.has_gradient && last_op < facts_.graph.ops.size();
      leaving = graph::saturating_add(leaving, comes_back ? value.nbytes : 0);
      if (value.first >= first_ && value.first < last_op && !saved_[value.storage]) {
        leaving = graph::saturating_add(leaving, value.nbytes);
      }
    }
    const std::int64_t ends = graph::saturating_add(entered_, leaving);
    return graph::saturating_add(ends, inner());
  }

  std::int64_t inner() const { return std::max(pass_, kept); }

  std::int64_t weights = 0;
  std::int64_t trainable = 0;
  std::int64_t kept = 0;  // by autograd

 private:
  void hold(ValueId storage, std::int64_t nbytes) {
    held_[storage] = graph::saturating_add(held_[storage], nbytes);
    entered_ = graph::saturating_add(entered_, nbytes);
  }

  void save(ValueId storage) {
    if (saved_[storage]) {
      return;
    }
    saved_[storage] = true;
    kept = graph::saturating_add(kept, facts_.costs.storage_bytes[storage]);
    entered_ = std::max<std::int64_t>(entered_ - held_[storage], 0);
  }

  const ModelFacts& facts_;
  std::size_t first_;
  std::vector<bool> weight_seen_;
  std::vector<bool> saved_;         // by storage
  std::vector<std::int64_t> held_;  // by storage: what entered
  std::int64_t entered_ = 0;        // and is not kept by autograd
  std::int64_t pass_ = 0;
};

}  // namespace

void ModelCosts::measure_ranges(const ModelFacts& facts) {
  const std::size_t cells = positions_.size() * positions_.size();
  for (auto* table : {&weight_bytes_, &trainable_bytes_, &kept_bytes_, &peak_bytes_, &inner_bytes_,
                      &most_bytes_}) {
    table->assign(cells, 0);
  }
  std::vector<std::vector<std::size_t>> crossing(positions_.size());
  for (std::size_t index = 0; index < facts.crossings.size(); ++index) {
    const auto first = std::ranges::upper_bound(positions_, facts.crossings[index].first);
    const auto last = std::ranges::upper_bound(positions_, facts.crossings[index].last);
    for (auto at = first; at != last; ++at) {
      crossing[static_cast<std::size_t>(at - positions_.begin())].push_back(index);
    }
  }
  for (std::size_t first = 0; first < size(); ++first) {
    GrowingRange range(facts, positions_[first]);
    for (std::size_t last = first + 1; last < positions_.size(); ++last) {
      for (std::size_t op = positions_[last - 1]; op < positions_[last]; ++op) {
        range.add_op(op);
      }
      weight_bytes_[at(first, last)] = range.weights;
      trainable_bytes_[at(first, last)] = range.trainable;
      kept_bytes_[at(first, last)] = range.kept;
      if (known_) {
        peak_bytes_[at(first, last)] = range.peak(positions_[last], crossing[last]);
        inner_bytes_[at(first, last)] = range.inner();
        most_bytes_[at(first, last)] =
            std::max(most_bytes_[at(first, last - 1)], peak_bytes_[at(first, last)]);
      }
    }
  }
}

void ModelCosts::scale_passes(double factor) {
  for (auto* table : {&kept_bytes_, &peak_bytes_, &inner_bytes_, &most_bytes_}) {
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

// All but the one pass that is computed.
std::int64_t ModelCosts::fixed_memory(std::size_t cell, std::size_t passes) const {
  const auto times = static_cast<std::int64_t>(passes);
  const std::int64_t copies = graph::saturating_add(times, state_per_byte_);
  const std::int64_t trained = graph::saturating_multiply(trainable_bytes_[cell], copies);
  const std::int64_t others = graph::saturating_multiply(kept_bytes_[cell], times - 1);
  return graph::saturating_add(graph::saturating_add(weight_bytes_[cell], trained), others);
}

std::int64_t ModelCosts::least_memory(std::size_t first, std::size_t last,
                                      std::size_t passes) const {
  const std::size_t cell = at(first, last);
  return graph::saturating_add(fixed_memory(cell, passes), inner_bytes_[cell]);
}

std::int64_t ModelCosts::most_memory(std::size_t first, std::size_t last,
                                     std::size_t passes) const {
  const std::size_t cell = at(first, last);
  return graph::saturating_add(fixed_memory(cell, passes), most_bytes_[cell]);
}

}  // namespace ravnest::planner
