#include "ravnest/provider/requester.h"

#include <utility>

#include "ravnest/base/error.h"
#include "ravnest/provider/stopped.h"
#include "ravnest/provider/values.h"
#include "ravnest/transport/grpc/grpc_transport.h"

namespace ravnest::provider {

using transport::Milliseconds;

Requester::Requester(RequesterOptions options) : options_(std::move(options)) {
  transport::TransportOptions transport;
  transport.name = options_.name;
  transport.plan = options_.plan;
  transport.timeouts.return_within = options_.return_within;
  transport.on_notice = options_.on_notice;
  transport_ = transport::make_grpc_transport({.listen = options_.listen,
                                               .limits = {},
                                               .credentials = {},
                                               .is_network_trusted = options_.is_network_trusted},
                                              transport);
  requests_ = transport_->open(options_.root, "requests");
  reports_ = transport_->receive(
      options_.root, "reports",
      {.on_message = [this](transport::Delivery delivery) { on_report(delivery.message); },
       .on_end = [this](const std::exception_ptr& error) { on_end(error); }});
}

Requester::~Requester() {
  reports_.reset();
  requests_.reset();
  transport_.reset();
}

void Requester::start_at(std::int64_t first) {
  const std::lock_guard lock(mutex_);
  submitted_ = first;
}

bool Requester::submit(PassHeader header, const std::vector<c10::IValue>& inputs,
                       Milliseconds timeout) {
  {
    const std::lock_guard lock(mutex_);
    if (is_over_) {
      std::rethrow_exception(error_ ? error_
                                    : std::make_exception_ptr(Error(
                                          ErrorKind::kPeerLost, "[requester] the run is over.")));
    }
    header.pass = header.is_training() ? submitted_ : evaluated_;
  }
  transport::Message message =
      to_message(header, header.is_training() ? transport::MessageKind::kForward
                                              : transport::MessageKind::kNoGradForward);
  pack(inputs, message);
  try {
    requests_->send(message, timeout);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kTimeout) {
      return false;
    }
    throw;
  }
  const std::lock_guard lock(mutex_);
  ++(header.is_training() ? submitted_ : evaluated_);
  ++unfinished_;
  return true;
}

void Requester::send(const Control& control) {
  requests_->send(to_message(control), transport::kForEver);
}

void Requester::end_training() {
  std::int64_t round = 0;
  {
    const std::lock_guard lock(mutex_);
    round = ++trainings_;
  }
  send({.word = Word::kTrainingEnd, .numbers = {round}});
}

void Requester::end_validation() {
  std::int64_t round = 0;
  {
    const std::lock_guard lock(mutex_);
    round = ++validations_;
  }
  send({.word = Word::kValidationEnd, .numbers = {round}});
}

void Requester::on_report(const transport::Message& message) {
  if (message.kind == transport::MessageKind::kControl) {
    const Control control = read_control(message);
    if (control.word == Word::kStop) {
      on_end(std::make_exception_ptr(StoppedRun(exit_code_of(control), control.text)));
      return;
    }
    const std::lock_guard lock(mutex_);
    if (control.word == Word::kTrainingEnd) {
      trained_ = round_of(control);
    } else if (const auto sums = sums_of(control); sums && control.word == Word::kValidationEnd) {
      validated_ = round_of(control);
      last_validation_ = *sums;
    }
    changed_.notify_all();
    return;
  }
  const PassHeader header = read_header(message);
  if (header.is_training() && options_.on_result) {
    options_.on_result(header, read_result(message));
  }
  const std::lock_guard lock(mutex_);
  --unfinished_;
  if (header.purpose == Purpose::kPredict) {
    predictions_.push_back(unpack(message, c10::kCPU));
  }
  changed_.notify_all();
}

void Requester::on_end(const std::exception_ptr& error) {
  const std::lock_guard lock(mutex_);
  if (!is_over_) {
    is_over_ = true;
    error_ = error;
  }
  changed_.notify_all();
}

template <typename Done>
bool Requester::wait(const Done& is_done, Milliseconds timeout) {
  std::unique_lock lock(mutex_);
  const bool in_time = changed_.wait_until(lock, transport::deadline_in(timeout),
                                           [&] { return is_over_ || is_done(); });
  if (is_over_ && !is_done()) {
    std::rethrow_exception(error_ ? error_
                                  : std::make_exception_ptr(Error(
                                        ErrorKind::kPeerLost, "[requester] the cluster left.")));
  }
  return in_time;
}

bool Requester::wait_until_idle(Milliseconds timeout) {
  return wait([this] { return unfinished_ == 0; }, timeout);
}

bool Requester::wait_for_training(Milliseconds timeout) {
  return wait([this] { return trained_ >= trainings_; }, timeout);
}

std::optional<PassResult> Requester::wait_for_validation(Milliseconds timeout) {
  if (!wait([this] { return validated_ >= validations_; }, timeout)) {
    return std::nullopt;
  }
  const std::lock_guard lock(mutex_);
  return last_validation_;
}

std::optional<std::vector<c10::IValue>> Requester::take_prediction(Milliseconds timeout) {
  if (!wait([this] { return !predictions_.empty(); }, timeout)) {
    return std::nullopt;
  }
  const std::lock_guard lock(mutex_);
  std::vector<c10::IValue> outputs = std::move(predictions_.front());
  predictions_.pop_front();
  return outputs;
}

void Requester::stop(int exit_code, const std::string& reason) {
  requests_->send(to_message(Control{.word = Word::kStop, .numbers = {exit_code}, .text = reason}),
                  Milliseconds(1000));
}

void Requester::close(Milliseconds timeout) { transport_->close(timeout); }

}  // namespace ravnest::provider
