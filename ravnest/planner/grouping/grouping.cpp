#include "ravnest/planner/grouping/grouping.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>

#include "ravnest/base/error.h"
#include "ravnest/planner/grouping/individual.h"

namespace ravnest::planner {

namespace {

// Up to this many machines every pair is tried, and until nothing helps.
constexpr std::size_t kThorough = 48;
constexpr std::size_t kNeighbours = 3;  // tried on each side, in each projection
constexpr std::size_t kMostVisits = 2'000'000;

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  // The standard distributions differ between libraries; these do not.
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(engine_() % bound); }
  double unit() { return static_cast<double>(engine_() >> 11) * 0x1.0p-53; }

 private:
  std::mt19937_64 engine_;
};

class Evolution {
 public:
  Evolution(const Landscape& landscape, const GeneticOptions& options)
      : landscape_(landscape),
        count_(landscape.problem.points.size()),
        check_interrupted_(options.check_interrupted),
        random_(options.seed * 0x9E3779B97F4A7C15ULL + 1) {
    const bool is_small = count_ <= kThorough;
    population_ = options.population > 0 ? options.population : (is_small ? 24 : 12);
    const std::size_t most = kMostVisits / (population_ * std::max<std::size_t>(count_, 1));
    generations_ =
        options.generations > 0 ? options.generations : std::clamp<std::size_t>(most, 4, 40);
    for (std::size_t d = 0; d < kDimensions; ++d) {
      projections_.push_back(sorted_by([&](std::size_t machine) { return feature(machine, d); }));
    }
    projections_.push_back(sorted_by([&](std::size_t machine) { return size_of(machine); }));
    for (const auto& order : projections_) {
      auto& place = places_.emplace_back(count_);
      for (std::size_t i = 0; i < count_; ++i) {
        place[order[i]] = i;
      }
    }
  }

  Grouping run() {
    for (std::size_t i = 0; i < population_; ++i) {
      individuals_.push_back(climb(Individual(landscape_, seed_grouping(i))));
    }
    for (std::size_t generation = 0; generation < generations_; ++generation) {
      for (std::size_t i = 0; i < population_; ++i) {
        if (check_interrupted_) {
          check_interrupted_();
        }
        replace_worst(make_child());
      }
    }
    return std::ranges::min_element(individuals_, {}, &Individual::cost)->grouping();
  }

 private:
  double feature(std::size_t machine, std::size_t d) const {
    return landscape_.problem.points[machine].features[d];
  }

  double size_of(std::size_t machine) const {
    const auto& features = landscape_.problem.points[machine].features;
    return std::accumulate(features.begin(), features.end(), 0.0);
  }

  template <typename Key>
  std::vector<std::size_t> sorted_by(Key&& key) const {
    std::vector<std::size_t> order(count_);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, key);
    return order;
  }

  // The first few follow the projections; then RAM dealt evenly; then mixtures.
  Grouping seed_grouping(std::size_t index) {
    if (index < projections_.size()) {
      return in_runs(projections_[index]);
    }
    if (index == projections_.size()) {
      return dealt_by_ram();
    }
    std::array<double, kDimensions> weights{};
    std::ranges::generate(weights, [&] { return random_.unit() - 0.3; });
    std::vector<double> keys(count_);
    const double noise = 0.5 * random_.unit();
    for (std::size_t machine = 0; machine < count_; ++machine) {
      keys[machine] = noise * random_.unit();
      for (std::size_t d = 0; d < weights.size(); ++d) {
        keys[machine] += weights[d] * feature(machine, d);
      }
    }
    return in_runs(sorted_by([&](std::size_t machine) { return keys[machine]; }));
  }

  Grouping in_runs(const std::vector<std::size_t>& order) const {
    Grouping grouping(count_);
    for (std::size_t i = 0; i < count_; ++i) {
      grouping[order[i]] = i * landscape_.problem.groups / count_;
    }
    return grouping;
  }

  // Each next largest machine to the group with the least; for pools that barely fit.
  Grouping dealt_by_ram() const {
    const auto order =
        sorted_by([&](std::size_t machine) { return -landscape_.problem.points[machine].ram_gb; });
    std::vector<std::pair<double, std::size_t>> heap;
    for (std::size_t group = 0; group < landscape_.problem.groups; ++group) {
      heap.emplace_back(0.0, group);
    }
    std::ranges::make_heap(heap, std::greater{});
    Grouping grouping(count_);
    for (const std::size_t machine : order) {
      std::ranges::pop_heap(heap, std::greater{});
      grouping[machine] = heap.back().second;
      heap.back().first += landscape_.problem.points[machine].ram_gb;
      std::ranges::push_heap(heap, std::greater{});
    }
    return grouping;
  }

  const Individual& tournament() {
    const Individual& a = individuals_[random_.below(individuals_.size())];
    const Individual& b = individuals_[random_.below(individuals_.size())];
    return a.cost() <= b.cost() ? a : b;
  }

  Individual make_child() {
    Individual child = tournament();
    const Individual& other = tournament();
    const std::size_t groups = landscape_.problem.groups;
    const std::size_t taken = 1 + random_.below(std::max<std::size_t>(groups / 4, 1));
    for (std::size_t i = 0; i < taken; ++i) {
      take_group(child, other.members(random_.below(groups)));
    }
    if (groups > 1) {
      mutate(child);
    }
    return climb(std::move(child));
  }

  // Brings machines that are together in the other parent together in the child, by
  // swaps where there is somebody to swap with.
  void take_group(Individual& child, const std::vector<std::size_t>& together) {
    if (together.empty()) {
      return;
    }
    const std::size_t home = child.group_of(together[random_.below(together.size())]);
    std::size_t stranger = 0;
    for (const std::size_t machine : together) {
      if (child.group_of(machine) == home) {
        continue;
      }
      const auto& members = child.members(home);
      while (stranger < members.size() &&
             std::ranges::find(together, members[stranger]) != together.end()) {
        ++stranger;
      }
      if (stranger < members.size()) {
        child.swap(machine, members[stranger]);
      } else {
        child.move(machine, home);
      }
    }
  }

  void mutate(Individual& child) {
    const std::size_t times = 1 + random_.below(1 + count_ / 64);
    for (std::size_t i = 0; i < times; ++i) {
      const std::size_t a = random_.below(count_);
      const std::size_t b = random_.below(count_);
      if (child.group_of(a) == child.group_of(b)) {
        continue;
      }
      if (random_.below(4) == 0) {
        child.move(a, child.group_of(b));
      } else {
        child.swap(a, b);
      }
    }
  }

  Individual climb(Individual individual) {
    if (landscape_.problem.groups == 1) {
      return individual;
    }
    if (count_ > kThorough) {
      climb_once(individual);
      return individual;
    }
    while (climb_once(individual)) {
    }
    return individual;
  }

  bool climb_once(Individual& individual) {
    bool helped = false;
    for (std::size_t machine = 0; machine < count_; ++machine) {
      for_each_candidate(machine, [&](std::size_t other) {
        if (individual.group_of(machine) == individual.group_of(other)) {
          return;
        }
        helped = individual.try_swap(machine, other) || helped;
        if (individual.group_of(machine) != individual.group_of(other)) {
          helped = individual.try_move(machine, individual.group_of(other)) || helped;
        }
      });
    }
    return helped;
  }

  template <typename Visit>
  void for_each_candidate(std::size_t machine, Visit&& visit) {
    if (count_ <= kThorough) {
      for (std::size_t other = 0; other < count_; ++other) {
        visit(other);
      }
      return;
    }
    const std::size_t p = random_.below(projections_.size());
    const std::size_t at = places_[p][machine];
    const std::size_t first = at - std::min(at, kNeighbours);
    const std::size_t last = std::min(at + kNeighbours + 1, count_);
    for (std::size_t i = first; i < last; ++i) {
      visit(projections_[p][i]);
    }
  }

  void replace_worst(Individual child) {
    const auto worst = std::ranges::max_element(individuals_, {}, &Individual::cost);
    if (child.cost() < worst->cost()) {
      *worst = std::move(child);
    }
  }

  const Landscape& landscape_;
  std::size_t count_;
  std::function<void()> check_interrupted_;
  Random random_;
  std::size_t population_ = 0;
  std::size_t generations_ = 0;
  std::vector<std::vector<std::size_t>> projections_;  // machines in order of a feature
  std::vector<std::vector<std::size_t>> places_;       // by projection and machine
  std::vector<Individual> individuals_;
};

// Groups numbered by their first machine.
Grouping renumbered(const Grouping& grouping, std::size_t groups) {
  std::vector<std::size_t> number(groups, groups);
  std::size_t next = 0;
  Grouping result;
  for (const std::size_t group : grouping) {
    if (number[group] == groups) {
      number[group] = next++;
    }
    result.push_back(number[group]);
  }
  return result;
}

}  // namespace

double grouping_cost(const GroupingProblem& problem, const Grouping& grouping) {
  RAVNEST_CHECK(grouping.size() == problem.points.size());
  const Landscape landscape(problem);
  return Individual(landscape, grouping).cost();
}

Grouping group_machines(const GroupingProblem& problem, const GeneticOptions& options) {
  RAVNEST_CHECK(problem.groups >= 1 && problem.groups <= problem.points.size());
  if (problem.groups == 1) {
    return Grouping(problem.points.size(), 0);
  }
  const Landscape landscape(problem);
  return renumbered(Evolution(landscape, options).run(), problem.groups);
}

}  // namespace ravnest::planner
