#include "ravnest/engine/stage/weight_versions.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>

#include "ravnest/base/error.h"

namespace ravnest::engine {

namespace {

at::Tensor as_leaf(const at::Tensor& value, bool requires_grad) {
  at::Tensor leaf = value.detach();
  leaf.set_requires_grad(requires_grad);
  return leaf;
}

// Held by us alone.
bool is_free(const std::shared_ptr<WeightVersion>& version) { return version.use_count() == 1; }

}  // namespace

WeightVersions::WeightVersions(const BoundProgram& program)
    : current_(std::make_shared<WeightVersion>()) {
  current_->weights = program.weights();
  for (const graph::Weight& weight : program.program().weights) {
    const auto found = current_->weights.find(weight.name);
    if (weight.kind == graph::InputKind::kParameter && found != current_->weights.end()) {
      found->second = as_leaf(found->second, found->second.requires_grad());
    }
  }
}

std::size_t WeightVersions::live() const {
  const auto held =
      std::ranges::count_if(retired_, [](const auto& version) { return !is_free(version); });
  return static_cast<std::size_t>(held) + 1;
}

void WeightVersions::update(const std::vector<std::string>& names, const Write& write) {
  const at::NoGradGuard no_grad;
  reclaim();
  const bool is_current_free = is_free(current_);
  auto next = is_current_free ? current_ : std::make_shared<WeightVersion>(*current_);
  for (const std::string& name : names) {
    at::Tensor& leaf = next->weights.at(name);
    const at::Tensor value = leaf.detach();
    // A parameter that did not change then is shared with older versions.
    const bool in_place = is_current_free && !is_in_retired(name, value);
    at::Tensor result = in_place ? value : memory_for(name, value);
    write(name, value, result);
    RAVNEST_CHECK(result.sizes() == value.sizes() && result.scalar_type() == value.scalar_type());
    leaf.mutable_grad().reset();
    if (!in_place) {
      leaf = as_leaf(result, leaf.requires_grad());
    }
  }
  ++next->number;
  if (!is_current_free) {
    retired_.push_back(std::exchange(current_, std::move(next)));
  }
}

bool WeightVersions::is_in_retired(const std::string& name, const at::Tensor& value) const {
  return std::ranges::any_of(retired_, [&](const std::shared_ptr<WeightVersion>& version) {
    return version->weights.at(name).is_alias_of(value);
  });
}

at::Tensor WeightVersions::memory_for(const std::string& name, const at::Tensor& value) {
  auto& spare = spare_[name];
  if (spare.empty()) {
    return at::empty_like(value);
  }
  at::Tensor memory = std::move(spare.back());
  spare.pop_back();
  return memory;
}

void WeightVersions::reclaim() {
  const auto held = std::ranges::stable_partition(
      retired_, [](const auto& version) { return !is_free(version); });
  std::vector<std::shared_ptr<WeightVersion>> free(held.begin(), held.end());
  retired_.erase(held.begin(), held.end());
  while (!free.empty()) {
    const std::shared_ptr<WeightVersion> version = std::move(free.back());
    free.pop_back();
    for (const auto& [name, leaf] : version->weights) {
      const auto shares = [&](const std::shared_ptr<WeightVersion>& other) {
        return other->weights.at(name).is_alias_of(leaf);
      };
      if (!shares(current_) && std::ranges::none_of(retired_, shares) &&
          std::ranges::none_of(free, shares)) {
        spare_[name].push_back(leaf.detach());
      }
    }
  }
}

}  // namespace ravnest::engine
