#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ravnest/engine/bound_program.h"
#include "ravnest/engine/stage/weight_versions.h"

namespace ravnest::engine {

enum class PassMemory : std::uint8_t {
  kStash,      // keeps what autograd saved until the backward
  kRecompute,  // keeps inputs and random state, and computes the forward again
};

struct StageOptions {
  PassMemory memory = PassMemory::kStash;
  // Passes of an update, by their numbers, from the first of count_from on; gradients are averaged.
  std::size_t update_frequency = 1;
  // Parameters that live in another stage: their gradients are handed out, and their values
  // come from there.
  std::set<std::string> copies;
  // Strength of DC-ASGD: late gradients are corrected for what the weights moved meanwhile.
  double compensation = 0.0;
};

// Applies an update: for each parameter the value, its gradient, and where the new value
// goes (see WeightVersions). `delay`: updates since the forward of the latest pass in it.
struct GradientStep {
  std::vector<std::string> names;
  std::map<std::string, at::Tensor> gradients;  // summed over `passes` of them
  std::size_t passes = 1;
  std::uint64_t delay = 0;
  bool is_rest = false;  // of a training: less than an update, and no step of a schedule
};
using ApplyStep = std::function<void(const GradientStep&, WeightVersions&)>;
// The value that a parameter is expected to have `delay` updates from now, written to `result`.
using PredictWeight = std::function<void(const std::string& name, const at::Tensor& value,
                                         double delay, at::Tensor& result)>;

// One stage of a pipeline: a sub-model, its weights over time, and the passes that are on
// their way. A pass's backward sees the weights of its forward; the update goes to the newest.
// Owned and called by one thread. What a model's operator throws comes through; a pass whose
// backward failed is gone.
class Stage {
 public:
  Stage(BoundProgram program, StageOptions options, ApplyStep apply);

  // Flat inputs to flat outputs, cut off from this stage's autograd graph. A pass has an id
  // of its own until its backward is done. Buffers that it would make infinite, or no numbers, stay
  // as they were.
  std::vector<c10::IValue> forward(std::int64_t pass, std::vector<c10::IValue> inputs);

  // Gradients of the outputs, undefined where there is none; of the inputs in return,
  // undefined where none is due. Updates when it is time. Where the stage computes the loss,
  // its gradient is a one. Without `counts` nothing is learned from the pass.
  std::vector<at::Tensor> backward(std::int64_t pass, const std::vector<at::Tensor>& gradients,
                                   bool counts = true);

  // In evaluation, without gradients, on the newest weights.
  std::vector<c10::IValue> evaluate(std::vector<c10::IValue> inputs) const;

  // Nothing may be learned from this pass, in flight or new: the update that it belongs to is
  // skipped as a whole. Its backward is still due, and gives no gradients.
  void refuse(std::int64_t pass);

  // Forgets all passes; their backwards will not come.
  void drop_all() { passes_.clear(); }

  // From here on a forward uses the weights that are expected at its backward, so many updates
  // later. (Takes memory for the parameters of every pass in flight.)
  void predict_with(PredictWeight predict) { predict_ = std::move(predict); }

  // Of parameters that live elsewhere: what their gradients came to since the last call.
  std::map<std::string, at::Tensor> take_copy_gradients();
  // Of parameters that live here: gradients from their copies, which the next update takes in.
  void add_gradient(const std::string& name, const at::Tensor& gradient);
  // The value of a copy, as its home has it now.
  void set_copy(const std::string& name, const at::Tensor& value);
  // Updates with what there is, before `update_frequency` is reached; nothing without it.
  void flush();
  // The first pass of an update.
  void count_from(std::int64_t pass) { first_ = pass; }

  const BoundProgram& program() const { return program_; }
  WeightVersions& weights() { return versions_; }
  std::size_t in_flight() const { return passes_.size(); }
  std::uint64_t updates() const { return updates_; }
  std::uint64_t last_delay() const { return last_delay_; }
  std::uint64_t max_delay() const { return delays_.empty() ? 0 : delays_.size() - 1; }
  // How many updates had a delay of 0, 1, …: the longest of the passes in them.
  const std::vector<std::uint64_t>& delays() const { return delays_; }
  // Updates that left the weights as they were, since a pass was refused or a gradient was not
  // finite: in all, and in a row until now.
  std::uint64_t skipped() const { return skipped_; }
  std::uint64_t skipped_in_a_row() const { return skipped_in_a_row_; }

  // The newest parameters and the buffers, as tensors nobody else holds on to.
  WeightMap snapshot() const;

 private:
  struct Pass {
    std::shared_ptr<const WeightVersion> version;
    std::uint64_t updates = 0;  // of the stage, at the forward
    std::vector<c10::IValue> inputs;
    std::vector<c10::IValue> outputs;  // empty where they are computed again
    at::Tensor random_state;           // where they are
    WeightMap buffers;                 // where they are: those that the forward changes, before it
    bool is_refused = false;
  };

  void find_changed();
  std::shared_ptr<const WeightVersion> version_for_forward() const;
  void keep_finite(Pass& pass) const;
  std::vector<c10::IValue> compute(const Pass& pass) const;
  std::vector<c10::IValue> compute_again(const Pass& pass) const;
  std::vector<at::Tensor> differentiate(Pass& pass, std::int64_t id,
                                        const std::vector<at::Tensor>& gradients);
  void gather(const WeightVersion& version, bool counts);
  void update(bool is_rest = false);
  void note_delay();

  BoundProgram program_;
  StageOptions options_;
  ApplyStep apply_;
  WeightVersions versions_;
  std::vector<std::string> trained_;          // parameters that live here, by name
  std::vector<std::string> changed_buffers_;  // by a forward
  std::set<std::size_t> changed_inputs_;      // by a forward
  PredictWeight predict_;
  std::map<std::int64_t, Pass> passes_;
  std::map<std::string, at::Tensor> gradients_;  // summed
  std::int64_t first_ = 0;                       // updates are counted from this pass on
  std::size_t backwards_ = 0;                    // since the last update
  bool is_spoiled_ = false;                      // a pass since then was refused
  std::uint64_t updates_ = 0;
  std::uint64_t skipped_ = 0;
  std::uint64_t skipped_in_a_row_ = 0;
  std::uint64_t last_delay_ = 0;
  std::uint64_t longest_delay_ = 0;    // since the last update
  std::vector<std::uint64_t> delays_;  // updates, by delay
};

}  // namespace ravnest::engine
