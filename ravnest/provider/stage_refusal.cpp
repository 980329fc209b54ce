// What the loop does about numbers that are not finite. A pass that has some goes through the
// stages as one that is refused: none learns from it, and every one counts it, so that updates stay
// those of the same passes everywhere.

#include <algorithm>
#include <limits>

#include "ravnest/base/error.h"
#include "ravnest/engine/stage/finite.h"
#include "ravnest/provider/stage_loop.h"

namespace ravnest::provider {

namespace {

using engine::Finiteness;

// So many updates in a row that change nothing end the run.
constexpr std::uint64_t kMostSkipped = 10;

bool are_finite(const std::vector<at::Tensor>& tensors) {
  return std::ranges::all_of(tensors, engine::is_finite);
}

}  // namespace

// An infinity may be meant: masks are made of them. Where it does harm, loss or gradients tell.
bool StageLoop::has_nan(const std::vector<c10::IValue>& values) {
  return std::ranges::any_of(values, [](const c10::IValue& value) {
    return value.isTensor() && engine::finiteness_of(value.toTensor()) == Finiteness::kNan;
  });
}

// At the root the batch may be to blame. It is looked at afterwards: a model may well know what to
// do about what is missing in it.
std::string StageLoop::cause(const std::vector<c10::IValue>& inputs) const {
  const bool is_batch =
      options_.is_root() && !std::ranges::all_of(inputs, [](const c10::IValue& input) {
        return !input.isTensor() || engine::is_finite(input.toTensor());
      });
  return is_batch ? ", and its batch has numbers that are not finite" : "";
}

// Before the forward, which would have no use for what is not a number.
bool StageLoop::is_refused(const Work& work) {
  if (!work.header.is_training()) {
    return false;
  }
  if (!work.header.is_refused && !options_.is_root() && has_nan(work.values)) {
    note_refusal(work.header, work.from, concat("the values from ", work.from, " are not numbers"));
    return true;
  }
  return work.header.is_refused;
}

bool StageLoop::is_refused(const Backward& backward) {
  if (backward.header.is_refused) {
    return true;
  }
  if (!are_finite(backward.gradients)) {
    note_refusal(backward.header, backward.from,
                 concat("the gradients from ", backward.from, " are not finite"));
    return true;
  }
  const auto tied = tied_gradients_.find(backward.header.pass);
  if (tied == tied_gradients_.end()) {
    return false;
  }
  for (const auto& [peer, gradients] : tied->second) {
    if (!are_finite(gradients)) {
      note_refusal(backward.header, peer,
                   concat("the gradients of shared parameters from ", peer, " are not finite"));
      return true;
    }
  }
  return false;
}

void StageLoop::forward_refused(PassHeader header) {
  header.is_refused = true;
  stage().refuse(header.pass);
  if (options_.is_leaf()) {
    finish_backward(header, {.loss = std::numeric_limits<double>::quiet_NaN()}, {});
  } else {
    send_values(header, {});
  }
}

void StageLoop::note_refusal(const PassHeader& header, const std::string& sender,
                             const std::string& what) {
  refusal_ = concat("pass ", header.pass, ": ", what);
  refusal_suspect_ = sender == options_.name ? suspect_ : sender;
  if (stage().skipped_in_a_row() == 0) {
    listener_.on_refused(sender, concat(options_.name, " skips an update, ", refusal_));
  }
}

// After an update, whether it changed something or not.
void StageLoop::check_skipped(const PassHeader& header) {
  if (stage().skipped_in_a_row() == 0) {
    refusal_.clear();
    return;
  }
  if (refusal_.empty() && !header.is_refused) {
    refusal_ =
        concat("pass ", header.pass, ": the gradients of ", options_.name, " are not finite");
    refusal_suspect_ = suspect_;
    if (stage().skipped_in_a_row() == 1) {
      listener_.on_refused(options_.name, concat(options_.name, " skips an update, ", refusal_));
    }
  }
  if (stage().skipped_in_a_row() >= kMostSkipped) {
    suspect_ = refusal_.empty() ? "" : refusal_suspect_;
    throw_invalid("[provider] ", options_.name, " has skipped ", kMostSkipped,
                  " updates in a row, ", refusal_.empty() ? "as others did" : refusal_,
                  ". A lower rate of learning or max_norm may help.");
  }
  refusal_.clear();
}

}  // namespace ravnest::provider
