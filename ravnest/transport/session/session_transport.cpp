#include "ravnest/transport/session/session_transport.h"

#include <vector>

#include "ravnest/base/error.h"
#include "ravnest/base/table.h"
#include "ravnest/transport/session/incoming.h"
#include "ravnest/transport/session/receiver_session.h"
#include "ravnest/transport/session/sender_session.h"

namespace ravnest::transport {

namespace {

class SenderEnd : public Sender {
 public:
  explicit SenderEnd(std::shared_ptr<SenderSession> session) : session_(std::move(session)) {}
  ~SenderEnd() override { SenderEnd::break_off(); }
  SenderEnd(const SenderEnd&) = delete;
  SenderEnd& operator=(const SenderEnd&) = delete;

  void send(const Message& message, Milliseconds timeout) override {
    session_->send(message, timeout);
  }
  void flush(Milliseconds timeout) override { session_->flush(timeout); }
  void close(Milliseconds timeout) override { session_->close(timeout); }
  void break_off() override { session_->break_off("the sender is gone"); }
  ChannelState state() const override { return session_->state(); }

 private:
  const std::shared_ptr<SenderSession> session_;
};

class ReceiverEnd : public Receiver {
 public:
  explicit ReceiverEnd(std::shared_ptr<ReceiverSession> session) : session_(std::move(session)) {}
  ~ReceiverEnd() override { session_->break_off("the receiver is gone"); }
  ReceiverEnd(const ReceiverEnd&) = delete;
  ReceiverEnd& operator=(const ReceiverEnd&) = delete;

  void close(Milliseconds timeout) override { session_->close(timeout); }
  ChannelState state() const override { return session_->state(); }

 private:
  const std::shared_ptr<ReceiverSession> session_;
};

void check_name(const std::string& name, const char* what) {
  if (name.empty() || name.size() > kMaxNameBytes || printable(name) != name) {
    throw_invalid("[transport] expected ", what, " of 1 to ", kMaxNameBytes,
                  " printable bytes, got '", printable(name), "'.");
  }
}

void check_proof(const Carrier& carrier) {
  if (!carrier.proves_members()) {
    throw_invalid("[transport] expected credentials where members are named, got none; without ",
                  "them nobody can prove to be one.");
  }
}

template <typename Session>
std::vector<std::shared_ptr<Session>> alive(const auto& sessions) {
  std::vector<std::shared_ptr<Session>> found;
  for (const auto& [key, weak] : sessions) {
    if (auto session = weak.lock()) {
      found.push_back(std::move(session));
    }
  }
  return found;
}

// Refuses a second end of a channel; one that is over may be followed by another.
template <typename Session>
void claim(auto& sessions, const auto& key, const std::shared_ptr<Session>& session) {
  auto& place = sessions[key];
  if (const auto old = place.lock(); old && !old->is_over()) {
    throw_invalid("[transport] expected one end of channel ", key.second, " with ", key.first,
                  ", got a second.");
  }
  place = session;
}

}  // namespace

SessionTransport::SessionTransport(TransportOptions options, std::unique_ptr<Carrier> carrier)
    : context_(std::make_shared<SessionContext>(std::move(options), carrier->proves_members())),
      carrier_(std::move(carrier)) {
  check_name(context_->options.name, "the name of a node");
  if (!context_->options.plan.empty()) {
    check_name(context_->options.plan, "the id of a plan");
  }
  if (!context_->options.members.empty()) {
    check_proof(*carrier_);
  }
  carrier_->start([this](std::shared_ptr<Stream> stream) {
    auto incoming = std::make_shared<Incoming>(
        context_, std::move(stream), [this](const std::string& from, const std::string& channel) {
          return find_receiver(from, channel);
        });
    context_->loop.add(incoming);
    return incoming;
  });
}

SessionTransport::~SessionTransport() {
  std::vector<std::shared_ptr<SenderSession>> senders;
  std::vector<std::shared_ptr<ReceiverSession>> receivers;
  {
    const std::lock_guard lock(mutex_);
    senders = alive<SenderSession>(senders_);
    receivers = alive<ReceiverSession>(receivers_);
  }
  for (const auto& session : senders) {
    session->break_off("the transport is gone");
  }
  for (const auto& session : receivers) {
    session->break_off("the transport is gone");
  }
  // The loop uses the carrier, so it ends first.
  context_->loop.stop();
  carrier_->stop();
  context_->notices.stop();
}

std::unique_ptr<Sender> SessionTransport::open(const Peer& to, const std::string& channel) {
  check_name(to.name, "the name of a peer");
  check_name(channel, "the name of a channel");
  Peer reached = to;
  reached.member = context_->members.expected(to);
  carrier_->check(reached);
  auto session = std::make_shared<SenderSession>(context_, *carrier_, to, channel);
  {
    const std::lock_guard lock(mutex_);
    claim(senders_, Key(to.name, channel), session);
  }
  context_->loop.add(session);
  return std::make_unique<SenderEnd>(std::move(session));
}

std::unique_ptr<Receiver> SessionTransport::receive(const Peer& from, const std::string& channel,
                                                    Handler handler) {
  check_name(from.name, "the name of a peer");
  check_name(channel, "the name of a channel");
  auto session = std::make_shared<ReceiverSession>(context_, from, channel, std::move(handler));
  {
    const std::lock_guard lock(mutex_);
    claim(receivers_, Key(from.name, channel), session);
  }
  context_->loop.add(session);
  return std::make_unique<ReceiverEnd>(std::move(session));
}

std::shared_ptr<ReceiverSession> SessionTransport::find_receiver(const std::string& from,
                                                                 const std::string& channel) {
  const std::lock_guard lock(mutex_);
  const auto found = receivers_.find(Key(from, channel));
  return found == receivers_.end() ? nullptr : found->second.lock();
}

void SessionTransport::set_members(Members members) {
  check_proof(*carrier_);
  context_->members.set(std::move(members));
  std::vector<std::shared_ptr<SenderSession>> senders;
  std::vector<std::shared_ptr<ReceiverSession>> receivers;
  {
    const std::lock_guard lock(mutex_);
    senders = alive<SenderSession>(senders_);
    receivers = alive<ReceiverSession>(receivers_);
  }
  for (const auto& session : senders) {
    session->recheck();
  }
  for (const auto& session : receivers) {
    session->recheck();
  }
}

std::string SessionTransport::address() const { return carrier_->address(); }

void SessionTransport::close(Milliseconds timeout) {
  const TimePoint deadline = deadline_in(timeout);
  std::exception_ptr first;
  const auto close_one = [&](auto& session) {
    try {
      const auto left = deadline - std::chrono::steady_clock::now();
      session->close(std::chrono::duration_cast<Milliseconds>(std::max(left, left.zero())));
    } catch (...) {
      first = first ? first : std::current_exception();
    }
  };
  std::vector<std::shared_ptr<SenderSession>> senders;
  std::vector<std::shared_ptr<ReceiverSession>> receivers;
  {
    const std::lock_guard lock(mutex_);
    senders = alive<SenderSession>(senders_);
    receivers = alive<ReceiverSession>(receivers_);
  }
  std::ranges::for_each(senders, close_one);
  std::ranges::for_each(receivers, close_one);
  if (first) {
    std::rethrow_exception(first);
  }
}

}  // namespace ravnest::transport
