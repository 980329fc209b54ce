#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ravnest::planner {

// Below any machine or network; times stay finite.
inline constexpr double kLeastFigure = 1e-9;

struct Link {
  double mbps = 0.0;  // each way
  double latency_ms = 0.0;

  bool operator==(const Link&) const = default;
};

// One machine that may hold a stage. Plain data, checked where it is read.
struct Machine {
  std::int64_t id = 0;
  std::string address;                 // "host:port"
  double ram_gb = 0.0;                 // 10^9 bytes that training may take
  double mbps = 0.0;                   // bandwidth of its network
  double latency_ms = 1.0;             // half of what a message takes between two such machines
  std::optional<double> gflops;        // what it reaches in training, where measured
  std::map<std::int64_t, Link> links;  // by the other's id: what is known of a pair

  std::int64_t ram_bytes() const;
  bool operator==(const Machine&) const = default;
};

// Reads node_configs.json:
//   {"0": {"IP": "host:port", "benchmarks": {"ram": 8, "bandwidth": 10}}, …}
// RAM in GB, bandwidth in Mbps. Benchmarks may also give "speed" (GFLOP/s reached in
// training), "latency" (ms) and "links" ({"1": {"bandwidth": 100, "latency": 5}, …}).
// The result is in the order of the ids. Throws std::invalid_argument that names the
// file, and the line or the key.
std::vector<Machine> read_pool(std::string_view json, const std::string& file);
// The same of a file; Error(kIo) where it cannot be read.
std::vector<Machine> read_pool(const std::filesystem::path& file);

// What lies between two machines: the pair's own figures, else the slower network.
Link link_between(const Machine& a, const Machine& b);

// The speed to plan with, by machine: measured where given; else that of the middle of
// the pool, or where nobody was measured, one that grows with RAM.
std::vector<double> planning_gflops(const std::vector<Machine>& pool);

}  // namespace ravnest::planner
