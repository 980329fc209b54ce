#include "ravnest/transport/session/incoming.h"

#include <utility>

#include "ravnest/base/error.h"
#include "ravnest/base/table.h"

namespace ravnest::transport {

std::optional<Refusal> find_mismatch(const Hello& hello, const TransportOptions& options) {
  if (hello.protocol != kProtocolVersion) {
    return Refusal{.text = concat(options.name, " speaks version ", kProtocolVersion,
                                  " of the protocol, ", hello.from, " version ", hello.protocol,
                                  "; one of the programs is too old.")};
  }
  for (const std::string* name : {&hello.plan, &hello.from, &hello.to, &hello.channel}) {
    if (name->size() > kMaxNameBytes) {
      return Refusal{.text = "a name in the hello is too long."};
    }
  }
  if (hello.plan != options.plan) {
    return Refusal{.text =
                       concat(options.name, " runs plan ", options.plan, ", ", hello.from, " plan ",
                              hello.plan, "; both must be started from the same plan.")};
  }
  if (hello.to != options.name) {
    return Refusal{.text = concat("this is ", options.name, ", and ", hello.from, " looks for ",
                                  hello.to, ".")};
  }
  if (hello.first == 0) {
    return Refusal{.text = "sequence numbers begin at 1."};
  }
  return std::nullopt;
}

Incoming::Incoming(std::shared_ptr<SessionContext> context, std::shared_ptr<Stream> stream,
                   Find find)
    : context_(std::move(context)),
      find_(std::move(find)),
      hello_by_(after(context_->now(), context_->options.timeouts.handshake)),
      stream_(std::move(stream)) {}

NextFrame Incoming::next_frame() {
  std::shared_ptr<ReceiverSession> session;
  {
    const std::lock_guard lock(mutex_);
    if (refusal_) {
      NextFrame last{.frame = OutFrame{.head = std::move(*refusal_)}, .end = true};
      refusal_.reset();
      return last;
    }
    session = session_;
  }
  return session ? session->next_frame(connection_) : NextFrame{};
}

void Incoming::on_frame(const InFrame& frame) {
  std::shared_ptr<ReceiverSession> session;
  {
    const std::lock_guard lock(mutex_);
    session = session_;
  }
  if (session) {
    session->on_frame(connection_, frame);
    return;
  }
  const auto* hello = std::get_if<Hello>(&frame.head);
  if (hello == nullptr) {
    throw_invalid("it did not say hello first");
  }
  on_hello(*hello);
}

void Incoming::on_hello(const Hello& hello) {
  if (auto mismatch = find_mismatch(hello, context_->options)) {
    refuse(hello, std::move(*mismatch));
    return;
  }
  std::shared_ptr<Stream> stream;
  {
    const std::lock_guard lock(mutex_);
    stream = stream_;
  }
  if (!stream) {
    return;
  }
  const auto session = find_(hello.from, hello.channel);
  if (!session) {
    const Peer peer{.name = hello.from, .address = {}};
    if (auto stranger = context_->members.find_stranger(peer, stream->member())) {
      refuse(hello, {.text = std::move(*stranger)});
      return;
    }
    refuse(hello, {.text = concat(context_->options.name, " does not expect ", hello.from,
                                  " on channel ", hello.channel, " yet"),
                   .try_again = true});
    return;
  }
  std::uint64_t connection = 0;
  if (auto objection = session->attach(stream, hello, connection)) {
    refuse(hello, std::move(*objection));
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    connection_ = connection;
    session_ = session;
  }
  stream->wake();
}

void Incoming::refuse(const Hello& hello, Refusal refusal) {
  std::shared_ptr<Stream> stream;
  {
    const std::lock_guard lock(mutex_);
    stream = stream_;
    if (!stream) {
      return;
    }
    refusal.text = printable(refusal.text);
    if (!refusal.try_again) {
      context_->notify({.kind = NoticeKind::kRefused,
                        .peer = printable(hello.from),
                        .channel = printable(hello.channel),
                        .text = concat("refused ", printable(hello.from), " at ", stream->remote(),
                                       ": ", refusal.text)});
    }
    refusal_ = std::move(refusal);
  }
  stream->wake();
}

void Incoming::on_end(const std::string& reason) {
  std::shared_ptr<Stream> ended;
  std::shared_ptr<ReceiverSession> session;
  {
    const std::lock_guard lock(mutex_);
    ended = std::move(stream_);
    session = session_;
  }
  if (session) {
    session->on_end(connection_, reason);
  }
}

TimePoint Incoming::tick(TimePoint now) {
  std::shared_ptr<Stream> late;
  {
    const std::lock_guard lock(mutex_);
    if (session_ || !stream_) {
      return TimePoint::max();
    }
    if (now < hello_by_) {
      return hello_by_;
    }
    late = stream_;
  }
  late->abort("it did not say hello in time");
  return TimePoint::max();
}

}  // namespace ravnest::transport
