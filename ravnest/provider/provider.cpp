#include "ravnest/provider/provider.h"

#include <malloc.h>
#include <unistd.h>

#include <cstdio>
#include <random>

#include "ravnest/base/error.h"
#include "ravnest/engine/block_allocator.h"
#include "ravnest/provider/provider_impl.h"
#include "ravnest/provider/values.h"
#include "ravnest/transport/grpc/grpc_transport.h"
#include "ravnest/transport/grpc/tls_credentials.h"

namespace ravnest::provider {

namespace {

// Passes that wait for their turn at the root, so that it never waits for its caller.
constexpr std::size_t kQueuedAtRoot = 2;
// For the loop to come to its end, where it does not wait for somebody who is lost.
constexpr Milliseconds kLastWork{5000};

std::uint64_t draw_number() {
  std::random_device random;
  return (std::uint64_t{random()} << 32) | random();
}

std::size_t machine_bytes() {
  return static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

std::string draw_run_id() {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(draw_number()));
  return text;
}

// The caller may fill its tensors anew while the pass is under way.
std::vector<c10::IValue> copied(std::vector<c10::IValue> values) {
  for (c10::IValue& value : values) {
    if (value.isTensor() && value.toTensor().defined()) {
      value = value.toTensor().detach().clone();
    }
  }
  return values;
}

// Leaves of several clusters may work in one folder.
std::filesystem::path file_of_cluster(const std::filesystem::path& file, std::size_t cluster) {
  if (file.empty() || cluster == 0) {
    return file;
  }
  return file.parent_path() / concat(file.stem().string(), "_", cluster, file.extension().string());
}

}  // namespace

Provider::Impl::Impl(ProviderOptions options, ProviderCallbacks callbacks)
    : options_(std::move(options)),
      callbacks_(std::move(callbacks)),
      node_(package::read_node(options_.node_data, options_.name)),
      files_(package::read_stage(options_.node_data, node_)),
      losses_(file_of_cluster(options_.loss_file, node_.cluster)),
      accuracies_(file_of_cluster(options_.accuracy_file, node_.cluster)),
      keeper_({.path = checkpoint_path(options_.node_data, node_),
               .folder = options_.checkpoint_folder,
               .every = options_.checkpoint_every,
               .update_frequency = static_cast<std::int64_t>(options_.update_frequency),
               .on_kept = callbacks_.on_checkpoint}),
      session_(static_cast<std::int64_t>(draw_number() >> 1) | 1) {
  if (options_.identity && options_.averaging.is_gloo) {
    throw_invalid(
        "[provider] expected reduce 'grpc' with an identity, got 'gloo', which does not encrypt.");
  }
  if (!options_.make_rule) {
    throw_invalid("[provider] expected an optimizer for '", options_.name, "', got none.");
  }
  if (options_.predict_weights && !options_.make_rule()->predictor()) {
    throw_invalid(
        "[provider] expected an optimizer and an lr_scheduler of ravnest's own with "
        "predict_weights, "
        "got one that runs in Python and cannot tell where weights will go. Leave predict_weights "
        "out, or take a class or a name that runs natively, such as 'adam'.");
  }
  if (options_.from_ring && !Averaging::is_needed(node_)) {
    throw_invalid("[provider] expected other clusters to take weights from, got one cluster.");
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
      .on_end = [this](Channel channel, const std::string& peer,
                       const std::exception_ptr& error) { on_end(channel, peer, error); }};
  // The loop is there before the first message: channels open as the wiring does.
  const bool has_eval = files_.program.eval_graph.has_value();
  LoopOptions loop{.name = options_.name,
                   .stage = node_.stage,
                   .stages = node_.stages,
                   .schedule = options_.schedule,
                   .update_frequency = options_.update_frequency,
                   .sources = files_.sources,
                   .eval_sources = has_eval ? files_.eval_sources : files_.sources,
                   .inputs = node_.mates[node_.stage].inputs,
                   .eval_inputs = node_.mates[node_.stage].eval_inputs,
                   .codec = transport::parse_codec(options_.codec),
                   .device = options_.device,
                   .ends_alone = options_.ends_alone,
                   .foreseen = Foreseen(node_, files_),
                   .hung_after = options_.hung_after};
  loop_ = std::make_unique<StageLoop>(std::move(loop), *this);
  wiring_ = std::make_unique<Wiring>(*transport_, node_, handlers);
  loop_->set_outlets(wiring_->outlets());
  listen_to_requester();
  make_averaging();
}

void Provider::Impl::notify(const transport::Notice& notice) const {
  if (callbacks_.on_notice) {
    callbacks_.on_notice(notice);
  }
}

void Provider::Impl::make_averaging() {
  if (!Averaging::is_needed(node_)) {
    return;
  }
  Averaging::Hooks hooks;
  hooks.post = [this](std::function<void()> task) {
    loop_->post([task = std::move(task)](engine::Stage&) { task(); });
  };
  hooks.rule_after_nothing = [this] { return rule_after_nothing(*stage_); };
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
  hooks.on_notice = [this](const std::string& text, transport::NoticeKind kind) {
    notify({.kind = kind, .peer = "averaging", .channel = "reduce", .text = text});
  };
  AveragingOptions averaging = options_.averaging;
  averaging.is_network_trusted = options_.is_network_trusted;
  averaging.begins_together = !options_.requester && !options_.ends_alone;
  averaging.listen = options_.listen;
  averaging_ = std::make_unique<Averaging>(averaging, node_, *transport_, std::move(hooks));
}

void Provider::Impl::make_transport() {
  transport::GrpcOptions grpc{.listen = options_.listen.empty() ? node_.address : options_.listen,
                              .limits = {},
                              .credentials = {},
                              .is_network_trusted = options_.is_network_trusted};
  // All of them may be on one machine.
  const std::size_t averaging = Averaging::connections(options_.averaging, node_);
  grpc.limits.connections += averaging;
  grpc.limits.connections_per_host += averaging;
  if (options_.identity) {
    grpc.credentials = transport::make_tls_credentials(*options_.identity);
  }
  transport::TransportOptions options;
  options.name = options_.name;
  options.plan = options_.job.empty() ? node_.plan : options_.job;
  options.members = options_.members;
  const std::size_t messages = 8 * node_.stages + 4 * options_.update_frequency + 16;
  const auto bounds = Foreseen(node_, files_).bounds(messages, machine_bytes());
  options.limits = bounds.limits;
  options.window = {.messages = messages, .nbytes = bounds.window};
  options.is_alive = [this] { return loop_->is_alive(); };
  options.timeouts.return_within = options_.return_within;
  if (options_.return_within >= transport::kForEver) {  // so is who refuses us, for now
    options.timeouts.refused_patience = transport::kForEver;
  }
  options.on_notice = [this](const transport::Notice& notice) {
    if (callbacks_.on_unreached && notice.kind == transport::NoticeKind::kWaiting &&
        !notice.obstacle.empty()) {
      callbacks_.on_unreached(notice.peer, notice.obstacle);
    }
    // What becomes of other clusters is for the averaging to say.
    if (!notice.channel.starts_with("reduce.")) {
      notify(notice);
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
       .on_end =
           [this](const std::exception_ptr& error) {
             on_end(Channel::kForward, options_.requester->name, error);
           }});
}

void Provider::Impl::on_request(transport::Delivery delivery) {
  if (delivery.message.kind == transport::MessageKind::kControl) {
    Control control = read_control(delivery.message);
    if (control.word == Word::kStop) {
      loop_->stop(exit_code_of(control), control.text);
    } else if (control.generation == session_) {
      loop_->submit(std::move(control), std::move(delivery.credit));
    }
    return;
  }
  if (delivery.message.epoch != session_) {
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
    run = found_ ? found_->run : options_.job.empty() ? draw_run_id() : options_.job;
  }
  loop_->start(run);
}

void Provider::Impl::on_end(Channel channel, const std::string& peer,
                            const std::exception_ptr& error) {
  if (error) {
    loop_->fail(error, peer);
  } else if (channel == Channel::kForward) {  // the root has left, and so do we, in our turn
    loop_->submit(Control{.word = Word::kStop, .numbers = {0}});
  }
}

bool Provider::Impl::submit(PassHeader header, const std::vector<c10::IValue>& inputs,
                            Milliseconds timeout) {
  const bool is_ready =
      wait([this] { return !run_.empty(); }, timeout) &&
      loop_->wait([](const StageLoop::Status& status) { return status.queued < kQueuedAtRoot; },
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
  loop_->submit(header, copied(inputs));
  return true;
}

void Provider::Impl::save() {
  loop_->ask([this](engine::Stage& stage) { save_on_loop(stage); });
}

engine::WeightMap Provider::Impl::weights() {
  engine::WeightMap copied;
  loop_->ask([&](const engine::Stage& stage) { copied = stage.snapshot(); });
  return copied;
}

Provider::Status Provider::Impl::status() const {
  const std::lock_guard lock(mutex_);
  Status status = status_;
  status.loop = loop_->status();
  return status;
}

void Provider::Impl::stop(int exit_code, const std::string& reason) {
  loop_->stop(exit_code, reason);
  loop_->tell_stop();
}

void Provider::Impl::close(Milliseconds timeout) {
  loop_->fail(nullptr);
  if (loop_->wait_until_over(timeout)) {
    if (transport_) {
      transport_->close(timeout);
    }
  } else {
    leave_in_a_pass(timeout);
  }
  transport_.reset();
  loop_->join();
}

// The others must hear why we go, or they take us for lost. What uses the transport goes first.
void Provider::Impl::leave_in_a_pass(Milliseconds timeout) {
  loop_->tell_stop();
  if (averaging_) {
    averaging_->stop();
  }
  try {
    if (transport_) {
      transport_->close(timeout);
    }
  } catch (const Error&) {  // who does not answer finds us gone
  }
}

void Provider::Impl::keep() {
  {
    const std::lock_guard lock(mutex_);
    is_kept_ = true;
  }
  loop_->abandon();
  loop_->wait_until_over(kLastWork);
  if (averaging_) {
    averaging_->stop();
  }
  transport_.reset();
  loop_->join();
}

void Provider::Impl::keep_at_rest() {
  loop_->post([this](engine::Stage&) {
    if (keeper_.is_asked() && std::exchange(kept_at_rest_, updated_) != updated_) {
      keeper_.share(take_checkpoint());
    }
  });
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

void Provider::skip_validation() {
  const std::lock_guard lock(impl_->mutex_);
  ++impl_->validation_rounds_;
}

bool Provider::is_alive() const { return impl_->loop_->is_alive(); }

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

std::int64_t Provider::validations_in_training() const {
  const std::lock_guard lock(impl_->mutex_);
  return impl_->trained_validations_;
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

void Provider::ask_for_checkpoint() { impl_->keeper_.ask(); }
void Provider::keep_at_rest() { impl_->keep_at_rest(); }
void Provider::keep() { impl_->keep(); }
void Provider::save() { impl_->save(); }
engine::WeightMap Provider::weights() { return impl_->weights(); }
Provider::Status Provider::status() const { return impl_->status(); }
void Provider::stop(int exit_code, const std::string& reason) { impl_->stop(exit_code, reason); }
void Provider::close(Milliseconds timeout) { impl_->close(timeout); }

}  // namespace ravnest::provider
