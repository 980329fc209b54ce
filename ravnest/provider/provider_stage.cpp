// What the loop asks of a provider, and tells it: the stage, its checkpoints and files.

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "ravnest/base/error.h"
#include "ravnest/package/trained.h"
#include "ravnest/provider/provider_impl.h"
#include "ravnest/provider/score.h"
#include "ravnest/provider/stopped.h"
#include "ravnest/provider/values.h"

namespace ravnest::provider {

namespace {

constexpr Milliseconds kLastReports{1000};

int threads_for(const package::NodeConfig& node) {
  const auto cores = std::max(1U, std::thread::hardware_concurrency());
  return std::max(1, static_cast<int>(cores / node.providers_here));
}

// A number that reads back as the same float, without more digits than it takes.
std::string short_number(double number, const char* format) {
  char text[40];
  std::snprintf(text, sizeof text, format, number);
  return text;
}

// Where the last of the model's inputs comes in, if it does.
std::optional<std::size_t> find_target(const std::vector<graph::Source>& sources) {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const bool is_later = !found || sources[i].index > sources[*found].index;
    if (sources[i].kind == graph::Source::Kind::kModel && is_later) {
      found = i;
    }
  }
  return found;
}

}  // namespace

// OpenMP counts for each thread apart: called on the loop's.
void Provider::Impl::share_cores() const {
  if (options_.threads) {
    at::set_num_threads(*options_.threads);
  } else if (std::getenv("OMP_NUM_THREADS") == nullptr) {
    at::set_num_threads(threads_for(node_));
  }
}

ReadyStage Provider::Impl::prepare(const std::string& run) {
  share_cores();
  const bool goes_on = found_ && found_->run == run;
  rule_ = options_.make_rule();
  ReadyStage ready{.stage = make_stage(goes_on ? &*found_ : nullptr)};
  const bool is_joining = options_.from_ring && !goes_on;
  if (goes_on) {
    ready.passes = found_->passes;
    ready.epoch = found_->epoch;
  } else if (is_joining) {
    ready.passes = ReadyStage::kUnknown;
    if (options_.averaging.with_rule) {  // what others average of theirs has a place then
      rule_->load_state(rule_after_nothing(*ready.stage),
                        ready.stage->weights().current()->weights);
    }
  }
  has_recorded_ = false;
  learned_epoch_ = -1;
  batch_loss_ = 0.0;
  found_.reset();
  stage_ = ready.stage.get();
  if (averaging_) {
    averaging_->begin(*stage_, *rule_,
                      is_joining ? Beginning::kFromOthers
                      : goes_on  ? Beginning::kGoesOn
                                 : Beginning::kAnew);
  }
  updated_ = ready.passes;
  {
    const std::lock_guard lock(mutex_);
    run_ = run;
    status_.passes = status_.resumed = std::max<std::int64_t>(ready.passes, 0);
    status_.epoch = ready.epoch;
    status_.samples = 0;
    status_.rate = rule_->rate();
  }
  changed_.notify_all();
  if (reports_) {
    report(to_message(Control{
        .word = Word::kRun, .generation = session_, .numbers = {ready.passes}, .text = run}));
  }
  return ready;
}

void Provider::Impl::on_joined(std::int64_t passes) {
  updated_ = passes;
  rule_->skip_updates(passes / static_cast<std::int64_t>(options_.update_frequency));
  const std::lock_guard lock(mutex_);
  status_.passes = status_.resumed = passes;
  status_.rate = rule_->rate();
}

void Provider::Impl::on_missed(std::int64_t passes, std::int64_t next) {
  const std::string from =
      passes > 0 ? concat("from its checkpoint of ", passes, " passes")
      : averaging_
          ? std::string("from the weights of the other clusters")
          : concat("from the plan's weights, since it has no checkpoint (checkpoint_every=",
                   options_.checkpoint_every, ")");
  notify({.kind = transport::NoticeKind::kWarning,
          .text = concat(options_.name, " was started again and goes on ", from,
                         ": what it had learned from ", next - passes, " more is lost.")});
}

RuleState Provider::Impl::rule_after_nothing(engine::Stage& stage) const {
  const at::NoGradGuard no_grad;
  const auto scratch = options_.make_rule();
  engine::GradientStep step;
  for (const auto& [name, tensor] : stage.weights().current()->weights) {
    if (tensor.requires_grad() && !node_.tied.contains(name)) {
      step.names.push_back(name);
      step.gradients.emplace(name, at::zeros_like(tensor));
    }
  }
  const engine::BoundProgram copy(stage.program().program(), stage.snapshot());
  engine::WeightVersions weights(copy);
  scratch->apply(step, weights);
  return scratch->state();
}

engine::BoundProgram Provider::Impl::read_program() const {
  return engine::BoundProgram(package::read_stage(options_.node_data, node_).program);
}

std::unique_ptr<engine::Stage> Provider::Impl::make_stage(const Checkpoint* checkpoint) {
  engine::BoundProgram program = options_.make_program ? options_.make_program()
                                 : stage_ != nullptr   ? read_program()
                                                       : engine::BoundProgram(files_.program);
  program.to(options_.device);
  if (checkpoint != nullptr) {
    const at::NoGradGuard no_grad;
    for (const auto& [name, tensor] : program.weights()) {
      const auto found = checkpoint->weights.find(name);
      if (found == checkpoint->weights.end() || found->second.sizes() != tensor.sizes()) {
        throw_invalid("[provider] the checkpoint of '", options_.name, "' has no weight '", name,
                      "' of this shape.");
      }
      at::Tensor(tensor.detach()).copy_(found->second);
    }
    rule_->load_state(checkpoint->rule, program.weights());
  }
  engine::StageOptions options{.memory = options_.memory,
                               .update_frequency = options_.update_frequency,
                               .copies = {},
                               .compensation = options_.compensation};
  for (const auto& [name, home] : node_.tied) {
    options.copies.insert(name);
  }
  auto stage = std::make_unique<engine::Stage>(
      std::move(program), options,
      [this](const engine::GradientStep& step, engine::WeightVersions& weights) {
        rule_->apply(step, weights);
      });
  if (options_.predict_weights) {
    stage->predict_with(rule_->predictor());
  }
  return stage;
}

std::optional<LossAndGradients> Provider::Impl::criterion(const PassHeader& header,
                                                          const std::vector<c10::IValue>& outputs) {
  if (!callbacks_.criterion) {
    return std::nullopt;
  }
  return callbacks_.criterion(header, outputs);
}

PassResult Provider::Impl::score(const PassHeader& header, const std::vector<c10::IValue>& inputs,
                                 const std::vector<c10::IValue>& outputs) {
  if (callbacks_.score) {
    return callbacks_.score(header, outputs);
  }
  const bool has_loss =
      !outputs.empty() && outputs[0].isTensor() && outputs[0].toTensor().numel() == 1;
  const auto target = find_target(files_.program.eval_graph ? files_.eval_sources : files_.sources);
  PassResult result;
  const std::size_t output = has_loss ? 1 : 0;
  if (target && inputs[*target].isTensor() && outputs.size() > output &&
      outputs[output].isTensor()) {
    result = count_correct(outputs[output].toTensor(), inputs[*target].toTensor());
  }
  result.loss = has_loss ? outputs[0].toTensor().item<double>() : 0.0;
  return result;
}

void Provider::Impl::on_epoch(std::int64_t epoch) {
  rule_->start_epoch();
  if (averaging_) {
    averaging_->on_epoch();
  }
  const std::lock_guard lock(mutex_);
  status_.epoch = epoch;
  status_.rate = rule_->rate();
}

void Provider::Impl::on_learned(const PassHeader& header, const PassResult& result,
                                bool is_update) {
  const auto now = std::chrono::steady_clock::now();
  is_trained_ = false;
  {
    const std::lock_guard lock(mutex_);
    if (status_.samples == 0) {
      first_pass_ = now;
    } else {
      const double seconds = std::chrono::duration<double>(now - first_pass_).count();
      status_.samples_per_second = static_cast<double>(status_.samples) / seconds;
    }
    const bool is_next_epoch = header.epoch > learned_epoch_ && learned_epoch_ >= 0;
    if (is_next_epoch && header.pass % header.epoch == 0) {
      status_.batches = header.pass / header.epoch;
    }
    learned_epoch_ = header.epoch;
    status_.passes = header.pass + 1;
    status_.samples += header.samples;
    status_.loss = result.loss;
    status_.rate = rule_->rate();
  }
  if (node_.stage + 1 == node_.stages) {
    record_loss(header, result);
  }
  if (callbacks_.on_learned) {
    callbacks_.on_learned(header, result);
  }
  if (is_update) {
    updated_ = header.pass + 1;
    is_checkpoint_due_ = keeper_.is_due(updated_);
    if (!reports_) {
      keep_if_due();
    }
  }
  if (is_update && averaging_) {
    const auto each = static_cast<std::int64_t>(options_.update_frequency);
    averaging_->on_update((updated_ + each - 1) / each);
  }
}

void Provider::Impl::record_loss(const PassHeader& header, const PassResult& result) {
  if (!std::exchange(has_recorded_, true)) {
    losses_.keep(static_cast<std::size_t>(header.pass / header.parts));
  }
  batch_loss_ += result.loss * header.weight / static_cast<double>(header.parts);
  if (header.part + 1 == header.parts) {
    losses_.add(short_number(std::exchange(batch_loss_, 0.0), "%.9g"));
  }
}

// Gradients that wait for their update are left out: those passes are to be learned from again.
Checkpoint Provider::Impl::take_checkpoint() {
  Checkpoint checkpoint{.plan = node_.plan,
                        .run = {},
                        .passes = updated_,
                        .weights = stage_->snapshot(),
                        .rule = rule_->state()};
  for (auto& [name, tensor] : checkpoint.rule.tensors) {
    tensor = tensor.clone();
  }
  const std::lock_guard lock(mutex_);
  checkpoint.run = run_;
  checkpoint.epoch = status_.epoch;
  return checkpoint;
}

// What the requester must know comes first: the root that goes on from here does not tell again.
void Provider::Impl::keep_if_due() {
  if (!std::exchange(is_checkpoint_due_, false)) {
    return;
  }
  flush_reports();
  keeper_.share(take_checkpoint());
}

// A requester that is away, or slow, is not waited for.
void Provider::Impl::flush_reports() {
  try {
    if (reports_) {
      reports_->flush(kLastReports);
    }
  } catch (const Error&) {
  }
}

void Provider::Impl::on_done(const PassHeader& header, const PassResult& result,
                             std::vector<c10::IValue> outputs) {
  if (reports_) {
    transport::Message message = to_message(header, transport::MessageKind::kResult);
    add_result(result, message);
    pack(outputs, message);
    report(std::move(message));
    keep_if_due();
  } else if (header.purpose == Purpose::kPredict) {
    const std::lock_guard lock(mutex_);
    predictions_.push_back(std::move(outputs));
    changed_.notify_all();
  }
}

void Provider::Impl::on_refused(const std::string& sender, const std::string& text) {
  notify(
      {.kind = transport::NoticeKind::kRefused, .peer = sender, .channel = "values", .text = text});
}

void Provider::Impl::report(transport::Message message) {
  reports_->send(message, transport::kForEver);
}

// Says it again where a stage was started anew meanwhile: one that has nothing of this run must not
// save what it began with.
void Provider::Impl::end_training(const Control& control) {
  updated_ = status().passes;
  const std::int64_t passes = passes_of(control);
  if (updated_ == 0 && passes > 0 && !averaging_) {
    throw_invalid("[provider] ", options_.name, " was started again after ", passes,
                  " passes of training, and has no checkpoint of them (checkpoint_every=",
                  options_.checkpoint_every, "): what it had learned is lost.");
  }
  is_trained_ = true;
  if (options_.save) {
    save_on_loop(*stage_);
    if (callbacks_.on_saved) {
      callbacks_.on_saved(package::trained_file(options_.node_data, node_), updated_);
    }
  }
  if (options_.checkpoint_every > 0 || options_.ends_alone) {
    keeper_.keep(take_checkpoint());
    keeper_.finish();
  }
}

// The line of a validation is that of its number: one that is done again replaces its own.
void Provider::Impl::record_accuracy(std::int64_t round, const PassResult& sums) {
  const auto before = static_cast<std::size_t>(std::max<std::int64_t>(round - 1, 0));
  if (accuracies_.lines() != before) {
    accuracies_.keep(before);
  }
  accuracies_.add(short_number(
      100.0 * static_cast<double>(sums.correct) / static_cast<double>(sums.counted), "%.2f"));
}

void Provider::Impl::on_word(const Control& control) {
  if (control.word == Word::kTrainingEnd) {
    end_training(control);
  }
  PassResult sums;
  if (control.word == Word::kValidationEnd) {
    sums = sums_of(control).value_or(sums);
    if (sums.counted > 0 && node_.stage + 1 == node_.stages) {
      record_accuracy(round_of(control), sums);
    }
  }
  if (control.word == Word::kValidationEnd) {
    const std::lock_guard lock(mutex_);
    validations_ = std::max(validations_, round_of(control));
    last_validation_ = sums;
  } else if (node_.stage > 0) {
    count_training(control);
  }
  changed_.notify_all();
  if (reports_) {
    report(to_message(control));
  }
}

// Who waits for the root finds the weights of all stages on disk.
void Provider::Impl::on_trained(const Control& control) { count_training(control); }

void Provider::Impl::count_training(const Control& control) {
  {
    const std::lock_guard lock(mutex_);
    trainings_ = std::max(trainings_, round_of(control));
    trained_validations_ = validations_;
  }
  changed_.notify_all();
}

void Provider::Impl::on_over(const std::exception_ptr& error) {
  if (averaging_) {
    averaging_->stop();
  }
  try {
    leave_files(error);
  } catch (const std::exception& failed) {
    notify({.kind = transport::NoticeKind::kFailed, .text = failed.what()});
  }
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    error_ = error;
    stage_ = nullptr;
  }
  changed_.notify_all();
}

void Provider::Impl::leave_files(const std::exception_ptr& error) {
  bool is_kept = false;
  {
    const std::lock_guard lock(mutex_);
    is_kept = is_kept_;
  }
  const auto exit_code = exit_code_of(error);
  const bool is_stopped = exit_code && *exit_code != 1;  // on purpose, not for an error elsewhere
  // What was never trained must not take the place of what an earlier run has saved.
  if (stage_ != nullptr && is_stopped && options_.save && updated_ > 0) {
    save_on_loop(*stage_, true);
  }
  const bool is_whole = !error && is_trained_ && !options_.ends_alone;
  if (stage_ != nullptr && is_kept && updated_ >= 0) {
    flush_reports();
    keeper_.keep(take_checkpoint());
    keeper_.finish();
  } else if (stage_ != nullptr && (is_whole || (is_stopped && ends_run()))) {
    keeper_.remove();  // the next run begins anew
  }
  if (reports_ && error && (exit_code || !options_.ends_alone)) {
    reports_->send(to_message(Control{.word = Word::kStop, .numbers = {1}, .text = text_of(error)}),
                   kLastReports);
  }
}

// Of a run that was stopped: whether nobody is to go on from here. The root says so for all, since
// the run's id goes with its checkpoint (that of a job is known to all). One that has learned
// nothing was still waiting for the others, and keeps what it came with.
bool Provider::Impl::ends_run() const {
  return !options_.job.empty() || (node_.stage == 0 && updated_ > status().resumed);
}

void Provider::Impl::save_on_loop(engine::Stage& stage, bool is_interrupted) {
  package::TrainedStage trained;
  trained.is_interrupted = is_interrupted;
  for (const auto& [name, tensor] : stage.snapshot()) {
    trained.tensors.emplace(name, to_stored(tensor));
  }
  {
    const std::lock_guard lock(mutex_);
    trained.run = run_;
    trained.passes = static_cast<std::uint64_t>(status_.passes);
  }
  package::write_trained(options_.node_data, node_, trained);
}

}  // namespace ravnest::provider
