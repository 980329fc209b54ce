#include "ravnest/engine/forward_profile.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>

namespace ravnest::engine {

namespace {

constexpr int kRuns = 3;

// Counts what this thread allocates and gives back.
class Meter : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, std::int64_t nbytes, std::size_t, std::size_t,
                         c10::Device) override {
    live_ += nbytes;
  }
  bool memoryProfilingEnabled() const override { return true; }
  std::int64_t live() const { return live_; }

 private:
  std::int64_t live_ = 0;
};

// Puts the default generator back as it was.
class RandomStateGuard {
 public:
  RandomStateGuard() : state_(generator().get_state()) {}
  ~RandomStateGuard() { generator().set_state(state_); }
  RandomStateGuard(const RandomStateGuard&) = delete;
  RandomStateGuard& operator=(const RandomStateGuard&) = delete;

 private:
  static at::Generator& generator() {
    return const_cast<at::Generator&>(at::detail::getDefaultCPUGenerator());
  }
  at::Tensor state_;
};

WeightMap with_own_buffers(const BoundProgram& program) {
  WeightMap weights = program.weights();
  for (const graph::Weight& weight : program.program().weights) {
    const auto found = weights.find(weight.name);
    if (weight.kind == graph::InputKind::kBuffer && found != weights.end()) {
      found->second = found->second.clone();
    }
  }
  return weights;
}

std::int64_t nbytes_of(const std::vector<c10::IValue>& values) {
  std::int64_t sum = 0;
  for (const c10::IValue& value : values) {
    sum += value.isTensor() && value.toTensor().defined()
               ? static_cast<std::int64_t>(value.toTensor().nbytes())
               : 0;
  }
  return sum;
}

}  // namespace

ForwardProfile profile_forward(const BoundProgram& program,
                               const std::vector<c10::IValue>& inputs) {
  const RandomStateGuard guard;
  const at::AutoGradMode with_gradients(true);
  ForwardProfile profile;
  for (int run = 0; run < kRuns; ++run) {
    const WeightMap weights = with_own_buffers(program);
    const auto meter = std::make_shared<Meter>();
    const c10::DebugInfoGuard meter_guard(c10::DebugInfoKind::PROFILER_STATE, meter);
    std::vector<double> seconds;
    const auto outputs = program.run_timed(weights, inputs, seconds);
    profile.kept_bytes = meter->live() + nbytes_of(inputs);
    if (profile.op_seconds.empty()) {
      profile.op_seconds = std::move(seconds);
      continue;
    }
    std::ranges::transform(profile.op_seconds, seconds, profile.op_seconds.begin(),
                           [](double a, double b) { return std::min(a, b); });
  }
  return profile;
}

}  // namespace ravnest::engine
