// A few training steps in the sandbox, on several threads: what a provider's child does. Exits
// with 0 where the loss went down, the weights were written, and the outside was closed.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <filesystem>
#include <fstream>
#include <iostream>

#include "ravnest/sandbox/sandbox.h"

namespace {

at::Tensor make_weights(at::IntArrayRef shape) {
  return at::randn(shape).mul_(0.05).set_requires_grad(true);
}

void step(at::Tensor& weights) {
  const c10::AutoGradMode no_grad(false);
  weights.sub_(weights.grad(), 0.01);
  weights.mutable_grad().zero_();
}

int run(const std::filesystem::path& folder) {
  const auto report = ravnest::sandbox::enter(
      {.writable = {folder}, .memory_bytes = std::uint64_t{4} << 30, .file_bytes = 1 << 20});
  at::set_num_threads(4);
  const at::Tensor images = at::randn({64, 1, 32, 32});
  const at::Tensor labels = at::randint(10, {64}, at::kLong);
  at::Tensor filters = make_weights({8, 1, 3, 3});
  at::Tensor weights = make_weights({10, 8 * 30 * 30});
  float first = 0.0F;
  float last = 0.0F;
  for (int round = 0; round < 5; ++round) {
    const at::Tensor hidden = at::conv2d(images, filters).relu().flatten(1);
    const at::Tensor loss = at::cross_entropy_loss(at::linear(hidden, weights), labels);
    loss.backward();
    step(filters);
    step(weights);
    last = loss.item<float>();
    first = round == 0 ? last : first;
  }
  std::ofstream file(folder / "weights", std::ios::binary);
  file.write(static_cast<const char*>(weights.data_ptr()),
             static_cast<std::streamsize>(weights.nbytes()));
  const bool is_closed = !report.closes_files || !std::ifstream("/etc/passwd").is_open();
  return last < first && file.flush() && is_closed ? 0 : 1;
}

}  // namespace

int main(int, char** arguments) {
  try {
    return run(arguments[1]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 2;
  }
}
