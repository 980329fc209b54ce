#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "ravnest/planner/simulate/pipeline.h"
#include "ravnest/planner/simulate/simulate.h"

namespace ravnest::planner {

struct Gap {
  Time from{};
  Time to{};

  Time length() const { return to - from; }
};

// What the numbers of a stream are for: streams of different use or index are independent.
enum class RandomUse : std::uint8_t { kJitter, kChurn };
std::mt19937_64 random_stream(std::uint64_t seed, RandomUse use, std::uint64_t index);

// Where one of them is open; in order, without overlap.
std::vector<Gap> merged(std::vector<Gap> gaps);

// When a machine is away during the simulation; in order, without overlap.
std::vector<Gap> find_gaps(const Machine& machine, const SimulateOptions& options);

Time total(const std::vector<Gap>& gaps);

}  // namespace ravnest::planner
