#include "ravnest/provider/provider.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <future>
#include <mutex>
#include <random>
#include <thread>

#include "ravnest/base/error.h"
#include "ravnest/engine/block_allocator.h"
#include "ravnest/package/trained.h"
#include "ravnest/provider/checkpoint.h"
#include "ravnest/provider/line_file.h"
#include "ravnest/provider/score.h"
#include "ravnest/provider/stopped.h"
#include "ravnest/provider/values.h"
#include "ravnest/provider/wiring.h"
#include "ravnest/provider/writer.h"
#include "ravnest/transport/grpc/grpc_transport.h"

namespace ravnest::provider {

namespace fs = std::filesystem;

namespace {

// Passes that wait for their turn at the root, so that it never waits for its caller.
constexpr std::size_t kQueuedPasses = 2;

std::string draw_run_id() {
  std::random_device random;
  const std::uint64_t bits = (std::uint64_t{random()} << 32) | random();
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(bits));
  return text;
}

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

class Provider::Impl : public LoopListener {
 public:
  Impl(ProviderOptions options, ProviderCallbacks callbacks);
  ~Impl() override;

  void start();
  bool submit(PassHeader header, const std::vector<c10::IValue>& inputs, Milliseconds timeout);
  void stop(int exit_code, const std::string& reason) { loop_->stop(exit_code, reason); }
  void close(Milliseconds timeout);
  void save();
  engine::WeightMap weights();
  template <typename Done>
  bool wait(const Done& is_done, Milliseconds timeout);
  Status status() const;

  std::optional<transport::TimePoint> hold() override {
    return averaging_ ? averaging_->hold() : std::nullopt;
  }
  bool is_training_whole() override { return !averaging_ || averaging_->finish(); }
  ReadyStage prepare(const std::string& run) override;
  std::optional<LossAndGradients> criterion(const PassHeader& header,
                                            const std::vector<c10::IValue>& outputs) override;
  PassResult score(const PassHeader& header, const std::vector<c10::IValue>& inputs,
                   const std::vector<c10::IValue>& outputs) override;
  void on_epoch(std::int64_t epoch) override;
  void on_learned(const PassHeader& header, const PassResult& result, bool is_update) override;
  void on_done(const PassHeader& header, const PassResult& result,
               std::vector<c10::IValue> outputs) override;
  void on_word(const Control& control) override;
  void on_over(const std::exception_ptr& error) override;

 private:
  friend class Provider;

  void make_transport();
  void make_averaging();
  void share_cores() const;
  void listen_to_requester();
  void on_request(transport::Delivery delivery);
  void on_end(Channel channel, const std::exception_ptr& error);
  void record_loss(const PassHeader& header, const PassResult& result);
  void keep_checkpoint(engine::Stage& stage);
  void save_on_loop(engine::Stage& stage);
  void report(transport::Message message);
  std::unique_ptr<engine::Stage> make_stage(const Checkpoint* checkpoint);

  ProviderOptions options_;
  ProviderCallbacks callbacks_;
  package::NodeConfig node_;
  graph::Stage files_;
  std::optional<Checkpoint> found_;  // of an earlier process
  std::unique_ptr<UpdateRule> rule_;
  LineFile losses_;
  LineFile accuracies_;
  FileWriter writer_;

  std::unique_ptr<transport::Transport> transport_;
  std::unique_ptr<Wiring> wiring_;
  std::unique_ptr<transport::Receiver> requests_;
  std::unique_ptr<transport::Sender> reports_;
  std::unique_ptr<StageLoop> loop_;
  std::unique_ptr<Averaging> averaging_;  // where there are other clusters

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  Status status_;
  std::string run_;
  std::int64_t submitted_ = 0;
  std::int64_t evaluated_ = 0;
  std::int64_t training_rounds_ = 0;
  std::int64_t validation_rounds_ = 0;
  std::int64_t trainings_ = 0;
  std::int64_t validations_ = 0;
  PassResult last_validation_;
  std::deque<std::vector<c10::IValue>> predictions_;
  bool is_over_ = false;
  std::exception_ptr error_;

  // Of the loop's thread.
  engine::Stage* stage_ = nullptr;
  std::int64_t updates_since_checkpoint_ = 0;
  bool has_recorded_ = false;
  double batch_loss_ = 0.0;
  std::chrono::steady_clock::time_point first_pass_;
};

Provider::Impl::Impl(ProviderOptions options, ProviderCallbacks callbacks)
    : options_(std::move(options)),
      callbacks_(std::move(callbacks)),
      node_(package::read_node(options_.node_data, options_.name)),
      files_(package::read_stage(options_.node_data, node_)),
      losses_(options_.loss_file),
      accuracies_(options_.accuracy_file) {
  if (!options_.make_rule) {
    throw_invalid("[provider] expected an optimizer for '", options_.name, "', got none.");
  }
  if (options_.resume) {
    found_ = read_checkpoint(checkpoint_path(options_.node_data, node_));
    if (found_ && found_->plan != node_.plan) {
      found_.reset();
    }
  }
  // Threads to come share one heap: tensors are freed on others than they were made on, and each
  // heap would keep what was freed in it.
  ::mallopt(M_ARENA_MAX, 1);
  engine::use_block_allocator();
  make_transport();
  Wiring::Handlers handlers{
      .on_message =
          [this](Channel channel, transport::Delivery delivery) {
            loop_->deliver(channel, std::move(delivery));
          },
      .on_end = [this](Channel channel,
                       const std::exception_ptr& error) { on_end(channel, error); }};
  // The loop is there before the first message: channels open as the wiring does.
  const bool has_eval = files_.program.eval_graph.has_value();
  LoopOptions loop{.stage = node_.stage,
                   .stages = node_.stages,
                   .schedule = options_.schedule,
                   .update_frequency = options_.update_frequency,
                   .sources = files_.sources,
                   .eval_sources = has_eval ? files_.eval_sources : files_.sources,
                   .inputs = node_.mates[node_.stage].inputs,
                   .eval_inputs = node_.mates[node_.stage].eval_inputs,
                   .codec = transport::parse_codec(options_.codec),
                   .device = options_.device};
  loop_ = std::make_unique<StageLoop>(std::move(loop), *this);
  wiring_ = std::make_unique<Wiring>(*transport_, node_, handlers);
  loop_->set_outlets(wiring_->outlets());
  listen_to_requester();
  make_averaging();
}

void Provider::Impl::make_averaging() {
  if (!Averaging::is_needed(node_)) {
    return;
  }
  Averaging::Hooks hooks;
  hooks.post = [this](std::function<void()> task) {
    loop_->post([task = std::move(task)](engine::Stage&) { task(); });
  };
  // Read anew: the stage trains in the memory of the file that it was made from.
  hooks.initial = [this] {
    return engine::BoundProgram(package::read_stage(options_.node_data, node_).program).weights();
  };
  hooks.on_changed = [this] { loop_->on_weights_changed(); };
  hooks.on_news = [this](const AveragingNews& news) {
    {
      const std::lock_guard lock(mutex_);
      ++status_.averagings;
      status_.averaged_bytes += news.nbytes;
    }
    if (callbacks_.on_averaged) {
      callbacks_.on_averaged(news);
    }
  };
  hooks.on_notice = [this](const std::string& text, bool is_waiting) {
    if (callbacks_.on_notice) {
      using transport::NoticeKind;
      callbacks_.on_notice({.kind = is_waiting ? NoticeKind::kWaiting : NoticeKind::kLost,
                            .peer = is_waiting ? std::string("averaging") : text,
                            .channel = "reduce",
                            .text = text});
    }
  };
  AveragingOptions averaging = options_.averaging;
  averaging.is_network_trusted = options_.is_network_trusted;
  averaging_ = std::make_unique<Averaging>(averaging, node_, *transport_, std::move(hooks));
}

void Provider::Impl::make_transport() {
  transport::GrpcOptions grpc{.listen = node_.address,
                              .limits = {},
                              .credentials = {},
                              .is_network_trusted = options_.is_network_trusted};
  transport::TransportOptions options;
  options.name = options_.name;
  options.plan = node_.plan;
  options.window = {.messages = 8 * node_.stages + 4 * options_.update_frequency + 16,
                    .nbytes = std::size_t{1} << 40};
  options.limits.held_bytes = std::size_t{1} << 40;
  options.timeouts.return_within = options_.return_within;
  options.on_notice = [this](const transport::Notice& notice) {
    // What becomes of other clusters is for the averaging to say.
    const bool is_ours = !notice.channel.starts_with("reduce.");
    if (callbacks_.on_notice && is_ours) {
      callbacks_.on_notice(notice);
    }
  };
  transport_ = transport::make_grpc_transport(grpc, options);
}

void Provider::Impl::listen_to_requester() {
  if (!options_.requester || node_.stage != 0) {
    return;
  }
  reports_ = transport_->open(*options_.requester, "reports");
  requests_ = transport_->receive(
      *options_.requester, "requests",
      {.on_message = [this](transport::Delivery delivery) { on_request(std::move(delivery)); },
       .on_end = [this](const std::exception_ptr& error) { on_end(Channel::kForward, error); }});
}

void Provider::Impl::on_request(transport::Delivery delivery) {
  if (delivery.message.kind == transport::MessageKind::kControl) {
    Control control = read_control(delivery.message);
    if (control.word == Word::kStop) {
      loop_->stop(exit_code_of(control), control.text);
    } else {
      loop_->submit(std::move(control), std::move(delivery.credit));
    }
    return;
  }
  const PassHeader header = read_header(delivery.message);
  loop_->submit(header, unpack(delivery.message, options_.device), std::move(delivery.credit));
}

Provider::Impl::~Impl() {
  if (loop_) {
    loop_->abandon();
  }
  if (averaging_) {
    averaging_->stop();
  }
  // Ends whatever the loop waits for; nothing is delivered afterwards.
  transport_.reset();
  loop_.reset();
}

void Provider::Impl::start() {
  std::string run;
  if (node_.stage == 0) {
    run = found_ ? found_->run : draw_run_id();
  }
  loop_->start(run);
}

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
  if (goes_on) {
    ready.passes = found_->passes;
    ready.epoch = found_->epoch;
  }
  has_recorded_ = false;
  found_.reset();
  stage_ = ready.stage.get();
  if (averaging_) {
    averaging_->begin(*stage_, *rule_, goes_on);
  }
  updates_since_checkpoint_ = 0;
  {
    const std::lock_guard lock(mutex_);
    run_ = run;
    status_.passes = status_.resumed = ready.passes;
    status_.epoch = ready.epoch;
    status_.rate = rule_->rate();
  }
  changed_.notify_all();
  return ready;
}

std::unique_ptr<engine::Stage> Provider::Impl::make_stage(const Checkpoint* checkpoint) {
  engine::BoundProgram program =
      options_.make_program ? options_.make_program() : engine::BoundProgram(files_.program);
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
  {
    const std::lock_guard lock(mutex_);
    if (status_.samples == 0) {
      first_pass_ = now;
    } else {
      const double seconds = std::chrono::duration<double>(now - first_pass_).count();
      status_.samples_per_second = static_cast<double>(status_.samples) / seconds;
    }
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
  if (is_update && options_.checkpoint_every > 0 &&
      ++updates_since_checkpoint_ >= options_.checkpoint_every && writer_.is_free()) {
    updates_since_checkpoint_ = 0;
    keep_checkpoint(*stage_);
  }
  if (is_update && averaging_) {
    averaging_->on_update();
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

void Provider::Impl::keep_checkpoint(engine::Stage& stage) {
  Checkpoint checkpoint{.plan = node_.plan, .weights = stage.snapshot(), .rule = rule_->state()};
  for (auto& [name, tensor] : checkpoint.rule.tensors) {
    tensor = tensor.clone();
  }
  {
    const std::lock_guard lock(mutex_);
    checkpoint.run = run_;
    checkpoint.passes = status_.passes;
    checkpoint.epoch = status_.epoch;
  }
  writer_.write(
      [checkpoint = std::move(checkpoint), path = checkpoint_path(options_.node_data, node_)] {
        write_checkpoint(checkpoint, path);
      });
}

void Provider::Impl::on_done(const PassHeader& header, const PassResult& result,
                             std::vector<c10::IValue> outputs) {
  if (reports_) {
    transport::Message message = to_message(header, transport::MessageKind::kResult);
    add_result(result, message);
    pack(outputs, message);
    report(std::move(message));
  } else if (header.purpose == Purpose::kPredict) {
    const std::lock_guard lock(mutex_);
    predictions_.push_back(std::move(outputs));
    changed_.notify_all();
  }
}

void Provider::Impl::report(transport::Message message) {
  reports_->send(message, transport::kForEver);
}

void Provider::Impl::on_word(const Control& control) {
  if (control.word == Word::kTrainingEnd) {
    if (options_.save) {
      save_on_loop(*stage_);
    }
    // The run is whole: the next one begins anew.
    writer_.finish();
    std::error_code ignored;
    fs::remove(checkpoint_path(options_.node_data, node_), ignored);
  }
  PassResult sums;
  if (control.word == Word::kValidationEnd) {
    sums = sums_of(control).value_or(sums);
    if (sums.counted > 0 && node_.stage + 1 == node_.stages) {
      accuracies_.add(short_number(
          100.0 * static_cast<double>(sums.correct) / static_cast<double>(sums.counted), "%.2f"));
    }
  }
  {
    const std::lock_guard lock(mutex_);
    auto& count = control.word == Word::kTrainingEnd ? trainings_ : validations_;
    count = std::max(count, round_of(control));
    if (control.word == Word::kValidationEnd) {
      last_validation_ = sums;
    }
  }
  changed_.notify_all();
  if (reports_) {
    report(to_message(control));
  }
}

void Provider::Impl::on_over(const std::exception_ptr& error) {
  if (averaging_) {
    averaging_->stop();
  }
  bool is_stopped = false;
  try {
    if (error) {
      std::rethrow_exception(error);
    }
  } catch (const StoppedRun& stopped) {
    is_stopped = stopped.exit_code() != 1;  // on purpose, and not for an error elsewhere
  } catch (...) {
  }
  try {
    if (is_stopped && stage_ != nullptr) {
      if (options_.save) {
        save_on_loop(*stage_);
      }
      if (options_.keeps_stopped) {
        keep_checkpoint(*stage_);
      }
      writer_.finish();
      if (!options_.keeps_stopped) {
        fs::remove(checkpoint_path(options_.node_data, node_));
      }
    }
    if (reports_ && error) {
      reports_->send(
          to_message(Control{.word = Word::kStop, .numbers = {1}, .text = text_of(error)}),
          Milliseconds(1000));
    }
  } catch (const std::exception& failed) {
    if (callbacks_.on_notice) {
      callbacks_.on_notice({.kind = transport::NoticeKind::kFailed, .text = failed.what()});
    }
  }
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    error_ = error;
    stage_ = nullptr;
  }
  changed_.notify_all();
}

void Provider::Impl::on_end(Channel channel, const std::exception_ptr& error) {
  if (error) {
    loop_->fail(error);
  } else if (channel == Channel::kForward) {  // the root has left, and so do we, in our turn
    loop_->submit(Control{.word = Word::kStop, .numbers = {0}});
  }
}

bool Provider::Impl::submit(PassHeader header, const std::vector<c10::IValue>& inputs,
                            Milliseconds timeout) {
  const bool is_ready =
      wait([this] { return !run_.empty(); }, timeout) &&
      loop_->wait([](const StageLoop::Status& status) { return status.queued < kQueuedPasses; },
                  timeout);
  if (!is_ready) {
    return false;
  }
  {
    const std::lock_guard lock(mutex_);
    header.pass = header.is_training() ? submitted_++ : evaluated_++;
    if (header.is_training() && header.pass < status_.resumed) {
      return true;
    }
  }
  loop_->submit(header, inputs);
  return true;
}

template <typename Done>
bool Provider::Impl::wait(const Done& is_done, Milliseconds timeout) {
  std::unique_lock lock(mutex_);
  const bool in_time = changed_.wait_until(lock, transport::deadline_in(timeout),
                                           [&] { return is_over_ || is_done(); });
  if (is_over_ && error_) {
    std::rethrow_exception(error_);
  }
  return in_time;
}

void Provider::Impl::save_on_loop(engine::Stage& stage) {
  package::TrainedStage trained;
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

void Provider::Impl::save() {
  auto done = std::make_shared<std::promise<void>>();
  auto result = done->get_future();
  loop_->post([this, done](engine::Stage& stage) {
    try {
      save_on_loop(stage);
      done->set_value();
    } catch (...) {
      done->set_exception(std::current_exception());
    }
  });
  result.get();
}

engine::WeightMap Provider::Impl::weights() {
  auto done = std::make_shared<std::promise<engine::WeightMap>>();
  auto result = done->get_future();
  loop_->post([done](engine::Stage& stage) { done->set_value(stage.snapshot()); });
  return result.get();
}

Provider::Status Provider::Impl::status() const {
  const std::lock_guard lock(mutex_);
  Status status = status_;
  status.loop = loop_->status();
  return status;
}

void Provider::Impl::close(Milliseconds timeout) {
  loop_->fail(nullptr);
  if (loop_->wait_until_over(timeout) && transport_) {
    transport_->close(timeout);
  }
  transport_.reset();
  loop_->join();
}

Provider::Provider(ProviderOptions options, ProviderCallbacks callbacks)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(callbacks))) {}
Provider::~Provider() = default;

void Provider::start() { impl_->start(); }
const package::NodeConfig& Provider::node() const { return impl_->node_; }
const graph::Program& Provider::program() const { return impl_->files_.program; }

bool Provider::submit(PassHeader header, const std::vector<c10::IValue>& inputs,
                      Milliseconds timeout) {
  return impl_->submit(header, inputs, timeout);
}

bool Provider::wait_until_begun(Milliseconds timeout) {
  return impl_->loop_->wait([](const StageLoop::Status& status) { return status.queued == 0; },
                            timeout);
}

bool Provider::wait_until_idle(Milliseconds timeout) {
  return impl_->loop_->wait(
      [](const StageLoop::Status& status) { return status.queued == 0 && status.unfinished == 0; },
      timeout);
}

std::optional<std::vector<c10::IValue>> Provider::take_prediction(Milliseconds timeout) {
  if (!impl_->wait([this] { return !impl_->predictions_.empty(); }, timeout)) {
    return std::nullopt;
  }
  const std::lock_guard lock(impl_->mutex_);
  if (impl_->predictions_.empty()) {
    return std::nullopt;
  }
  auto outputs = std::move(impl_->predictions_.front());
  impl_->predictions_.pop_front();
  return outputs;
}

void Provider::end_training() {
  const std::lock_guard lock(impl_->mutex_);
  impl_->loop_->submit(Control{.word = Word::kTrainingEnd, .numbers = {++impl_->training_rounds_}});
}

void Provider::end_validation() {
  const std::lock_guard lock(impl_->mutex_);
  impl_->loop_->submit(
      Control{.word = Word::kValidationEnd, .numbers = {++impl_->validation_rounds_}});
}

std::int64_t Provider::wait_for_training(std::int64_t seen, Milliseconds timeout) {
  impl_->wait([&] { return impl_->trainings_ > seen; }, timeout);
  const std::lock_guard lock(impl_->mutex_);
  return impl_->trainings_;
}

std::int64_t Provider::wait_for_validation(std::int64_t seen, Milliseconds timeout) {
  impl_->wait([&] { return impl_->validations_ > seen; }, timeout);
  const std::lock_guard lock(impl_->mutex_);
  return impl_->validations_;
}

PassResult Provider::last_validation() const {
  const std::lock_guard lock(impl_->mutex_);
  return impl_->last_validation_;
}

bool Provider::is_over() const {
  const std::lock_guard lock(impl_->mutex_);
  return impl_->is_over_;
}

bool Provider::wait_until_over(Milliseconds timeout) {
  std::unique_lock lock(impl_->mutex_);
  return impl_->changed_.wait_until(lock, transport::deadline_in(timeout),
                                    [this] { return impl_->is_over_; });
}

bool Provider::wait_until_ready(Milliseconds timeout) {
  return impl_->wait([this] { return !impl_->run_.empty(); }, timeout);
}

void Provider::save() { impl_->save(); }
engine::WeightMap Provider::weights() { return impl_->weights(); }
Provider::Status Provider::status() const { return impl_->status(); }
void Provider::stop(int exit_code, const std::string& reason) { impl_->stop(exit_code, reason); }
void Provider::close(Milliseconds timeout) { impl_->close(timeout); }

}  // namespace ravnest::provider
