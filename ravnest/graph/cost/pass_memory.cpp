#include "ravnest/graph/cost/pass_memory.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "ravnest/graph/shapes.h"

namespace ravnest::graph {

namespace {

bool passes_gradient(std::string_view target) {
  return target.starts_with("aten.add.") || target.starts_with("aten.add_.") ||
         target.starts_with("aten.sub.");
}

void insert_once(std::vector<ValueId>& list, ValueId id) {
  if (std::ranges::find(list, id) == list.end()) {
    list.push_back(id);
  }
}

bool is_tensor(const Graph& graph, ValueId id) {
  return graph.value(id).kind == ValueKind::kTensor;
}

}  // namespace

PassMemory::PassMemory(const Graph& graph, const GraphCosts& costs)
    : bytes_(costs.storage_bytes), last_use_(graph.values.size()), is_graded_(graph.values.size()) {
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    is_graded_[costs.storage[id]] = is_graded_[costs.storage[id]] || costs.needs_grad[id];
  }
  std::vector<bool> is_weight(graph.values.size());
  for (const Input& input : graph.inputs) {
    if (input.is_weight()) {
      is_weight[input.value] = true;
    }
  }
  steps_.reserve(graph.ops.size());
  for (std::size_t index = 0; index < graph.ops.size(); ++index) {
    steps_.push_back(read_step(graph, costs, index, is_weight));
    for (const std::vector<ValueId>* list : {&steps_.back().reads, &steps_.back().makes}) {
      for (const ValueId id : *list) {
        last_use_[id] = index;
      }
    }
  }
  for (const Argument& output : graph.outputs) {
    for_each_ref(output, [&](ValueId id) { last_use_[costs.storage[id]] = graph.ops.size(); });
  }
}

PassMemory::Step PassMemory::read_step(const Graph& graph, const GraphCosts& costs,
                                       std::size_t index,
                                       const std::vector<bool>& is_weight) const {
  const Op& op = graph.ops[index];
  const OpCost& cost = costs.ops[index];
  Step step;
  step.saved = cost.saved;
  step.saved_extra = cost.saved_extra_bytes;
  step.temporary = cost.temporary_bytes;
  step.passes_gradient_on = passes_gradient(op.target);
  for_each_ref(op, [&](ValueId id) {
    const ValueId storage = costs.storage[id];
    if (!is_tensor(graph, id)) {
      return;
    }
    if (is_weight[storage]) {
      step.weight_gradients = saturating_add(
          step.weight_gradients, costs.needs_grad[id] ? costs.storage_bytes[storage] : 0);
      return;
    }
    insert_once(step.reads, storage);
    if (costs.needs_grad[id]) {
      insert_once(step.graded, storage);
    }
  });
  for_each_result(op, [&](ValueId id) {
    if (is_tensor(graph, id)) {
      step.has_backward = step.has_backward || costs.needs_grad[id];
      if (costs.storage[id] == id) {
        insert_once(step.makes, id);
      }
    }
  });
  return step;
}

// The state of one walk. `held` are storages that stay for the whole pass: what
// entered the range and what leaves it.
struct PassMemory::Walk {
  Walk(const PassMemory& owner, std::size_t begin, std::size_t end)
      : memory(owner), first(begin), last(end), moments(end - begin) {
    std::unordered_set<ValueId> made;
    for (std::size_t index = first; index < last; ++index) {
      made.insert(step(index).makes.begin(), step(index).makes.end());
      for (const ValueId id : step(index).reads) {
        if (!made.contains(id)) {
          hold(id);
        }
      }
    }
    for (const ValueId id : made) {
      if (memory.last_use_[id] >= last) {
        outputs.push_back(id);
        held.insert(id);
      }
    }
  }

  const Step& step(std::size_t index) const { return memory.steps_[index]; }
  std::int64_t bytes(ValueId id) const { return memory.bytes_[id]; }

  void hold(ValueId id) {
    if (held.insert(id).second) {
      take(bytes(id));
    }
  }

  // Leaves what enters and what leaves out of account, where autograd does not keep it.
  void forget_ends() {
    std::unordered_set<ValueId> saved;
    for (std::size_t index = first; index < last; ++index) {
      saved.insert(step(index).saved.begin(), step(index).saved.end());
    }
    for (const ValueId id : held) {
      if (!saved.contains(id)) {
        forgotten.insert(id);
      }
    }
    live = 0;
    for (const ValueId id : held) {
      const bool is_output = std::ranges::find(outputs, id) != outputs.end();
      take(is_output || forgotten.contains(id) ? 0 : bytes(id));
    }
  }

  void take(std::int64_t nbytes) { live = saturating_add(live, nbytes); }
  // Not below nothing: sums that stopped at the largest number have forgotten.
  void give(std::int64_t nbytes) { live = std::max<std::int64_t>(live - nbytes, 0); }
  void note(std::size_t index, std::int64_t temporary) {
    std::int64_t& moment = moments[index - first];
    moment = std::max(moment, saturating_add(live, temporary));
  }

  void forward(std::size_t index) {
    for (const ValueId id : step(index).makes) {
      take(forgotten.contains(id) ? 0 : bytes(id));
    }
    take(step(index).saved_extra);
    for (const ValueId id : step(index).saved) {
      first_saver.try_emplace(id, index);
    }
    // Kernels reorder less on the way forward.
    note(index, step(index).has_backward ? step(index).temporary / 2 : 0);
    for (const std::vector<ValueId>* list : {&step(index).reads, &step(index).makes}) {
      for (const ValueId id : *list) {
        const bool is_done = memory.last_use_[id] == index && !held.contains(id) &&
                             !first_saver.contains(id) && released.insert(id).second;
        give(is_done ? bytes(id) : 0);
      }
    }
  }

  void backward(std::size_t index) {
    const Step& now = step(index);
    if (!now.has_backward) {
      return;
    }
    std::int64_t temporary = saturating_add(now.temporary, now.weight_gradients);
    std::int64_t moved = 0;
    for (const ValueId id : now.graded) {
      if (gradients.contains(id)) {
        // A second gradient is added to the first, and gone.
        temporary = saturating_add(temporary, now.passes_gradient_on ? 0 : bytes(id));
        continue;
      }
      const std::int64_t size = now.passes_gradient_on ? 0 : bytes(id);
      const bool takes_over = now.passes_gradient_on && moved == 0;
      moved += takes_over ? bytes(id) : 0;
      gradients[id] = takes_over ? bytes(id) : size;
      take(size);
    }
    note(index, temporary);
    release_after(index, moved);
  }

  void release_after(std::size_t index, std::int64_t moved) {
    const Step& now = step(index);
    for (const ValueId id : now.makes) {
      if (const auto found = gradients.find(id); found != gradients.end()) {
        give(std::max<std::int64_t>(found->second - moved, 0));
        moved = 0;
        gradients.erase(found);
      }
    }
    give(now.saved_extra);
    for (const ValueId id : now.saved) {
      give(first_saver.at(id) == index && !held.contains(id) ? bytes(id) : 0);
    }
  }

  void run() {
    for (std::size_t index = first; index < last; ++index) {
      forward(index);
    }
    for (const ValueId id : outputs) {
      if (memory.is_graded_[id]) {
        gradients[id] = bytes(id);
        take(bytes(id));
      }
    }
    for (std::size_t index = last; index-- > first;) {
      backward(index);
    }
  }

  const PassMemory& memory;
  std::size_t first;
  std::size_t last;
  std::unordered_set<ValueId> held;
  std::unordered_set<ValueId> forgotten;  // of those: not counted
  std::vector<ValueId> outputs;
  std::unordered_set<ValueId> released;
  std::unordered_map<ValueId, std::size_t> first_saver;
  std::unordered_map<ValueId, std::int64_t> gradients;
  std::int64_t live = 0;
  std::vector<std::int64_t> moments;  // by op of the range: the highest
};

std::int64_t PassMemory::peak(std::size_t first, std::size_t last) const {
  Walk walk(*this, first, last);
  walk.run();
  return walk.moments.empty() ? 0 : std::ranges::max(walk.moments);
}

std::vector<std::int64_t> PassMemory::overheads() const {
  Walk walk(*this, 0, steps_.size());
  walk.forget_ends();
  walk.run();
  std::vector<std::int64_t> overheads = std::move(walk.moments);
  std::unordered_set<ValueId> seen;
  std::int64_t kept = 0;
  for (std::size_t index = 0; index < steps_.size(); ++index) {
    kept = saturating_add(kept, steps_[index].saved_extra);
    for (const ValueId id : steps_[index].saved) {
      kept = saturating_add(kept, seen.insert(id).second ? bytes_[id] : 0);
    }
    overheads[index] = std::max<std::int64_t>(overheads[index] - kept, 0);
  }
  return overheads;
}

}  // namespace ravnest::graph
