#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ravnest/engine/stage/stage.h"
#include "ravnest/provider/update_rule.h"
#include "ravnest/reduce/contribution.h"

namespace ravnest::provider {

// Some rows of a parameter, or all. (Of one without dimensions: itself.)
struct Rows {
  std::string name;
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool operator==(const Rows&) const = default;
};

// The values of a stage that one ring averages, as one row of numbers: parameters, then the
// optimizer's tensors of their shape where they are wanted, then buffers. Floats are averaged, and
// but for parameters not rounded on their way: a variance stays one. Of integers the largest is
// taken. On the loop's thread.
class AveragedValues {
 public:
  struct Names {
    std::vector<Rows> parameters;
    std::vector<std::string> buffers;
  };
  // `of_rule`: a state as the optimizer's is after an update; empty where that stays out. What it
  // does not have of it yet, because updates were skipped, counts as zeros. Throws
  // std::invalid_argument for a name that the stage does not have.
  AveragedValues(Names names, engine::Stage& stage, const RuleState& of_rule);

  std::size_t values() const { return values_; }
  std::size_t parameters() const { return parameter_values_; }  // of the values, the first
  std::size_t maxima() const { return maxima_; }

  reduce::Contribution take(engine::Stage& stage, const UpdateRule* rule) const;
  // Sets the values, whatever they are by now.
  void set(const reduce::Contribution& values, engine::Stage& stage, const UpdateRule* rule) const;
  // Adds to parameters what lies between `before`, which the values were, and `after`. The others
  // are set: running means, which may not be carried beyond what was measured.
  void move(const reduce::Contribution& before, const reduce::Contribution& after,
            engine::Stage& stage, const UpdateRule* rule) const;

 private:
  // What becomes of a parameter, with its places in the row.
  using Change = std::function<at::Tensor(const at::Tensor& value, std::size_t place)>;
  void write(const Change& change, const reduce::Contribution& values, engine::Stage& stage,
             const UpdateRule* rule) const;
  struct OfRule {
    Rows rows;
    std::string key;  // of the tensor
  };
  std::vector<at::Tensor> rule_tensors(const engine::WeightMap& weights,
                                       const UpdateRule* rule) const;

  Names names_;
  std::vector<OfRule> of_rule_;
  std::size_t values_ = 0;
  std::size_t parameter_values_ = 0;  // of them
  std::size_t maxima_ = 0;
};

// Whether a tensor of an optimizer's state is kept for this parameter.
bool belongs_to(const std::string& key, const std::string& parameter);

// Cuts parameters into so many parts of about equal size, in their order, between rows; fewer where
// there are few. Buffers go with the first.
std::vector<AveragedValues::Names> in_parts(const std::vector<std::string>& parameters,
                                            const std::vector<std::string>& buffers,
                                            const engine::WeightMap& weights, std::size_t parts);

}  // namespace ravnest::provider
