#include "ravnest/provider/stage_loop.h"

#include <algorithm>
#include <utility>

#include "ravnest/base/error.h"
#include "ravnest/engine/progress.h"
#include "ravnest/engine/stage/finite.h"
#include "ravnest/provider/stopped.h"
#include "ravnest/provider/values.h"

namespace ravnest::provider {

namespace {

std::uint64_t bytes_of(const transport::Message& message) {
  std::uint64_t nbytes = 0;
  for (const transport::Tensor& tensor : message.tensors) {
    nbytes += tensor.bytes.size();
  }
  return nbytes;
}

bool ends_badly(const Control& control) {
  return control.word == Word::kStop && control.numbers != std::vector<std::int64_t>{0};
}

}  // namespace

std::size_t LoopOptions::most_in_flight() const {
  return std::max(2 * (stages - stage),
                  schedule == Schedule::kSync ? update_frequency : std::size_t{1});
}

StageLoop::StageLoop(LoopOptions options, LoopListener& listener)
    : options_(std::move(options)),
      listener_(listener),
      limit_(options_.schedule == Schedule::kSync ? options_.most_in_flight()
                                                  : options_.stages - options_.stage,
             options_.most_in_flight()),
      liveness_(options_.hung_after) {}

StageLoop::~StageLoop() {
  abandon();
  join();
}

// The first word counts.
void StageLoop::end(Stopped stopped) {
  const std::lock_guard lock(mutex_);
  if (!stopped_) {
    stopped_ = std::move(stopped);
  }
  changed_.notify_one();
}

void StageLoop::abandon() {
  end({.error = std::make_exception_ptr(
           Error(ErrorKind::kPeerLost, "[provider] the provider was ended.")),
       .word = {},
       .suspect = {}});
}

void StageLoop::start(const std::string& run) {
  if (options_.is_root()) {
    // Those of a root that was started before must differ, and are less unless a clock was set.
    generation_ =
        std::chrono::system_clock::now().time_since_epoch() / std::chrono::milliseconds(1);
    submit(Control{.word = Word::kRun, .text = run});
  }
  thread_ = std::thread([this] { this->run(); });
}

bool StageLoop::wait_until_over(transport::Milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return !thread_.joinable() ||
         published_.wait_until(lock, transport::deadline_in(timeout), [this] { return is_over_; });
}

void StageLoop::join() {
  if (thread_.joinable()) {
    thread_.join();
  }
}

void StageLoop::submit(PassHeader header, std::vector<c10::IValue> inputs,
                       transport::Credit credit) {
  const std::lock_guard lock(mutex_);
  submitted_.push_back(
      {.header = header, .control = {}, .values = std::move(inputs), .credit = std::move(credit)});
  changed_.notify_one();
}

void StageLoop::submit(Control control, transport::Credit credit) {
  const std::lock_guard lock(mutex_);
  submitted_.push_back(
      {.header = {}, .control = std::move(control), .values = {}, .credit = std::move(credit)});
  changed_.notify_one();
}

void StageLoop::deliver(Channel channel, transport::Delivery delivery) {
  bytes_received_ += bytes_of(delivery.message);
  const std::lock_guard lock(mutex_);
  if (stopped_) {
    // Taken and dropped, so that its sender does not wait for us.
    if (is_left(delivery.message.epoch)) {
      left_.push_back(std::move(delivery.credit));
    }
    return;
  }
  arrivals_.push_back({.channel = channel, .delivery = std::move(delivery)});
  changed_.notify_one();
}

void StageLoop::post(Call call) {
  const std::lock_guard lock(mutex_);
  if (is_over_) {
    return;
  }
  calls_.push_back(std::move(call));
  changed_.notify_one();
}

void StageLoop::ask(const Call& call) {
  bool is_done = false;
  std::exception_ptr error;
  post([&](engine::Stage& stage) {
    try {
      call(stage);
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    is_done = true;
    published_.notify_all();
  });
  {
    std::unique_lock lock(mutex_);
    published_.wait(lock, [&] { return is_done || is_over_; });
  }
  if (error) {
    std::rethrow_exception(error);
  }
  if (!is_done && !stage_) {
    const Error none(ErrorKind::kPeerLost, "[provider] the run has ended before it began.");
    std::rethrow_exception(stopped_->error ? stopped_->error : std::make_exception_ptr(none));
  }
  if (!is_done) {
    call(*stage_);
  }
}

void StageLoop::stop(int exit_code, const std::string& reason) {
  stop_with({.word = Word::kStop, .numbers = {exit_code}, .text = reason});
}

void StageLoop::stop_with(const Control& control) {
  const int code = exit_code_of(control);
  end({.error = code == 0 ? nullptr : std::make_exception_ptr(StoppedRun(code, control.text)),
       .word = control,
       .suspect = {}});
}

void StageLoop::fail(const std::exception_ptr& error, const std::string& suspect) {
  if (error && options_.ends_alone) {
    return end({.error = error, .word = {}, .suspect = suspect});
  }
  end({.error = error,
       .word = Control{.word = Word::kStop,
                       .numbers = {error ? 1 : 0},
                       .text = error ? text_of(error) : ""},
       .suspect = suspect});
}

StageLoop::Status StageLoop::status() const {
  const std::lock_guard lock(mutex_);
  Status status = status_;
  status.queued += submitted_.size();
  status.spent = activities_.spent();
  status.bytes_sent = bytes_sent_;
  status.bytes_received = bytes_received_;
  status.suspect = stopped_ ? stopped_->suspect : "";
  return status;
}

bool StageLoop::is_alive() {
  return liveness_.is_alive(activities_.kind() != Activities::Kind::kComputing, Clock::now());
}

double StageLoop::Status::busy() const {
  const auto total = spent.total();
  return total.count() > 0 ? static_cast<double>((total - spent.waiting).count()) /
                                 static_cast<double>(total.count())
                           : 0.0;
}

void StageLoop::run() {
  try {
    try {
      send_hello(0);
      work_until_over();
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kPeerLost) {
        wait_for_reason();
      }
      throw;
    }
  } catch (...) {
    fail(std::current_exception(), suspect_);
  }
  tell_stop();
  std::exception_ptr error;
  {
    const std::lock_guard lock(mutex_);
    error = stopped_->error;
  }
  listener_.on_over(error);
  activities_.begin(Activities::Kind::kWaiting);
  leave_the_rest();
  published_.notify_all();
  pending_calls_.clear();
  // What was not worked on gives its credit back here. The stage stays for who asks for its
  // weights.
  forwards_.clear();
  backwards_.clear();
  inputs_.clear();
  unfinished_.clear();
}

// Who leaves in mid-run says why, to its neighbours and they to theirs: the word may reach us after
// a message to that peer has failed, and is the better answer.
void StageLoop::wait_for_reason() {
  const auto deadline = transport::deadline_in(kLastWord);
  std::optional<Control> reason;
  std::unique_lock lock(mutex_);
  for (std::size_t seen = 0; !stopped_ && !reason; ++seen) {
    if (!changed_.wait_until(lock, deadline, [&] { return stopped_ || arrivals_.size() > seen; })) {
      return;
    }
    if (!stopped_ && arrivals_[seen].delivery.message.kind == transport::MessageKind::kControl) {
      Control control = read_control(arrivals_[seen].delivery.message);
      if (ends_badly(control)) {
        reason = std::move(control);
      }
    }
  }
  lock.unlock();
  if (reason) {
    stop_with(*reason);
  }
}

void StageLoop::leave_the_rest() {
  std::deque<Arrival> dropped;
  const std::lock_guard lock(mutex_);
  is_over_ = true;
  calls_.clear();
  dropped.swap(arrivals_);
  const auto leave = [this](std::int64_t generation, transport::Credit& credit) {
    if (is_left(generation)) {
      left_.push_back(std::move(credit));
    }
  };
  for (Work& work : forwards_) {
    leave(work.control ? work.control->generation : work.header.generation, work.credit);
  }
  for (auto& [key, inputs] : inputs_) {
    leave(key.first, inputs.credit);
  }
  for (Arrival& arrival : dropped) {
    leave(arrival.delivery.message.epoch, arrival.delivery.credit);
  }
}

void StageLoop::work_until_over() {
  last_pass_ = Clock::now();
  activities_.begin(Activities::Kind::kComputing);
  engine::operators_done = &liveness_.ticks();
  while (take_inbox(false)) {
    const bool has_done = do_next();
    liveness_.end(Clock::now());
    if (!has_done && !take_inbox(true)) {
      return;
    }
  }
}

// False once the loop has been told to stop.
bool StageLoop::take_inbox(bool may_wait) {
  std::deque<Arrival> arrivals;
  std::deque<Work> submitted;
  {
    std::unique_lock lock(mutex_);
    if (may_wait) {
      const Doing waiting(activities_, Activities::Kind::kWaiting);
      const bool is_stalled = !forwards_.empty() && is_limited(forwards_.front());
      const auto start = Clock::now();
      const auto is_news = [this] {
        return stopped_ || !arrivals_.empty() || !submitted_.empty() || !calls_.empty();
      };
      changed_.wait_until(
          lock, listener_.hold().value_or(transport::after(start, transport::kForEver)), is_news);
      if (is_stalled) {
        limit_.on_stall(Clock::now() - start);
      }
    }
    if (stopped_) {
      return false;
    }
    arrivals.swap(arrivals_);
    submitted.swap(submitted_);
    status_.queued += submitted.size();  // until they are published as what they become
    std::ranges::move(calls_, std::back_inserter(pending_calls_));
    calls_.clear();
  }
  liveness_.begin(Clock::now());
  for (Arrival& arrival : arrivals) {
    sort(std::move(arrival));
  }
  suspect_.clear();
  std::ranges::move(submitted, std::back_inserter(forwards_));
  while (stage_ && !pending_calls_.empty()) {
    const Call call = std::move(pending_calls_.front());
    pending_calls_.pop_front();
    call(*stage_);
  }
  publish();
  return true;
}

void StageLoop::sort(Arrival arrival) {
  transport::Delivery& delivery = arrival.delivery;
  suspect_ = delivery.from;
  try {
    if (delivery.message.kind == transport::MessageKind::kControl) {
      sort_control(arrival.channel, delivery);
    } else {
      sort(arrival.channel, delivery);
    }
  } catch (const std::invalid_argument& bad) {
    const std::string text = concat(bad.what(), " ", delivery.from, " sent it.");
    if (arrival.channel == Channel::kInputs) {  // the root hands on what it was given
      throw std::invalid_argument(text);
    }
    throw LocalFault(text);
  }
}

void StageLoop::sort_control(Channel channel, transport::Delivery& delivery) {
  Control control = read_control(delivery.message);
  if (ends_badly(control)) {
    stop_with(control);
  } else if (control.word == Word::kHello) {
    on_hello(control);
  } else if (control.word == Word::kTrainingEnd && channel == Channel::kBackward) {
    tell_trained(control);
  } else if (channel == Channel::kForward) {
    if (control.word == Word::kRun) {
      // The passes before it will come again, and must not hold it up.
      std::erase_if(forwards_, [](const Work& work) { return !work.control; });
    }
    forwards_.push_back({.header = {},
                         .control = std::move(control),
                         .values = {},
                         .credit = std::move(delivery.credit),
                         .from = {}});
  }
}

void StageLoop::sort(Channel channel, transport::Delivery& delivery) {
  switch (channel) {
    case Channel::kForward:
      return sort_forward(delivery);
    case Channel::kBackward:
      return sort_backward(delivery);
    case Channel::kInputs:
      return sort_inputs(delivery);
    case Channel::kResults:
      return sort_result(delivery);
    case Channel::kTied:
      return sort_tied(delivery);
  }
}

void StageLoop::sort_forward(transport::Delivery& delivery) {
  const PassHeader header = read_header(delivery.message);
  std::vector<c10::IValue> values = unpack(delivery.message, options_.device);
  if (!header.is_refused) {  // then there are none
    options_.foreseen.check_values(values, header.is_training());
  }
  forwards_.push_back({.header = header,
                       .control = {},
                       .values = std::move(values),
                       .credit = std::move(delivery.credit),
                       .from = delivery.from});
}

void StageLoop::sort_backward(transport::Delivery& delivery) {
  const PassHeader header = read_header(delivery.message);
  if (header.generation != generation_) {
    return;
  }
  std::vector<at::Tensor> gradients = unpack_tensors(delivery.message, options_.device);
  options_.foreseen.check_gradients(gradients);
  backwards_.push_back({.header = header,
                        .result = read_result(delivery.message),
                        .gradients = std::move(gradients),
                        .credit = std::move(delivery.credit),
                        .from = delivery.from});
}

void StageLoop::sort_inputs(transport::Delivery& delivery) {
  const PassHeader header = read_header(delivery.message);
  std::vector<c10::IValue> inputs = unpack(delivery.message, options_.device);
  options_.foreseen.check_inputs(inputs, header.is_training());
  Inputs& kept = inputs_[{header.generation, {header.is_training(), header.pass}}];
  kept.values = std::move(inputs);
  if (header.generation > generation_) {
    kept.credit = std::move(delivery.credit);
  }
}

void StageLoop::sort_result(transport::Delivery& delivery) {
  const PassHeader header = read_header(delivery.message);
  if (header.generation == generation_) {
    finish_pass(header, read_result(delivery.message), unpack(delivery.message, c10::kCPU));
  }
}

void StageLoop::sort_tied(transport::Delivery& delivery) {
  const transport::Message& message = delivery.message;
  std::vector<at::Tensor> tensors = unpack_tensors(message, options_.device);
  if (message.kind == transport::MessageKind::kBackward) {  // gradients of a copy
    const auto copies = std::ranges::find(outlets_.copies, delivery.from, &Outlets::Tied::peer);
    if (copies == outlets_.copies.end()) {
      throw_invalid("[provider] gradients came of parameters that we do not share.");
    }
    options_.foreseen.check_shared(copies->names, tensors);
    if (message.epoch == generation_) {
      tied_gradients_[message.pass][delivery.from] = std::move(tensors);
    }
    return;
  }
  const auto home = outlets_.homes.find(delivery.from);
  if (home == outlets_.homes.end()) {
    throw_invalid("[provider] values came of parameters that we do not share.");
  }
  options_.foreseen.check_shared(home->second.names, tensors);
  CopyValues copies{
      .generation = message.epoch, .passes = message.pass, .values = std::move(tensors)};
  if (copies.generation < generation_) {
    return;  // they come again with every generation
  }
  if (copies.generation == generation_) {
    set_copies(delivery.from, copies);
  } else {
    early_copies_[delivery.from] = std::move(copies);
  }
  if (!message.fields.empty()) {
    std::int64_t& last = final_copies_[delivery.from];
    last = std::max(last, message.fields[0]);
  }
}

void StageLoop::set_copies(const std::string& home, const CopyValues& copies) {
  const std::vector<std::string>& names = outlets_.homes.at(home).names;
  const bool is_good = std::ranges::all_of(copies.values, engine::is_finite);
  for (std::size_t i = 0; i < names.size() && is_good; ++i) {
    stage_->set_copy(names[i], copies.values[i]);
  }
  if (!is_good) {
    listener_.on_refused(home, concat("the parameters that ", home,
                                      " shares are not finite: they stay as they were"));
  }
  tied_through_[home] = copies.passes;
  if (copies.passes != ReadyStage::kUnknown) {
    awaited_homes_.erase(home);
  }
}

bool StageLoop::wait(const std::function<bool(const Status&)>& is_wanted,
                     transport::Milliseconds timeout) {
  std::unique_lock lock(mutex_);
  const auto is_ready = [&] {
    Status now = status_;
    now.queued += submitted_.size();
    return is_over_ || is_wanted(now);
  };
  const bool in_time = published_.wait_until(lock, transport::deadline_in(timeout), is_ready);
  if (is_over_ && stopped_->error) {
    std::rethrow_exception(stopped_->error);
  }
  return in_time;
}

void StageLoop::publish() {
  const std::lock_guard lock(mutex_);
  status_.unfinished = unfinished_.size();
  status_.queued = forwards_.size();
  status_.limit = limit_.value();
  if (stage_) {
    status_.in_flight = stage_->in_flight();
    status_.updates = stage_->updates();
    status_.delay = stage_->last_delay();
    status_.max_delay = stage_->max_delay();
    status_.delays = stage_->delays();
    status_.skipped = stage_->skipped();
    status_.versions = stage_->weights().live();
  }
  published_.notify_all();
}

void StageLoop::tell_stop() {
  std::call_once(told_, [this] {
    std::optional<Control> word;
    {
      const std::lock_guard lock(mutex_);
      word = stopped_->word;
    }
    if (word) {
      relay_stop(*word);
    }
  });
}

void StageLoop::relay_stop(const Control& control) {
  const bool is_well = control.numbers == std::vector<std::int64_t>{0};
  // A run ends well from the root on. Who leaves before says goodbye, and is missed.
  for (transport::Sender* to : {outlets_.next, is_well ? nullptr : outlets_.previous}) {
    if (to == nullptr) {
      continue;
    }
    try {
      to->send(to_message(control), kLastWord);
    } catch (const std::exception&) {  // it is gone, and knows
    }
  }
}

// Messages may wait for room for ever: the passes in flight are bounded, and windows are larger. A
// sender that blocks waits for a peer that is lost, and fails with it.
void StageLoop::send(transport::Sender& to, const transport::Message& message) {
  const Doing sending(activities_, Activities::Kind::kSending);
  to.send(message, transport::kForEver);
  bytes_sent_ += bytes_of(message);
}

void StageLoop::send_control(transport::Sender* to, const Control& control) {
  if (to != nullptr) {
    send(*to, to_message(control));
  }
}

void StageLoop::send_hello(std::int64_t generation) {
  if (!options_.is_root()) {
    on_hello({.word = Word::kHello,
              .generation = generation,
              .numbers = {static_cast<std::int64_t>(options_.stage)}});
  }
}

void StageLoop::on_hello(const Control& control) {
  if (!options_.is_root()) {
    send_control(outlets_.previous, control);
    if (control.generation != 0) {
      // Until the stage before has it: what led to it is then not sent again.
      const Doing sending(activities_, Activities::Kind::kSending);
      outlets_.previous->flush(transport::kForEver);
    }
    return;
  }
  const std::int64_t from = control.numbers.empty() ? 0 : control.numbers[0];
  if (control.generation == generation_) {
    joined_.insert(from);
  } else if (control.generation == 0 && joined_.contains(from)) {
    start_generation();
  }
}

}  // namespace ravnest::provider
