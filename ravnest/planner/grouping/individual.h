#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>
#include <vector>

#include "ravnest/planner/grouping/grouping.h"

namespace ravnest::planner {

// Relative, so that rounding never looks like a gain.
inline constexpr double kLeastGain = 1e-9;

inline constexpr std::size_t kDimensions =
    std::tuple_size_v<decltype(GroupingProblem::Point::features)>;

// What the cost of a group is made of.
struct Totals {
  std::size_t size = 0;
  std::array<double, kDimensions> sums{};  // of features
  double squares = 0.0;
  double ram_gb = 0.0;
  double far = 0.0;  // of its pairs

  void add(const GroupingProblem::Point& point) { change(point, 1.0); }
  void remove(const GroupingProblem::Point& point) { change(point, -1.0); }
  double spread() const {
    double left = squares;
    for (const double sum : sums) {
      left -= sum * sum / static_cast<double>(size);
    }
    return std::max(left, 0.0);
  }

 private:
  void change(const GroupingProblem::Point& point, double sign) {
    size = sign > 0 ? size + 1 : size - 1;
    for (std::size_t d = 0; d < kDimensions; ++d) {
      sums[d] += sign * point.features[d];
      squares += sign * point.features[d] * point.features[d];
    }
    ram_gb += sign * point.ram_gb;
  }
};

// A problem, and the spread of its whole pool.
struct Landscape {
  explicit Landscape(const GroupingProblem& given) : problem(given) {
    Totals all;
    for (const GroupingProblem::Point& point : given.points) {
      all.add(point);
    }
    scale = all.spread() > 1e-9 ? 1.0 / all.spread() : 0.0;
  }

  double cost(const Totals& group) const {
    const std::size_t least = std::max<std::size_t>(problem.least_size, 1);
    if (group.size < least) {
      return kInfeasible * (1.0 + static_cast<double>(least - group.size));
    }
    const double needed = problem.needed_gb ? problem.needed_gb(group.size) : 0.0;
    const double missing = needed > group.ram_gb ? 1.0 + (needed - group.ram_gb) / needed : 0.0;
    return group.spread() * scale + group.far + kInfeasible * missing;
  }

  const GroupingProblem& problem;
  double scale = 1.0;
};

// A grouping with the totals of each group, kept right while machines move.
class Individual {
 public:
  Individual(const Landscape& landscape, const Grouping& grouping)
      : landscape_(&landscape),
        group_of_(grouping.size(), kOutside),
        place_(grouping.size()),
        totals_(landscape.problem.groups),
        members_(landscape.problem.groups) {
    for (std::size_t machine = 0; machine < grouping.size(); ++machine) {
      insert(machine, grouping[machine]);
    }
    for (const Totals& group : totals_) {
      cost_ += landscape.cost(group);
    }
  }

  double cost() const { return cost_; }
  const Grouping& grouping() const { return group_of_; }
  std::size_t group_of(std::size_t machine) const { return group_of_[machine]; }
  const std::vector<std::size_t>& members(std::size_t group) const { return members_[group]; }

  void swap(std::size_t a, std::size_t b) {
    const std::size_t group_a = group_of_[a];
    const std::size_t group_b = group_of_[b];
    cost_ += swap_gain(a, b);
    remove(a);
    remove(b);
    insert(a, group_b);
    insert(b, group_a);
  }

  void move(std::size_t machine, std::size_t group) {
    cost_ += move_gain(machine, group);
    remove(machine);
    insert(machine, group);
  }

  // Does it if that helps.
  bool try_swap(std::size_t a, std::size_t b) {
    const bool helps = swap_gain(a, b) < -kLeastGain * (1.0 + cost_);
    if (helps) {
      swap(a, b);
    }
    return helps;
  }

  bool try_move(std::size_t machine, std::size_t group) {
    const bool helps = move_gain(machine, group) < -kLeastGain * (1.0 + cost_);
    if (helps) {
      move(machine, group);
    }
    return helps;
  }

 private:
  static constexpr std::size_t kOutside = std::numeric_limits<std::size_t>::max();

  const GroupingProblem::Point& point(std::size_t machine) const {
    return landscape_->problem.points[machine];
  }

  // What far pairs a machine has in a group, another machine aside.
  double far_in(std::size_t machine, std::size_t group, std::size_t aside) const {
    double sum = 0.0;
    for (const auto& [other, distance] : point(machine).far) {
      sum += group_of_[other] == group && other != aside ? distance : 0.0;
    }
    return sum;
  }

  // By how much the cost would change; below zero is better.
  double swap_gain(std::size_t a, std::size_t b) const {
    const std::size_t group_a = group_of_[a];
    const std::size_t group_b = group_of_[b];
    Totals one = totals_[group_a];
    Totals other = totals_[group_b];
    const double before = landscape_->cost(one) + landscape_->cost(other);
    one.remove(point(a));
    one.add(point(b));
    one.far += far_in(b, group_a, a) - far_in(a, group_a, a);
    other.remove(point(b));
    other.add(point(a));
    other.far += far_in(a, group_b, b) - far_in(b, group_b, b);
    return landscape_->cost(one) + landscape_->cost(other) - before;
  }

  double move_gain(std::size_t machine, std::size_t group) const {
    const std::size_t home = group_of_[machine];
    Totals one = totals_[home];
    Totals other = totals_[group];
    const double before = landscape_->cost(one) + landscape_->cost(other);
    one.remove(point(machine));
    one.far -= far_in(machine, home, machine);
    other.add(point(machine));
    other.far += far_in(machine, group, machine);
    return landscape_->cost(one) + landscape_->cost(other) - before;
  }

  void insert(std::size_t machine, std::size_t group) {
    totals_[group].far += far_in(machine, group, machine);
    totals_[group].add(point(machine));
    place_[machine] = members_[group].size();
    members_[group].push_back(machine);
    group_of_[machine] = group;
  }

  void remove(std::size_t machine) {
    const std::size_t group = group_of_[machine];
    totals_[group].far -= far_in(machine, group, machine);
    totals_[group].remove(point(machine));
    const std::size_t last = members_[group].back();
    members_[group][place_[machine]] = last;
    place_[last] = place_[machine];
    members_[group].pop_back();
    group_of_[machine] = kOutside;
  }

  const Landscape* landscape_;
  Grouping group_of_;
  std::vector<std::size_t> place_;  // by machine: in its group's members
  std::vector<Totals> totals_;
  std::vector<std::vector<std::size_t>> members_;
  double cost_ = 0.0;
};

}  // namespace ravnest::planner
