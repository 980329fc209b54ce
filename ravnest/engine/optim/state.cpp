#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "ravnest/base/error.h"
#include "ravnest/engine/optim/algorithm.h"
#include "ravnest/engine/optim/optimizer.h"

namespace ravnest::engine {

namespace optim {

at::Tensor kept_tensor(ParameterState& state, std::string_view name, const at::Tensor& value,
                       double fill) {
  const auto found = state.tensors.find(name);
  if (found != state.tensors.end()) {
    return found->second;
  }
  at::Tensor made = at::full_like(value.detach(), fill);
  return state.tensors.emplace(name, std::move(made)).first->second;
}

double count_step(ParameterState& state) {
  return state.numbers.try_emplace("step", 0.0).first->second += 1.0;
}

}  // namespace optim

namespace {

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

double to_number(const std::string& key, const at::Tensor& tensor) {
  const double number = tensor.numel() == 1 ? tensor.item<double>() : std::nan("");
  if (!std::isfinite(number)) {
    throw_invalid("[optim] expected the state '", key, "' to be one number, got a tensor of shape ",
                  tensor.sizes(), ".");
  }
  return number;
}

// A copy with the parameter's dtype, device and layout.
at::Tensor to_kept(const std::string& key, const at::Tensor& tensor, const at::Tensor& value) {
  if (tensor.sizes() != value.sizes()) {
    throw_invalid("[optim] expected the state '", key, "' with shape ", value.sizes(), ", got ",
                  tensor.sizes(), ".");
  }
  return at::empty_like(value.detach()).copy_(tensor);
}

class StateLoader {
 public:
  StateLoader(const std::string& optimizer, const optim::Algorithm& algorithm,
              const WeightMap& parameters)
      : optimizer_(optimizer),
        tensors_(algorithm.tensor_names()),
        numbers_(algorithm.number_names()),
        parameters_(parameters) {}

  void add(const std::string& key, const at::Tensor& tensor) {
    const std::size_t slash = std::min(key.find('/'), key.size());
    const std::string name = key.substr(0, slash);
    const std::string parameter = slash < key.size() ? key.substr(slash + 1) : "";
    const at::Tensor& value = parameter_of(key, parameter);
    if (contains(tensors_, name)) {
      states_[parameter].tensors.emplace(name, to_kept(key, tensor, value));
    } else if (contains(numbers_, name)) {
      states_[parameter].numbers.emplace(name, to_number(key, tensor));
    } else {
      throw_invalid("[optim] ", optimizer_, " with its options keeps no '", name, "' (given as '",
                    key, "'); it keeps ", known(), ".");
    }
  }

  std::map<std::string, ParameterState> finish() && {
    for (const auto& [parameter, state] : states_) {
      if (state.tensors.size() != tensors_.size() || state.numbers.size() != numbers_.size()) {
        throw_invalid("[optim] expected ", known(), " for '", parameter, "', got ",
                      state.tensors.size() + state.numbers.size(), " of them.");
      }
    }
    return std::move(states_);
  }

 private:
  const at::Tensor& parameter_of(const std::string& key, const std::string& parameter) const {
    const auto found = parameters_.find(parameter);
    if (found == parameters_.end()) {
      throw_invalid("[optim] the state '", key, "' belongs to no parameter that is here.");
    }
    return found->second;
  }

  std::string known() const {
    std::vector<std::string> names = tensors_;
    names.insert(names.end(), numbers_.begin(), numbers_.end());
    return names.empty() ? "nothing" : optim::join(names);
  }

  const std::string& optimizer_;
  const std::vector<std::string> tensors_;
  const std::vector<std::string> numbers_;
  const WeightMap& parameters_;
  std::map<std::string, ParameterState> states_;
};

}  // namespace

void Optimizer::load_state(const OptimizerState& state, const WeightMap& parameters) {
  const at::NoGradGuard no_grad;
  StateLoader loader(name_, *algorithm_, parameters);
  for (const auto& [key, tensor] : state) {
    loader.add(key, tensor);
  }
  states_ = std::move(loader).finish();
}

}  // namespace ravnest::engine
