// What the loop does with a pass.

#include <ATen/TensorOperators.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "ravnest/base/error.h"
#include "ravnest/base/fault_point.h"
#include "ravnest/provider/stage_loop.h"
#include "ravnest/provider/stopped.h"
#include "ravnest/provider/values.h"

namespace ravnest::provider {

namespace {

using transport::MessageKind;

}  // namespace

// True where something was done.
bool StageLoop::do_next() {
  const bool is_held = listener_.hold().has_value();
  if (!is_held && !backwards_.empty() && has_tied_gradients(backwards_.front().header.pass)) {
    Backward backward = std::move(backwards_.front());
    backwards_.pop_front();
    suspect_ = backward.from;
    do_backward(std::move(backward));
    suspect_.clear();
    return true;
  }
  if (!forwards_.empty() && (!is_held || !is_training(forwards_.front())) &&
      can_start(forwards_.front()) && can_end(forwards_.front())) {
    Work work = std::move(forwards_.front());
    forwards_.pop_front();
    suspect_ = work.from;
    begin(std::move(work));
    suspect_.clear();
    return true;
  }
  return false;
}

bool StageLoop::can_start(const Work& work) const {
  if (work.control) {
    const bool is_training = work.control->word == Word::kTrainingEnd;
    const bool is_end = is_training || work.control->word == Word::kValidationEnd;
    return (!is_end || !options_.is_root() || unfinished_.empty()) &&
           (!is_training || has_final_copies(*work.control));
  }
  if (!has_inputs(work.header) || is_limited(work) ||
      (work.header.is_training() && !awaited_homes_.empty())) {
    return false;
  }
  if (options_.schedule == Schedule::kAsync) {
    return true;
  }
  const bool has_copies =
      !work.header.is_training() || std::ranges::all_of(outlets_.homes, [&](const auto& home) {
        const auto found = tied_through_.find(home.first);
        return found != tied_through_.end() && found->second >= start_of_update(work.header.pass);
      });
  return has_copies && is_group_open(work.header.is_training() ? work.header.pass : -1);
}

bool StageLoop::is_training(const Work& work) {
  return work.control ? work.control->word == Word::kTrainingEnd : work.header.is_training();
}

// A training ends when its last update is made, and the clusters have averaged.
bool StageLoop::can_end(const Work& work) {
  if (!work.control || work.control->word != Word::kTrainingEnd || !stage_) {
    return true;
  }
  stage().flush();
  return listener_.is_training_whole();
}

bool StageLoop::has_final_copies(const Control& control) const {
  return std::ranges::all_of(outlets_.homes, [&](const auto& home) {
    const auto found = final_copies_.find(home.first);
    return found != final_copies_.end() && found->second >= round_of(control);
  });
}

bool StageLoop::is_limited(const Work& work) const {
  if (work.control || !stage_) {
    return false;
  }
  const std::size_t limit = options_.is_root() ? limit_.value() : options_.most_in_flight();
  if (work.header.is_training()) {
    return stage_->in_flight() >= limit;
  }
  return options_.is_root() && unfinished_.size() >= limit + options_.most_in_flight();
}

// In the synchronous schedule the root begins a pass when all of the update before it are done;
// what is no training pass (-1) when there are none.
bool StageLoop::is_group_open(std::int64_t pass) const {
  if (!options_.is_root() || unfinished_.empty()) {
    return true;
  }
  const auto first =
      std::ranges::find_if(unfinished_, [](const auto& entry) { return entry.first.first; });
  if (first == unfinished_.end()) {
    return true;
  }
  return pass >= 0 && update_of(pass) == update_of(first->first.second);
}

std::int64_t StageLoop::update_of(std::int64_t pass) const {
  return (pass - first_) / static_cast<std::int64_t>(options_.update_frequency);
}

std::int64_t StageLoop::start_of_update(std::int64_t pass) const {
  return first_ + update_of(pass) * static_cast<std::int64_t>(options_.update_frequency);
}

void StageLoop::count_updates_from(std::int64_t pass) {
  first_ = std::max<std::int64_t>(pass, 0);
  stage().count_from(first_);
}

bool StageLoop::has_inputs(const PassHeader& header) const {
  if (options_.is_root()) {
    return true;
  }
  const auto& wanted = header.is_training() ? options_.inputs : options_.eval_inputs;
  return wanted.empty() ||
         inputs_.contains({header.generation, {header.is_training(), header.pass}});
}

bool StageLoop::has_tied_gradients(std::int64_t pass) const {
  if (outlets_.copies.empty()) {
    return true;
  }
  const auto found = tied_gradients_.find(pass);
  return found != tied_gradients_.end() && found->second.size() == outlets_.copies.size();
}

void StageLoop::begin(Work work) {
  if (work.control) {
    do_control(*work.control);
    return;
  }
  if (options_.is_root()) {
    work.header.generation = generation_;
    work.header.is_refused = false;
    send_inputs(work);
  } else if (!stage_ || work.header.generation != generation_) {
    return;  // of an earlier generation
  }
  note_start(work.header);
  note_epoch(work.header);
  if (is_refused(work)) {
    inputs_.erase({work.header.generation, {true, work.header.pass}});
    return forward_refused(work.header);
  }
  const std::vector<c10::IValue> inputs = assemble(work);
  if (options_.is_root()) {
    const PassKey key{work.header.is_training(), work.header.pass};
    const Work& kept = unfinished_[key] = std::move(work);
    kept.header.is_training() ? do_forward(kept, inputs) : do_evaluate(kept, inputs);
  } else {
    work.header.is_training() ? do_forward(work, inputs) : do_evaluate(work, inputs);
  }
}

// Learns from the first update that it sees the whole of, where it joins, or was lost with passes
// that will not come again: copies of its parameters must not wait for those.
void StageLoop::note_start(const PassHeader& header) {
  if (!header.is_training() || header.pass <= learned_ || stage().in_flight() > 0) {
    return;
  }
  const std::int64_t before = learned_;
  const bool is_joining = before == ReadyStage::kUnknown;
  learned_ =
      start_of_update(header.pass + static_cast<std::int64_t>(options_.update_frequency) - 1);
  if (is_joining) {
    listener_.on_joined(learned_);
  } else {
    listener_.on_missed(before, header.pass);
  }
  send_tied_values();
}

// A pass that is sent again may belong to an epoch that was left before.
void StageLoop::note_epoch(const PassHeader& header) {
  if (!header.is_training()) {
    return;
  }
  while (epoch_ < header.epoch) {
    listener_.on_epoch(++epoch_);
  }
}

void StageLoop::do_control(const Control& control) {
  switch (control.word) {
    case Word::kRun:
      return start_run(control);
    case Word::kValidationEnd: {
      Control summed = control;
      if (options_.is_root() && !sums_of(control)) {
        summed.numbers.insert(summed.numbers.end(), {bits_of(validation_.loss), validation_.correct,
                                                     validation_.counted});
      }
      validation_ = {};
      send_control(outlets_.next, summed);
      return listener_.on_word(summed);
    }
    case Word::kTrainingEnd:
      if (!stage_) {
        return;  // of an earlier generation
      }
      return end_training(control);
    case Word::kStop:  // the run has ended well
      return stop_with(control);
    default:
      throw_invalid("[provider] an unexpected word came forward.");
  }
}

void StageLoop::end_training(Control control) {
  if (options_.is_root() && control.numbers.size() == 1) {
    control.numbers.push_back(learned_);
  }
  training_end_ = control;
  count_updates_from(passes_of(control));
  send_tied_values(round_of(control));
  send_control(outlets_.next, control);
  publish();  // who waits for the end sees the last update
  listener_.on_word(control);
  if (options_.is_leaf()) {
    control.generation = generation_;
    tell_trained(control);
  }
}

// Whoever passes it on has ended the training itself, on this thread. One of an earlier generation
// may come to a stage that was started again, and has not.
void StageLoop::tell_trained(const Control& control) {
  if (control.generation != generation_) {
    return;
  }
  if (options_.is_root()) {
    listener_.on_trained(control);
  } else {
    send_control(outlets_.previous, control);
  }
}

void StageLoop::start_run(const Control& control) {
  if (run_ != control.text) {
    ReadyStage ready = listener_.prepare(control.text);
    stage_ = std::move(ready.stage);
    learned_ = ready.passes;
    run_ = control.text;
    epoch_ = ready.epoch;
    tied_through_.clear();
    awaited_homes_.clear();
    for (const auto& [home, tied] : outlets_.homes) {
      if (learned_ == ReadyStage::kUnknown) {
        awaited_homes_.insert(home);
      }
    }
    if (options_.is_root()) {
      count_updates_from(learned_);
    }
  }
  generation_ = options_.is_root() ? generation_ + 1 : control.generation;
  {
    const std::lock_guard lock(mutex_);
    begun_ = generation_;
  }
  // Inputs of the new generation may be here already.
  std::erase_if(inputs_, [&](const auto& entry) { return entry.first.first < generation_; });
  for (auto& [key, inputs] : inputs_) {
    if (key.first == generation_) {
      inputs.credit.release();
    }
  }
  for (const auto& [home, copies] : early_copies_) {
    if (copies.generation == generation_) {
      set_copies(home, copies);
    }
  }
  std::erase_if(early_copies_,
                [&](const auto& entry) { return entry.second.generation <= generation_; });
  stage().drop_all();
  backwards_.clear();
  tied_gradients_.clear();
  Control next = control;
  next.generation = generation_;
  if (options_.is_root()) {
    next.numbers = {first_};
  } else {
    count_updates_from(control.numbers.empty() ? 0 : control.numbers[0]);
  }
  send_control(outlets_.next, next);
  send_tied_values();
  joined_.clear();
  send_hello(generation_);
}

// At the root, when a stage was started: whatever was on its way may be lost.
void StageLoop::start_generation() {
  joined_.clear();
  std::deque<Work> again;
  again.push_back({.header = {},
                   .control = Control{.word = Word::kRun, .text = run_},
                   .values = {},
                   .credit = {}});
  if (training_end_) {
    again.push_back({.header = {}, .control = training_end_, .values = {}, .credit = {}});
  }
  // Training passes first: the results of others do not depend on the order.
  for (const bool is_training : {true, false}) {
    for (auto& [key, work] : unfinished_) {
      if (key.first == is_training) {
        again.push_back(std::move(work));
      }
    }
  }
  unfinished_.clear();
  std::ranges::move(forwards_, std::back_inserter(again));
  forwards_ = std::move(again);
}

std::vector<c10::IValue> StageLoop::assemble(const Work& work) {
  const auto& sources = work.header.is_training() ? options_.sources : options_.eval_sources;
  const auto& wanted = work.header.is_training() ? options_.inputs : options_.eval_inputs;
  std::vector<c10::IValue> model;
  if (auto node = inputs_.extract(
          {work.header.generation, {work.header.is_training(), work.header.pass}})) {
    model = std::move(node.mapped().values);
  }
  std::vector<c10::IValue> inputs;
  for (const graph::Source& source : sources) {
    const bool is_previous = source.kind == graph::Source::Kind::kPrevious;
    const bool from_work = is_previous || options_.is_root();
    const auto place = std::ranges::find(wanted, source.index) - wanted.begin();
    const std::size_t index = from_work ? source.index : static_cast<std::size_t>(place);
    const std::vector<c10::IValue>& values = from_work ? work.values : model;
    if (index >= values.size()) {
      throw_invalid("[provider] pass ", work.header.pass, " has ", values.size(),
                    is_previous ? " values from the stage before" : " inputs of the model",
                    ", expected more than ", index, ".");
    }
    inputs.push_back(values[index]);
  }
  return inputs;
}

void StageLoop::send_inputs(const Work& work) {
  for (const Outlets::Inputs& outlet : outlets_.inputs) {
    const auto& wanted = work.header.is_training() ? outlet.training : outlet.evaluation;
    if (wanted.empty()) {
      continue;
    }
    std::vector<c10::IValue> values;
    for (const std::size_t index : wanted) {
      if (index >= work.values.size()) {
        throw_invalid("[provider] expected more than ", index, " inputs of the model, got ",
                      work.values.size(), ".");
      }
      values.push_back(work.values[index]);
    }
    transport::Message message = to_message(work.header, MessageKind::kForward);
    pack(values, message);
    send(*outlet.to, message);
  }
}

void StageLoop::send_values(const PassHeader& header, const std::vector<c10::IValue>& values) {
  transport::Message message = to_message(
      header, header.is_training() ? MessageKind::kForward : MessageKind::kNoGradForward);
  pack(values, message);
  message.codec = options_.codec;
  send(*outlets_.next, message);
}

void StageLoop::do_forward(const Work& work, const std::vector<c10::IValue>& inputs) {
  const PassHeader header = work.header;
  const std::vector<c10::IValue> outputs = stage().forward(header.pass, inputs);
  fault_point("forward");
  if (options_.is_leaf()) {
    do_leaf(header, inputs, outputs);
  } else if (options_.is_root() && has_nan(outputs)) {
    note_refusal(header, options_.name, concat("its values are not numbers", cause(inputs)));
    forward_refused(header);
  } else {
    send_values(header, outputs);
  }
}

void StageLoop::do_leaf(PassHeader header, const std::vector<c10::IValue>& inputs,
                        const std::vector<c10::IValue>& outputs) {
  PassResult result;
  std::vector<at::Tensor> gradients(outputs.size());
  if (auto graded = listener_.criterion(header, outputs)) {
    result.loss = graded->loss;
    gradients = std::move(graded->gradients);
    if (header.weight != 1.0) {
      for (at::Tensor& gradient : gradients) {
        gradient = gradient.defined() ? gradient * header.weight : gradient;
      }
    }
  } else {
    if (outputs.empty() || !outputs[0].isTensor() || outputs[0].toTensor().numel() != 1) {
      throw_invalid(
          "[provider] expected a model whose first output is its loss: capture it with "
          "loss=…, or give a criterion.");
    }
    const at::Tensor& loss = outputs[0].toTensor();
    result.loss = loss.item<double>();
    gradients[0] = at::scalar_tensor(header.weight, loss.options()).expand_as(loss);
  }
  if (!std::isfinite(result.loss)) {
    note_refusal(header, options_.name, concat("the loss is ", result.loss, cause(inputs)));
    header.is_refused = true;
    stage().refuse(header.pass);
  }
  finish_backward(header, result, gradients);
}

void StageLoop::do_evaluate(const Work& work, const std::vector<c10::IValue>& inputs) {
  const PassHeader header = work.header;
  std::vector<c10::IValue> outputs = stage().evaluate(inputs);
  if (!options_.is_leaf()) {
    send_values(header, outputs);
    return;
  }
  PassResult result;
  if (header.purpose == Purpose::kValidate) {
    result = listener_.score(header, inputs, outputs);
    outputs.clear();
  }
  if (options_.is_root()) {
    finish_pass(header, result, std::move(outputs));
    return;
  }
  transport::Message message = to_message(header, MessageKind::kResult);
  add_result(result, message);
  pack(outputs, message);
  send(*outlets_.results, message);
}

void StageLoop::do_backward(Backward backward) {
  if (is_refused(backward)) {
    backward.header.is_refused = true;
    tied_gradients_.erase(backward.header.pass);
    stage().refuse(backward.header.pass);
  }
  add_tied_gradients(backward.header);
  backward.credit.release();
  finish_backward(backward.header, backward.result, backward.gradients);
}

void StageLoop::add_tied_gradients(const PassHeader& header) {
  const auto node = tied_gradients_.extract(header.pass);
  if (!node || header.pass < learned_) {
    return;
  }
  for (const Outlets::Tied& copies : outlets_.copies) {
    const std::vector<at::Tensor>& given = node.mapped().at(copies.peer);
    for (std::size_t i = 0; i < copies.names.size(); ++i) {
      if (given[i].defined()) {
        stage().add_gradient(copies.names[i], given[i]);
      }
    }
  }
}

// A neighbour may have sent gradients of a pass that there is not, or of other outputs.
std::vector<at::Tensor> StageLoop::learn(const PassHeader& header,
                                         const std::vector<at::Tensor>& gradients, bool counts) {
  try {
    return stage().backward(header.pass, gradients, counts);
  } catch (const std::invalid_argument& bad) {
    if (options_.is_leaf()) {
      throw;
    }
    throw LocalFault(bad.what());
  }
}

void StageLoop::finish_backward(const PassHeader& header, const PassResult& result,
                                const std::vector<at::Tensor>& gradients) {
  const bool counts = header.pass >= learned_;
  const std::uint64_t updates = stage().updates();
  if (counts && !header.is_refused) {
    listener_.on_loss(result.loss);
  }
  const std::vector<at::Tensor> found = learn(header, gradients, counts);
  const bool is_update = stage().updates() != updates;
  if (!options_.is_root()) {
    send_gradients(header, result, found);
  }
  send_tied_gradients(header);
  if (counts) {
    learned_ = header.pass + 1;
  }
  if (is_update) {
    send_tied_values();
  }
  if (counts) {
    listener_.on_learned(header, result, is_update);
  }
  if (is_update) {
    check_skipped(header);
  }
  if (options_.is_root()) {
    const auto now = Clock::now();
    limit_.on_pass(now - std::exchange(last_pass_, now));
    finish_pass(header, result, {});
  }
}

// To the stage before: of its outputs, and none of a pass that is refused.
void StageLoop::send_gradients(const PassHeader& header, const PassResult& result,
                               const std::vector<at::Tensor>& of_inputs) {
  std::vector<at::Tensor> ours;
  for (std::size_t i = 0; i < of_inputs.size(); ++i) {
    const graph::Source& source = options_.sources[i];
    if (source.kind == graph::Source::Kind::kPrevious) {
      ours.resize(std::max(ours.size(), source.index + 1));
      ours[source.index] = of_inputs[i];
    }
  }
  transport::Message message = to_message(header, MessageKind::kBackward);
  add_result(result, message);
  pack_tensors(ours, message);
  message.codec = options_.codec;
  send(*outlets_.previous, message);
}

void StageLoop::finish_pass(const PassHeader& header, const PassResult& result,
                            std::vector<c10::IValue> outputs) {
  if (unfinished_.erase({header.is_training(), header.pass}) == 0) {
    return;  // a result that came twice
  }
  if (header.purpose == Purpose::kValidate) {
    validation_.loss += result.loss * static_cast<double>(header.samples);
    validation_.correct += result.correct;
    validation_.counted += result.counted;
  }
  listener_.on_done(header, result, std::move(outputs));
}

void StageLoop::send_tied_values(std::int64_t final_round) {
  for (const Outlets::Tied& copies : outlets_.copies) {
    transport::Message message;
    message.kind = MessageKind::kForward;
    message.pass = learned_;
    message.epoch = generation_;
    message.fields = {final_round};
    std::vector<at::Tensor> values;
    for (const std::string& name : copies.names) {
      // A copy, since the next update may change it in place before it has left.
      values.push_back(stage().weights().current()->weights.at(name).detach().clone());
    }
    pack_tensors(values, message);
    send(*copies.to, message);
  }
}

void StageLoop::send_tied_gradients(const PassHeader& header) {
  if (outlets_.homes.empty()) {
    return;
  }
  const auto gradients = stage().take_copy_gradients();
  for (const auto& [home, tied] : outlets_.homes) {
    transport::Message message;
    message.kind = MessageKind::kBackward;
    message.pass = header.pass;
    message.epoch = header.generation;
    std::vector<at::Tensor> ours;
    for (const std::string& name : tied.names) {
      const auto found = gradients.find(name);
      ours.push_back(found == gradients.end() ? at::Tensor() : found->second);
    }
    pack_tensors(ours, message);
    send(*tied.to, message);
  }
}

}  // namespace ravnest::provider
