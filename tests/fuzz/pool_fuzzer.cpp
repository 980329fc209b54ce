// Reads the input as node_configs.json. With what is taken one can plan: its figures are finite.

#include <cmath>
#include <cstdint>
#include <string_view>

#include "ravnest/planner/pool.h"
#include "tests/fuzz/finding.h"

namespace ravnest::planner {
namespace {

void read(std::string_view text) {
  const std::vector<Machine> pool = read_pool(text, "node_configs.json");
  const std::vector<double> gflops = planning_gflops(pool);
  require(gflops.size() == pool.size());
  for (std::size_t i = 0; i < pool.size(); ++i) {
    require(pool[i].ram_bytes() >= 0 && std::isfinite(gflops[i]) && gflops[i] > 0.0);
    const Link link = link_between(pool[i], pool[(i + 1) % pool.size()]);
    require(std::isfinite(link.mbps) && link.mbps > 0.0);
    require(std::isfinite(link.latency_ms) && link.latency_ms >= 0.0);
  }
}

}  // namespace
}  // namespace ravnest::planner

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  ravnest::accepted([&] { ravnest::planner::read(text); });
  return 0;
}
