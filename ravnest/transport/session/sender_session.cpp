#include "ravnest/transport/session/sender_session.h"

#include <algorithm>
#include <utility>

#include "ravnest/base/error.h"

namespace ravnest::transport {

// Passes the calls of one connection on.
class SenderSession::Owner : public StreamOwner {
 public:
  Owner(std::shared_ptr<SenderSession> session, std::uint64_t connection)
      : session_(std::move(session)), connection_(connection) {}

  NextFrame next_frame() override { return session_->next_frame(connection_); }
  void on_frame(const InFrame& frame) override { session_->on_frame(connection_, frame); }
  void on_end(const std::string& reason) override { session_->on_end(connection_, reason); }

 private:
  const std::shared_ptr<SenderSession> session_;
  const std::uint64_t connection_;
};

void SenderSession::Todo::run() const {
  if (abort) {
    abort->abort(reason);
  }
  if (wake) {
    wake->wake();
  }
}

SenderSession::SenderSession(std::shared_ptr<SessionContext> context, Carrier& carrier,
                             const Peer& peer, const std::string& channel)
    : context_(std::move(context)),
      carrier_(carrier),
      status_(context_, peer, channel),
      outbox_(context_->options.window, context_->options.largest_chunk),
      backoff_(context_->options.timeouts.first_backoff, context_->options.timeouts.longest_backoff,
               context_->options.seed ^ std::hash<std::string>()(peer.name + channel)),
      next_attempt_(context_->now()) {}

void SenderSession::send(const Message& message, Milliseconds timeout) {
  const TimePoint deadline = deadline_in(timeout);
  Outgoing out = prepare(message, context_->options.limits);
  Todo todo;
  {
    std::unique_lock lock(mutex_);
    const auto may_go = [&] {
      return status_.is_over() || is_closing_ || outbox_.has_room(out.nbytes);
    };
    const bool has_room = changed_.wait_until(lock, deadline, may_go);
    if (status_.is_over()) {
      std::rethrow_exception(status_.error());
    }
    if (is_closing_) {
      throw Error(ErrorKind::kPeerLost,
                  concat("[transport] the channel to ", status_.peer_text(), " is being closed."));
    }
    if (!has_room) {
      throw Error(ErrorKind::kTimeout,
                  concat("[transport] ", status_.peer_text(), " has not taken any of ",
                         outbox_.size(), " messages for ", timeout.count(), " ms."));
    }
    outbox_.add(std::move(out));
    ++messages_;
    if (connection_ && connection_->is_welcome) {
      todo.wake = connection_->stream;
    }
  }
  todo.run();
}

void SenderSession::wait_until_taken(std::unique_lock<std::mutex>& lock, TimePoint deadline) {
  const auto is_done = [this] { return status_.is_over() || outbox_.is_empty(); };
  if (!changed_.wait_until(lock, deadline, is_done)) {
    throw Error(ErrorKind::kTimeout,
                concat("[transport] ", status_.peer_text(), " has not taken the last ",
                       outbox_.size(), " messages in time."));
  }
  if (!outbox_.is_empty()) {
    std::rethrow_exception(status_.error());
  }
}

void SenderSession::flush(Milliseconds timeout) {
  std::unique_lock lock(mutex_);
  wait_until_taken(lock, deadline_in(timeout));
}

void SenderSession::close(Milliseconds timeout) {
  const TimePoint deadline = deadline_in(timeout);
  std::unique_lock lock(mutex_);
  if (is_broken_off_) {
    return;
  }
  is_closing_ = true;
  changed_.notify_all();
  wait_until_taken(lock, deadline);
  if (status_.is_over()) {
    return;
  }
  Todo todo;
  if (!connection_ || !connection_->is_welcome) {
    status_.close(concat(context_->options.name, " closed its channel to ", status_.peer_text()));
    drop("closed", todo);
    lock.unlock();
    todo.run();
    return;
  }
  const std::shared_ptr<Stream> stream = connection_->stream;
  lock.unlock();
  stream->wake();
  lock.lock();
  if (!changed_.wait_until(lock, deadline, [this] { return status_.is_over(); })) {
    throw Error(ErrorKind::kTimeout,
                concat("[transport] ", status_.peer_text(), " has not answered our goodbye."));
  }
}

void SenderSession::break_off(const std::string& reason) {
  Todo todo;
  {
    const std::lock_guard lock(mutex_);
    is_broken_off_ = true;
    if (!status_.is_over()) {
      fail(std::make_exception_ptr(Error(ErrorKind::kPeerLost, "[transport] " + reason + ".")),
           todo);
    }
  }
  todo.run();
}

void SenderSession::recheck() {
  Todo todo;
  {
    const std::lock_guard lock(mutex_);
    if (status_.is_over() || !context_->members.is_proof_needed()) {
      return;
    }
    const std::string expected = context_->members.expected(status_.peer());
    if (expected.empty()) {
      fail(std::make_exception_ptr(
               Error(ErrorKind::kPeerLost,
                     concat("[transport] ", status_.peer_text(), " is not in the plan any more."))),
           todo);
    } else if (connection_ && connection_->member != expected) {
      drop("another member is to bear its name", todo);
    }
  }
  todo.run();
}

ChannelState SenderSession::state() const {
  const std::lock_guard lock(mutex_);
  ChannelState state = status_.state(context_->now());
  state.messages = messages_;
  state.resent = outbox_.resent();
  return state;
}

bool SenderSession::is_over() const {
  const std::lock_guard lock(mutex_);
  return status_.is_over();
}

TimePoint SenderSession::tick(TimePoint now) {
  const bool is_alive = context_->is_alive();
  Todo todo;
  TimePoint next = TimePoint::max();
  bool is_attempt_due = false;
  {
    const std::lock_guard lock(mutex_);
    if (status_.is_over()) {
      return TimePoint::max();
    }
    if (const auto overdue = status_.find_overdue(now)) {
      fail(overdue, todo);
    } else {
      is_attempt_due = !connection_ && now >= next_attempt_;
      if (is_attempt_due) {
        ++generation_;
        connection_.emplace(
            Connection{.stream = nullptr,
                       .member = context_->members.expected(status_.peer()),
                       .pulse = Pulse(context_->options.timeouts, now),
                       .answer_by = after(now, context_->options.timeouts.handshake)});
      }
      next = std::min(status_.tick(now),
                      connection_ ? tick_connection(now, is_alive, todo) : next_attempt_);
    }
  }
  todo.run();
  if (is_attempt_due) {
    connect();
  }
  return next;
}

TimePoint SenderSession::tick_connection(TimePoint now, bool is_alive, Todo& todo) {
  Connection& connection = *connection_;
  if (!connection.is_welcome) {
    if (now < connection.answer_by) {
      return connection.answer_by;
    }
    drop("it did not answer", todo);
    return next_attempt_;
  }
  if (connection.pulse.is_silent(now)) {
    drop(concat("nothing was heard for ", context_->options.timeouts.lost_after.count(), " ms"),
         todo);
    return next_attempt_;
  }
  if (connection.pulse.beat(now) && is_alive) {
    connection.is_heartbeat_due = true;
    todo.wake = connection.stream;
  }
  return connection.pulse.next_tick();
}

void SenderSession::connect() {
  std::uint64_t connection = 0;
  Peer peer;
  {
    const std::lock_guard lock(mutex_);
    if (!connection_) {
      return;  // given up since
    }
    connection = generation_;
    peer = status_.peer();
    peer.member = connection_->member;
  }
  std::shared_ptr<Stream> stream;
  try {
    stream = carrier_.connect(peer, std::make_shared<Owner>(shared_from_this(), connection));
  } catch (const std::exception& error) {
    on_end(connection, error.what());
    return;
  }
  bool is_current = false;
  {
    const std::lock_guard lock(mutex_);
    is_current = connection == generation_ && connection_ && !status_.is_over();
    if (is_current) {
      connection_->stream = stream;
    }
  }
  if (is_current) {
    stream->wake();
  } else {
    stream->abort("not wanted any more");
  }
}

Hello SenderSession::hello() const {
  return {.plan = context_->options.plan,
          .from = context_->options.name,
          .to = status_.peer().name,
          .channel = status_.channel(),
          .instance = context_->instance,
          .first = outbox_.first()};
}

NextFrame SenderSession::next_frame(std::uint64_t connection) {
  const std::lock_guard lock(mutex_);
  if (connection != generation_ || !connection_) {
    return {};
  }
  Connection& current = *connection_;
  const TimePoint now = context_->now();
  NextFrame next;
  if (std::exchange(current.is_hello_due, false)) {
    next.frame = OutFrame{.head = hello()};
  } else if (!current.is_welcome || current.is_goodbye_written) {
    return {};
  } else if (auto frame = outbox_.next_frame(now)) {
    next.frame = std::move(frame);
  } else if (is_closing_ && outbox_.is_empty()) {
    current.is_goodbye_written = true;
    next.frame = OutFrame{.head = Goodbye{}};
  } else if (current.is_heartbeat_due) {
    next.frame = OutFrame{.head = Heartbeat{.written = outbox_.written()}};
  } else {
    return {};
  }
  current.is_heartbeat_due = false;  // any frame is a sign of life
  current.pulse.on_sent(now);
  return next;
}

void SenderSession::on_frame(std::uint64_t connection, const InFrame& frame) {
  Todo todo;
  {
    const std::lock_guard lock(mutex_);
    if (connection != generation_ || !connection_ || status_.is_over()) {
      return;
    }
    connection_->pulse.on_heard(context_->now());
    if (const auto* welcome = std::get_if<Welcome>(&frame.head)) {
      on_head(*welcome, todo);
    } else if (const auto* refusal = std::get_if<Refusal>(&frame.head)) {
      on_head(*refusal, todo);
    } else if (const auto* ack = std::get_if<Ack>(&frame.head)) {
      on_head(*ack, todo);
    } else if (const auto* goodbye = std::get_if<Goodbye>(&frame.head)) {
      on_head(*goodbye, todo);
    } else {
      throw_invalid("it sent a ", name_of(frame.head), ", which is ours to send");
    }
  }
  todo.run();
}

void SenderSession::on_head(const Welcome& welcome, Todo& todo) {
  if (connection_->is_welcome) {
    throw_invalid("it welcomed us twice");
  }
  outbox_.rewind(welcome);
  connection_->is_welcome = true;
  refused_since_.reset();
  status_.open();
  changed_.notify_all();
  todo.wake = connection_->stream;
  context_->loop.wake();
}

void SenderSession::on_head(const Refusal& refusal, Todo& todo) {
  const TimePoint now = context_->now();
  const std::string reason = words_of(refusal.text);
  const std::string text = concat(status_.peer_text(), " refused: ", reason);
  if (connection_->is_welcome && !refusal.try_again) {
    fail(std::make_exception_ptr(Error(ErrorKind::kPeerLost, "[transport] " + text)), todo);
    return;
  }
  if (!refusal.try_again) {
    refused_since_ = refused_since_.value_or(now);
    if (now - *refused_since_ >= context_->options.timeouts.refused_patience) {
      fail(std::make_exception_ptr(std::invalid_argument("[transport] " + text)), todo);
      return;
    }
  }
  status_.set_obstacle(reason);
  drop(reason, todo);
}

void SenderSession::on_head(const Ack& ack, Todo& todo) {
  if (!connection_->is_welcome) {
    throw_invalid("it acknowledged before it welcomed us");
  }
  outbox_.acknowledge(ack.taken);
  backoff_.reset();
  changed_.notify_all();
  todo.wake = connection_->stream;
}

void SenderSession::on_head(const Goodbye&, Todo& todo) {
  status_.close(concat(status_.peer_text(), " and ", context_->options.name, " said goodbye"));
  changed_.notify_all();
  drop("goodbye", todo);
}

void SenderSession::on_end(std::uint64_t connection, const std::string& reason) {
  Todo todo;
  const std::lock_guard lock(mutex_);
  if (connection != generation_ || !connection_ || status_.is_over()) {
    return;
  }
  if (connection_->is_goodbye_written) {
    status_.close(concat(status_.peer_text(), " left after our goodbye"));
    changed_.notify_all();
  }
  drop(words_of(reason), todo);  // nothing to abort: the stream has ended
}

void SenderSession::drop(const std::string& reason, Todo& todo) {
  if (connection_) {
    todo.wake = nullptr;
    todo.abort = connection_->stream;
    todo.reason = reason;
  }
  connection_.reset();
  ++generation_;
  if (!status_.is_over()) {
    status_.lose(reason);
    next_attempt_ = context_->now() + backoff_.next();
    context_->loop.wake();
  }
}

void SenderSession::fail(const std::exception_ptr& error, Todo& todo) {
  status_.fail(error);
  changed_.notify_all();
  drop(text_of(error), todo);
}

}  // namespace ravnest::transport
