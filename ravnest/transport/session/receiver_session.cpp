#include "ravnest/transport/session/receiver_session.h"

#include <algorithm>
#include <utility>

#include "ravnest/base/error.h"

namespace ravnest::transport {

ReceiverSession::ReceiverSession(std::shared_ptr<SessionContext> context, const Peer& peer,
                                 const std::string& channel, Handler handler)
    : context_(std::move(context)),
      handler_(std::move(handler)),
      assembler_(context_->options.limits, context_->budget, handler_.takes_parts),
      status_(context_, peer, channel) {}

std::optional<Refusal> ReceiverSession::find_objection(const Stream& stream,
                                                       const Hello& hello) const {
  if (const auto stranger = context_->members.find_stranger(peer(), stream.member())) {
    return Refusal{.text = *stranger};
  }
  if (status_.phase() == Phase::kFailed) {
    return Refusal{.text = words_of(text_of(status_.error()))};
  }
  if (status_.phase() == Phase::kClosed) {
    return Refusal{.text = "the channel is closed here", .try_again = true};
  }
  if (connection_ && hello.instance != sender_instance_) {
    return Refusal{.text = concat("another process is connected as ", status_.peer().name),
                   .try_again = true};
  }
  return std::nullopt;
}

std::optional<Refusal> ReceiverSession::attach(const std::shared_ptr<Stream>& stream,
                                               const Hello& hello, std::uint64_t& connection) {
  std::shared_ptr<Stream> replaced;
  {
    const std::lock_guard delivering(delivering_);
    const std::lock_guard lock(mutex_);
    if (auto objection = find_objection(*stream, hello)) {
      return objection;
    }
    if (connection_) {
      replaced = connection_->stream;
    }
    assembler_.reset();
    if (hello.instance != sender_instance_ || incarnation_ == 0) {
      sender_instance_ = hello.instance;
      ++incarnation_;
      received_ = taken_ = hello.first - 1;
      pending_.clear();
      pending_bytes_ = 0;
    }
    connection = ++generation_;
    // What was taken while nobody was connected is news to the sender.
    connection_.emplace(Connection{.stream = stream,
                                   .pulse = Pulse(context_->options.timeouts, context_->now()),
                                   .is_ack_due = taken_ >= hello.first});
    status_.open();
    context_->loop.wake();
  }
  if (replaced) {
    replaced->abort("the sender connected again");
  }
  return std::nullopt;
}

void ReceiverSession::recheck() {
  std::uint64_t connection = 0;
  std::optional<std::string> stranger;
  {
    const std::lock_guard lock(mutex_);
    if (connection_) {
      connection = generation_;
      stranger = context_->members.find_stranger(peer(), connection_->stream->member());
    }
  }
  if (!stranger) {
    return;
  }
  if (const auto stream = drop(connection, *stranger)) {
    stream->abort(*stranger);
  }
}

bool ReceiverSession::is_current(std::uint64_t connection) const {
  return connection == generation_ && connection_ && !connection_->is_over;
}

NextFrame ReceiverSession::next_frame(std::uint64_t connection) {
  const std::lock_guard lock(mutex_);
  if (!is_current(connection)) {
    return {};
  }
  Connection& current = *connection_;
  const Window& window = context_->options.window;
  NextFrame next;
  if (std::exchange(current.is_welcome_due, false)) {
    next.frame = OutFrame{.head = Welcome{.instance = context_->instance,
                                          .received = received_,
                                          .window_messages = window.messages,
                                          .window_bytes = window.nbytes}};
  } else if (std::exchange(current.is_ack_due, false)) {
    next.frame = OutFrame{.head = Ack{.taken = taken_}};
  } else if (current.last_word) {
    next.frame = OutFrame{.head = std::move(*current.last_word)};
    next.end = current.is_over = true;
  } else {
    return {};
  }
  current.pulse.on_sent(context_->now());
  return next;
}

void ReceiverSession::on_frame(std::uint64_t connection, const InFrame& frame) {
  const std::lock_guard delivering(delivering_);
  {
    const std::lock_guard lock(mutex_);
    if (!is_current(connection) || status_.is_over()) {
      return;
    }
    connection_->pulse.on_heard(context_->now());
  }
  try {
    if (const auto* begin = std::get_if<Begin>(&frame.head)) {
      on_begin(*begin, frame);
    } else if (const auto* piece = std::get_if<Piece>(&frame.head)) {
      on_piece(*piece, frame);
    } else if (std::holds_alternative<Goodbye>(frame.head)) {
      on_goodbye();
    } else if (const auto* heartbeat = std::get_if<Heartbeat>(&frame.head)) {
      on_heartbeat(*heartbeat);
    } else {
      throw BrokenStream(concat("a ", name_of(frame.head), " frame is out of place"));
    }
  } catch (const BrokenStream&) {
    throw;
  } catch (const std::invalid_argument& error) {
    fail(std::make_exception_ptr(
        std::invalid_argument(concat(error.what(), " It came from ", status_.peer_text(), "."))));
  } catch (...) {
    fail(std::current_exception());
  }
}

void ReceiverSession::check_window(const Begin& begin) const {
  const Window& window = context_->options.window;
  std::size_t nbytes = pending_bytes_;
  for (const TensorClaim& claim : begin.tensors) {
    // A sum that is over stays over: no claim can bring it back by overflowing.
    nbytes = std::min(nbytes, window.nbytes + 1);
    nbytes += std::min<std::uint64_t>(claim.nbytes, window.nbytes + 1);
  }
  if (!pending_.empty() && (pending_.size() >= window.messages || nbytes > window.nbytes)) {
    throw_invalid("[transport] expected ", status_.peer().name, " to keep to a window of ",
                  window.messages, " messages and ", window.nbytes, " bytes, got more.");
  }
}

void ReceiverSession::on_begin(const Begin& begin, const InFrame& frame) {
  {
    const std::lock_guard lock(mutex_);
    if (begin.sequence <= received_) {
      ++duplicates_;
      return;
    }
    if (begin.sequence != received_ + 1) {
      throw BrokenStream("a message is missing");
    }
    check_window(begin);
  }
  assembler_.begin(begin, frame.payload, frame.owner);
  deliver();
}

void ReceiverSession::on_piece(const Piece& piece, const InFrame& frame) {
  {
    const std::lock_guard lock(mutex_);
    if (piece.sequence <= received_) {
      return;  // of a message that was dropped as a duplicate
    }
  }
  assembler_.add(piece, frame.payload, frame.owner);
  deliver();
}

void ReceiverSession::deliver() {
  if (!assembler_.is_whole()) {
    return;
  }
  const std::size_t nbytes = assembler_.nbytes();
  Assembled whole = assembler_.take();
  // Shared, because std::function copies what it holds.
  auto held = std::make_shared<Reservation>(std::move(whole.held));
  Delivery delivery{.message = std::move(whole.message),
                    .parts = std::move(whole.parts),
                    .from = status_.peer().name};
  {
    const std::lock_guard lock(mutex_);
    const std::uint64_t sequence = ++received_;
    pending_.push_back({.nbytes = nbytes});
    pending_bytes_ += nbytes;
    ++messages_;
    delivery.instance = sender_instance_;
    delivery.credit = Credit(
        [session = weak_from_this(), incarnation = incarnation_, sequence, held = std::move(held)] {
          held->clear();
          if (const auto alive = session.lock()) {
            alive->release(incarnation, sequence);
          }
        });
  }
  try {
    handler_.on_message(std::move(delivery));
  } catch (...) {
    fail(std::current_exception());
  }
}

void ReceiverSession::release(std::uint64_t incarnation, std::uint64_t sequence) {
  std::shared_ptr<Stream> stream;
  {
    const std::lock_guard lock(mutex_);
    if (incarnation != incarnation_) {
      return;  // of a sender that was started anew since
    }
    pending_[sequence - taken_ - 1].is_released = true;
    while (!pending_.empty() && pending_.front().is_released) {
      pending_bytes_ -= pending_.front().nbytes;
      pending_.pop_front();
      ++taken_;
      if (connection_) {
        connection_->is_ack_due = true;
        stream = connection_->stream;
      }
    }
  }
  if (stream) {
    stream->wake();
  }
}

void ReceiverSession::on_heartbeat(const Heartbeat& heartbeat) {
  const std::lock_guard lock(mutex_);
  if (heartbeat.written > received_) {
    throw BrokenStream("a message is missing");
  }
}

void ReceiverSession::on_goodbye() {
  if (assembler_.is_busy()) {
    throw BrokenStream("it said goodbye in the middle of a message");
  }
  std::shared_ptr<Stream> stream;
  {
    const std::lock_guard lock(mutex_);
    connection_->last_word = Goodbye{};
    stream = connection_->stream;
    status_.close(concat(status_.peer_text(), " said goodbye to ", context_->options.name));
  }
  call_end(nullptr);
  stream->wake();
}

void ReceiverSession::on_end(std::uint64_t connection, const std::string& reason) {
  static_cast<void>(drop(connection, reason));
}

std::shared_ptr<Stream> ReceiverSession::drop(std::uint64_t connection, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (connection != generation_ || !connection_) {
    return nullptr;
  }
  std::shared_ptr<Stream> stream = std::move(connection_->stream);
  connection_.reset();
  ++generation_;
  if (!status_.is_over()) {
    status_.lose(reason);
    context_->loop.wake();
  }
  changed_.notify_all();
  return stream;
}

void ReceiverSession::fail(const std::exception_ptr& error) {
  std::shared_ptr<Stream> stream;
  {
    const std::lock_guard lock(mutex_);
    if (status_.is_over()) {
      return;
    }
    status_.fail(error);
    if (connection_) {
      connection_->last_word = Refusal{.text = words_of(text_of(error))};
      stream = connection_->stream;
    }
  }
  assembler_.reset();
  call_end(error);
  if (stream) {
    stream->wake();
  }
}

void ReceiverSession::call_end(const std::exception_ptr& error) {
  if (std::exchange(is_ended_, true) || !handler_.on_end) {
    return;
  }
  try {
    handler_.on_end(error);
  } catch (...) {  // there is nothing left to end
  }
}

void ReceiverSession::close(Milliseconds timeout) {
  const TimePoint deadline = deadline_in(timeout);
  std::shared_ptr<Stream> stream;
  {
    const std::lock_guard delivering(delivering_);
    {
      const std::lock_guard lock(mutex_);
      if (!status_.is_over()) {
        status_.close(concat(context_->options.name, " said goodbye to ", status_.peer_text()));
        if (connection_) {
          connection_->last_word = Goodbye{};
          stream = connection_->stream;
        }
      }
    }
    call_end(nullptr);
  }
  if (stream) {
    stream->wake();
  }
  std::unique_lock lock(mutex_);
  if (!changed_.wait_until(lock, deadline, [this] { return !connection_.has_value(); })) {
    throw Error(ErrorKind::kTimeout,
                concat("[transport] ", status_.peer_text(), " has not heard our goodbye."));
  }
}

void ReceiverSession::break_off(const std::string& reason) {
  std::uint64_t connection = 0;
  {
    const std::lock_guard delivering(delivering_);
    is_ended_ = true;
    const std::lock_guard lock(mutex_);
    connection = generation_;
    if (!status_.is_over()) {
      status_.fail(
          std::make_exception_ptr(Error(ErrorKind::kPeerLost, "[transport] " + reason + ".")));
    }
  }
  if (const auto stream = drop(connection, reason)) {
    stream->abort(reason);
  }
}

ChannelState ReceiverSession::state() const {
  const std::lock_guard lock(mutex_);
  ChannelState state = status_.state(context_->now());
  state.messages = messages_;
  state.duplicates = duplicates_;
  return state;
}

bool ReceiverSession::is_over() const {
  const std::lock_guard lock(mutex_);
  return status_.is_over();
}

void ReceiverSession::fail_if_overdue(TimePoint now) {
  const std::lock_guard delivering(delivering_);
  std::exception_ptr overdue;
  {
    const std::lock_guard lock(mutex_);
    overdue = status_.find_overdue(now);
  }
  if (overdue) {
    fail(overdue);
  }
}

TimePoint ReceiverSession::tick(TimePoint now) {
  const bool is_alive = context_->is_alive();
  std::shared_ptr<Stream> wake;
  std::uint64_t connection = 0;
  bool is_silent = false;
  bool is_overdue = false;
  TimePoint next = TimePoint::max();
  {
    const std::lock_guard lock(mutex_);
    if (status_.is_over()) {
      return next;
    }
    connection = generation_;
    is_overdue = status_.find_overdue(now) != nullptr;
    next = status_.tick(now);
    if (connection_) {
      is_silent = connection_->pulse.is_silent(now);
      if (connection_->pulse.beat(now) && is_alive) {
        connection_->is_ack_due = true;
        wake = connection_->stream;
      }
      next = std::min(next, connection_->pulse.next_tick());
    }
  }
  if (is_overdue) {
    fail_if_overdue(now);
  } else if (is_silent) {
    const std::string reason =
        concat("nothing was heard for ", context_->options.timeouts.lost_after.count(), " ms");
    if (const auto stream = drop(connection, reason)) {
      stream->abort(reason);
    }
    return now;  // asked again at once: the deadlines are others now
  }
  if (wake) {
    wake->wake();
  }
  return next;
}

}  // namespace ravnest::transport
