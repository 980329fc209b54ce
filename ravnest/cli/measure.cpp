#include "ravnest/cli/measure.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rand.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "ravnest/cli/command.h"

namespace ravnest::cli {

namespace {

constexpr std::int64_t kSize = 512;
constexpr double kOperations = 2.0 * kSize * kSize * kSize;
constexpr std::chrono::duration<double> kEnough{0.2};

}  // namespace

void measure_machine(int threads) {
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  at::set_num_threads(threads > 0 ? threads : cores);
  const at::NoGradGuard no_grad;
  const at::Tensor a = at::rand({kSize, kSize});
  at::Tensor product = at::mm(a, a);  // threads and buffers are there afterwards
  const auto start = std::chrono::steady_clock::now();
  std::chrono::duration<double> elapsed{0};
  double operations = 0.0;
  while (elapsed < kEnough) {
    at::mm_out(product, a, a);
    operations += kOperations;
    elapsed = std::chrono::steady_clock::now() - start;
  }
  const nlohmann::json found{{"gflops", operations / elapsed.count() * 1e-9},
                             {"threads", at::get_num_threads()}};
  write_out(found.dump() + "\n");
}

}  // namespace ravnest::cli
