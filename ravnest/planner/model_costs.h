#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ravnest/graph/program.h"
#include "ravnest/planner/plan.h"

namespace ravnest::planner {

struct ModelFacts;

// What every part of a model costs, for all parts at once. Places where the model may
// be cut are *positions* 0 … size(): every op up to `kMostPositions` of them, and in
// larger models those with the least to send; none where both sides would change one
// buffer. Immutable; borrows nothing.
class ModelCosts {
 public:
  static constexpr std::size_t kMostPositions = 1024;

  ModelCosts(const graph::Program& program, const PlanOptions& options);

  std::size_t size() const { return positions_.size() - 1; }
  std::size_t op_at(std::size_t position) const { return positions_[position]; }

  // FLOPs of a pass through the positions [first, last), or what stands in for them.
  double forward_work(std::size_t first, std::size_t last) const;
  double backward_work(std::size_t first, std::size_t last) const;
  double work(std::size_t first, std::size_t last) const { return work_[last] - work_[first]; }

  // Parameters whose first use is in the range, as places in `parameters()`.
  std::size_t first_parameter(std::size_t position) const { return parameters_before_[position]; }
  // All parameters in the order of use.
  const std::vector<std::string>& parameters() const { return parameters_; }
  std::int64_t parameter_bytes(std::size_t parameter) const { return parameter_bytes_[parameter]; }
  // Those that live before `first` and are used in [first, last) too.
  std::vector<std::string> copies(std::size_t first, std::size_t last) const;

  // What a stage over this range takes with so many passes in flight.
  StageMemory memory(std::size_t first, std::size_t last, std::size_t passes) const;
  // Bounds of that which grow with the range; memory itself may shrink where a cut has
  // less to send.
  std::int64_t least_memory(std::size_t first, std::size_t last, std::size_t passes) const;
  std::int64_t most_memory(std::size_t first, std::size_t last, std::size_t passes) const;

  // What crosses a cut here in one pass: values, and gradients on the way back. A value
  // used further on counts at every cut it passes; a tied parameter is kept equal across.
  std::int64_t forward_bytes(std::size_t position) const { return forward_bytes_[position]; }
  std::int64_t backward_bytes(std::size_t position) const { return backward_bytes_[position]; }

  std::optional<std::int64_t> batch() const { return batch_; }
  bool known() const { return known_; }  // see Plan::costs_known

 private:
  void find_parameters(const ModelFacts& facts);
  void find_crossings(const ModelFacts& facts, std::vector<std::int64_t>& forward,
                      std::vector<std::int64_t>& backward) const;
  std::vector<bool> find_allowed(const ModelFacts& facts) const;
  void choose_positions(const std::vector<bool>& allowed,
                        const std::vector<std::int64_t>& crossing);
  void measure_work(const ModelFacts& facts, const PlanOptions& options);
  void measure_ranges(const ModelFacts& facts);
  void scale_passes(double factor);
  std::int64_t fixed_memory(std::size_t cell, std::size_t passes) const;
  std::size_t at(std::size_t first, std::size_t last) const {
    return first * positions_.size() + last;
  }

  std::optional<std::int64_t> batch_;
  bool known_ = true;
  std::int64_t state_per_byte_ = 0;     // of the optimizer
  std::vector<std::size_t> positions_;  // ops
  std::vector<double> work_;            // before a position
  std::vector<double> forward_work_;
  std::vector<std::size_t> parameters_before_;
  std::vector<std::int64_t> forward_bytes_;
  std::vector<std::int64_t> backward_bytes_;
  std::vector<std::string> parameters_;
  std::vector<std::int64_t> parameter_bytes_;
  std::vector<std::size_t> parameter_first_;  // ops
  std::vector<std::vector<std::size_t>> parameter_uses_;
  // By range, see at().
  std::vector<std::int64_t> weight_bytes_;
  std::vector<std::int64_t> trainable_bytes_;
  std::vector<std::int64_t> kept_bytes_;   // by autograd, for one pass
  std::vector<std::int64_t> peak_bytes_;   // of one pass
  std::vector<std::int64_t> inner_bytes_;  // of that: without what enters and leaves
  std::vector<std::int64_t> most_bytes_;   // the largest peak of a shorter range from here
};

}  // namespace ravnest::planner
