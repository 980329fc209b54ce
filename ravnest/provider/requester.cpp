#include "ravnest/provider/requester.h"

#include <utility>

#include "ravnest/base/error.h"
#include "ravnest/provider/stopped.h"
#include "ravnest/provider/values.h"
#include "ravnest/transport/grpc/grpc_transport.h"
#include "ravnest/transport/grpc/tls_credentials.h"

namespace ravnest::provider {

using transport::Milliseconds;

namespace {

// Passes that wait for their turn here, so that the root never waits for our caller.
constexpr std::size_t kQueuedHere = 4;
// On their way to the root and not done.
constexpr std::size_t kSentPasses = 64;

std::exception_ptr lost(const char* text) {
  return std::make_exception_ptr(Error(ErrorKind::kPeerLost, text));
}

}  // namespace

std::shared_ptr<transport::Transport> make_transport(const RequesterOptions& options) {
  transport::TransportOptions transport;
  transport.name = options.name;
  transport.plan = options.plan;
  transport.members = options.members;
  transport.window.messages = kSentPasses;
  transport.timeouts.return_within = options.return_within;
  if (options.return_within >= transport::kForEver) {  // so is who refuses us, for now
    transport.timeouts.refused_patience = transport::kForEver;
  }
  transport.on_notice = options.on_notice;
  transport::GrpcOptions grpc{.listen = options.listen,
                              .limits = {},
                              .credentials = {},
                              .is_network_trusted = options.is_network_trusted};
  if (options.identity) {
    grpc.credentials = transport::make_tls_credentials(*options.identity);
  }
  return transport::make_grpc_transport(grpc, transport);
}

Requester::Requester(RequesterOptions options)
    : options_(std::move(options)),
      transport_(options_.transport ? options_.transport : make_transport(options_)),
      log_(options_.keeps_learned) {
  if (options_.start_with_root) {
    log_.start_with_root(*options_.start_with_root);
  }
  open(options_.root);
  feeding_ = std::thread([this] { feed(); });
}

Requester::~Requester() {
  reports_.reset();
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
  }
  changed_.notify_all();
  break_off();
  feeding_.join();
  requests_.reset();
  transport_.reset();
}

void Requester::open(const transport::Peer& root) {
  auto requests = transport_->open(root, "requests");
  {
    const std::lock_guard lock(mutex_);
    requests_ = std::move(requests);
  }
  reports_ = transport_->receive(
      root, "reports",
      {.on_message = [this](transport::Delivery delivery) { on_report(delivery.message); },
       .on_end = [this](const std::exception_ptr& error) { on_end(error); }});
}

// Whoever waits for room there need not.
void Requester::break_off() {
  if (requests_) {
    requests_->break_off();
  }
}

void Requester::set_root(const transport::Peer& root, transport::Members members,
                         bool is_restored) {
  reports_.reset();
  {
    const std::lock_guard lock(mutex_);
    session_ = 0;
    is_restored_ |= is_restored;
  }
  break_off();
  std::unique_ptr<transport::Sender> requests;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return sending_ == 0; });
    requests = std::move(requests_);
  }
  requests.reset();
  if (options_.identity && !options_.transport) {
    transport_->set_members(std::move(members));
  }
  open(root);
}

void Requester::note_restore(std::int64_t passes, bool is_own) {
  const std::lock_guard lock(mutex_);
  log_.note_restore(passes, is_own);
  if (session_ != 0) {
    log_.forget_restored();
  }
}

void Requester::forget_learned() {
  const std::lock_guard lock(mutex_);
  log_.forget_learned();
}

bool Requester::hand_over(std::shared_ptr<Requester> to) {
  reports_.reset();  // no result is being told
  RequestLog::Rest rest;
  {
    const std::lock_guard lock(mutex_);
    rest = log_.take_rest();
    has_heir_validated_ = rest.sums.has_value();
    heir_ = to;
  }
  changed_.notify_all();
  const bool is_left = rest.training > 0;
  {
    const std::lock_guard lock(to->mutex_);
    to->log_.take_over(std::move(rest));
  }
  to->changed_.notify_all();
  return is_left;
}

void Requester::start_at(std::int64_t first) {
  const std::lock_guard lock(mutex_);
  log_.start_at(first);
}

std::optional<std::int64_t> Requester::wait_for_root(Milliseconds timeout) {
  if (!wait([this] { return log_.behind().has_value(); }, timeout)) {
    return std::nullopt;
  }
  const std::lock_guard lock(mutex_);
  return log_.behind();
}

std::int64_t Requester::submitted() {
  const std::lock_guard lock(mutex_);
  return log_.submitted();
}

bool Requester::is_open() const { return heir_ || (!is_over_ && log_.unsent() < kQueuedHere); }

bool Requester::has_room() {
  return wait([this] { return is_open(); }, Milliseconds(0));
}

std::int64_t Requester::under_way() {
  const std::lock_guard lock(mutex_);
  return log_.unfinished();
}

bool Requester::submit(PassHeader header, const std::vector<c10::IValue>& inputs,
                       Milliseconds timeout) {
  if (!wait([this] { return is_open(); }, timeout)) {
    return false;
  }
  transport::Message message =
      to_message(header, header.is_training() ? transport::MessageKind::kForward
                                              : transport::MessageKind::kNoGradForward);
  pack(inputs, message);
  std::shared_ptr<Requester> heir;
  {
    const std::lock_guard lock(mutex_);
    heir = heir_;
    if (!heir) {
      log_.add(header, std::move(message));
    }
  }
  if (heir) {
    return heir->submit(header, inputs, timeout);
  }
  changed_.notify_all();
  return true;
}

void Requester::end_training() {
  {
    const std::lock_guard lock(mutex_);
    log_.end_training();
  }
  changed_.notify_all();
}

void Requester::end_validation() {
  std::shared_ptr<Requester> heir;
  {
    const std::lock_guard lock(mutex_);
    heir = heir_;
    if (heir) {
      has_heir_validated_ = true;
    } else {
      log_.end_validation();
    }
  }
  if (heir) {
    return heir->end_validation();
  }
  changed_.notify_all();
}

void Requester::feed() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(
        lock, [this] { return is_closing_ || (!is_over_ && session_ != 0 && log_.has_next()); });
    if (is_closing_) {
      return;
    }
    transport::Message message = log_.take_next();
    message.epoch = session_;
    ++sending_;
    lock.unlock();
    tell();
    send(message, message.epoch);
    lock.lock();
    --sending_;
    changed_.notify_all();
  }
}

// Until the root has it on its way, or is another. (One that was started again drops what is for an
// earlier session.)
void Requester::send(const transport::Message& message, std::int64_t session) {
  try {
    requests_->send(message, transport::kForEver);
  } catch (const std::exception&) {
    on_unsent(session, std::current_exception());
  }
}

void Requester::on_unsent(std::int64_t session, const std::exception_ptr& error) {
  const std::lock_guard lock(mutex_);
  if (is_closing_ || is_over_ || session_ != session) {
    return;  // nobody wants it there
  }
  if (options_.transport) {
    session_ = 0;
  } else {
    is_over_ = true;
    error_ = error;
  }
}

void Requester::on_report(const transport::Message& message) {
  if (message.kind == transport::MessageKind::kControl) {
    on_word(read_control(message));
    return;
  }
  const PassHeader header = read_header(message);
  const PassResult result = read_result(message);
  bool is_news = false;
  {
    const std::lock_guard lock(mutex_);
    is_news = log_.is_news(header);
  }
  if (is_news && header.is_training() && options_.on_result) {
    options_.on_result(header, result);
  }
  {
    const std::lock_guard lock(mutex_);
    log_.finish(header, result);
    if (is_news && header.purpose == Purpose::kPredict) {
      predictions_.push_back(unpack(message, c10::kCPU));
    }
  }
  tell();
}

void Requester::on_word(const Control& control) {
  if (control.word == Word::kStop) {
    return on_end(std::make_exception_ptr(StoppedRun(exit_code_of(control), control.text)));
  }
  try {
    const std::lock_guard lock(mutex_);
    if (control.word == Word::kRun) {
      const bool is_known = !control.numbers.empty() && control.numbers[0] >= 0;
      log_.restart(is_known ? std::optional(control.numbers[0]) : std::nullopt,
                   std::exchange(is_restored_, false));
      log_.forget_restored();
      session_ = control.generation;
    } else {
      log_.finish(control);
    }
  } catch (const Error&) {
    return end(std::current_exception());
  }
  tell();
}

void Requester::on_end(const std::exception_ptr& error) {
  if (!options_.transport) {
    return end(error);
  }
  const std::lock_guard lock(mutex_);
  session_ = 0;
}

void Requester::end(const std::exception_ptr& error) {
  {
    const std::lock_guard lock(mutex_);
    if (!is_over_) {
      is_over_ = true;
      error_ = error;
    }
  }
  tell();
}

void Requester::tell() {
  changed_.notify_all();
  if (options_.on_progress) {
    options_.on_progress();
  }
}

template <typename Done>
bool Requester::wait(const Done& is_done, Milliseconds timeout) {
  std::unique_lock lock(mutex_);
  const bool in_time = changed_.wait_until(lock, transport::deadline_in(timeout),
                                           [&] { return is_over_ || is_done(); });
  if (is_over_ && !is_done()) {
    std::rethrow_exception(error_ ? error_ : lost("[requester] the cluster left."));
  }
  return in_time;
}

bool Requester::wait_until_idle(Milliseconds timeout) {
  return wait([this] { return log_.is_idle(); }, timeout);
}

bool Requester::wait_for_training(Milliseconds timeout) {
  return wait([this] { return log_.is_trained(); }, timeout);
}

std::optional<PassResult> Requester::wait_for_validation(Milliseconds timeout) {
  if (!wait([this] { return log_.is_validated(); }, timeout)) {
    return std::nullopt;
  }
  std::shared_ptr<Requester> heir;
  {
    const std::lock_guard lock(mutex_);
    if (!has_heir_validated_) {
      return log_.last_validation();
    }
    heir = heir_;
  }
  return heir->wait_for_validation(timeout);
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
  {
    const std::lock_guard lock(mutex_);
    ++sending_;
  }
  std::exception_ptr error;
  try {
    requests_->send(
        to_message(Control{.word = Word::kStop, .numbers = {exit_code}, .text = reason}),
        kLastWord);
  } catch (...) {
    error = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    --sending_;
  }
  changed_.notify_all();
  if (error) {
    std::rethrow_exception(error);
  }
}

void Requester::close(Milliseconds timeout) {
  if (!options_.transport) {
    return transport_->close(timeout);
  }
  requests_->close(timeout);
  reports_->close(timeout);
}

}  // namespace ravnest::provider
