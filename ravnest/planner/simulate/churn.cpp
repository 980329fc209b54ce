#include "ravnest/planner/simulate/churn.h"

#include <algorithm>
#include <cmath>

namespace ravnest::planner {

namespace {

double draw_exponential(std::mt19937_64& random, double mean) {
  return -std::log1p(-draw_even(random)) * mean;
}

void add_random_gaps(const Machine& machine, const SimulateOptions& options,
                     std::vector<Gap>& gaps) {
  const Churn& churn = options.churn;
  if (churn.mean_present_seconds <= 0) {
    return;
  }
  std::mt19937_64 random =
      random_stream(options.seed, RandomUse::kChurn, static_cast<std::uint64_t>(machine.id));
  for (double at = 0; at < options.seconds;) {
    const double leaves = at + draw_exponential(random, churn.mean_present_seconds);
    at = leaves + draw_exponential(random, churn.mean_away_seconds);
    gaps.push_back({.from = to_time(leaves), .to = to_time(at)});
  }
}

}  // namespace

std::mt19937_64 random_stream(std::uint64_t seed, RandomUse use, std::uint64_t index) {
  const auto low = [](std::uint64_t word) { return static_cast<std::uint32_t>(word); };
  std::seed_seq words{low(seed), low(seed >> 32U), static_cast<std::uint32_t>(use), low(index),
                      low(index >> 32U)};
  return std::mt19937_64(words);
}

std::vector<Gap> merged(std::vector<Gap> gaps) {
  std::ranges::sort(gaps, {}, &Gap::from);
  std::vector<Gap> result;
  for (const Gap& gap : gaps) {
    if (!result.empty() && gap.from <= result.back().to) {
      result.back().to = std::max(result.back().to, gap.to);
    } else {
      result.push_back(gap);
    }
  }
  return result;
}

std::vector<Gap> find_gaps(const Machine& machine, const SimulateOptions& options) {
  std::vector<Gap> gaps;
  for (const Absence& absence : options.churn.absences) {
    if (absence.machine == machine.id) {
      gaps.push_back({.from = to_time(absence.from), .to = to_time(absence.to)});
    }
  }
  add_random_gaps(machine, options, gaps);
  const Time end = to_time(options.seconds);
  for (Gap& gap : gaps) {
    gap = {.from = std::min(gap.from, end), .to = std::min(gap.to, end)};
  }
  std::erase_if(gaps, [](const Gap& gap) { return gap.length() <= Time::zero(); });
  return merged(std::move(gaps));
}

Time total(const std::vector<Gap>& gaps) {
  Time sum{};
  for (const Gap& gap : gaps) {
    sum += gap.length();
  }
  return sum;
}

}  // namespace ravnest::planner
