#include "ravnest/transport/session/channel_status.h"

#include <random>
#include <utility>

#include "ravnest/base/error.h"
#include "ravnest/base/table.h"

namespace ravnest::transport {

namespace {

std::uint64_t draw() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32) | device();
}

std::string seconds_text(TimePoint::duration elapsed) {
  return concat(std::chrono::duration_cast<std::chrono::seconds>(elapsed).count(), " s");
}

TransportOptions with_seed(TransportOptions options) {
  options.seed = options.seed == 0 ? draw() : options.seed;
  return options;
}

}  // namespace

SessionContext::SessionContext(TransportOptions given, bool is_proof_needed)
    : options(with_seed(std::move(given))),
      instance(draw()),
      members(is_proof_needed, options.members),
      budget(std::make_shared<Budget>(options.limits.held_bytes)),
      notices(options.now),
      loop(options.now) {}

void SessionContext::notify(Notice notice) {
  if (options.on_notice) {
    static_cast<void>(notices.post(
        [handler = options.on_notice, notice = std::move(notice)] { handler(notice); }));
  }
}

ChannelStatus::ChannelStatus(std::shared_ptr<SessionContext> context, Peer peer,
                             std::string channel)
    : context_(std::move(context)),
      peer_(std::move(peer)),
      channel_(std::move(channel)),
      since_(context_->now()),
      next_notice_(after(since_, context_->options.timeouts.progress)) {}

void ChannelStatus::enter(Phase phase, NoticeKind kind) {
  phase_ = phase;
  since_ = context_->now();
  next_notice_ = after(since_, context_->options.timeouts.progress);
  notify(kind, since_);
}

void ChannelStatus::open() {
  obstacle_.clear();
  enter(Phase::kOpen, NoticeKind::kOpen);
}

void ChannelStatus::lose(const std::string& reason) {
  if (phase_ == Phase::kOpen) {
    reason_ = reason;
    enter(Phase::kLost, NoticeKind::kLost);
  }
}

void ChannelStatus::close(const std::string& text) {
  reason_ = text;
  error_ = std::make_exception_ptr(Error(ErrorKind::kPeerLost, "[transport] " + text + "."));
  enter(Phase::kClosed, NoticeKind::kClosed);
}

void ChannelStatus::fail(const std::exception_ptr& error) {
  error_ = error;
  reason_ = text_of(error);
  enter(Phase::kFailed, NoticeKind::kFailed);
}

TimePoint ChannelStatus::overdue_at() const {
  const Timeouts& timeouts = context_->options.timeouts;
  if (phase_ == Phase::kLost) {
    return after(since_, timeouts.return_within);
  }
  if (phase_ == Phase::kWaiting && timeouts.start_within) {
    return after(since_, *timeouts.start_within);
  }
  return TimePoint::max();
}

std::exception_ptr ChannelStatus::find_overdue(TimePoint now) const {
  if (now < overdue_at()) {
    return nullptr;
  }
  return std::make_exception_ptr(Error(ErrorKind::kPeerLost, "[transport] " + text(now) + "."));
}

TimePoint ChannelStatus::tick(TimePoint now) {
  if (phase_ != Phase::kWaiting && phase_ != Phase::kLost) {
    return TimePoint::max();
  }
  if (now >= next_notice_) {
    notify(phase_ == Phase::kWaiting ? NoticeKind::kWaiting : NoticeKind::kLost, now);
    next_notice_ = after(now, context_->options.timeouts.progress);
  }
  return std::min(next_notice_, overdue_at());
}

std::string ChannelStatus::peer_text() const {
  return printable(peer_.address.empty() ? peer_.name : concat(peer_.name, " at ", peer_.address));
}

std::string ChannelStatus::waiting_text(TimePoint now) const {
  const std::string obstacle = obstacle_.empty() ? "" : ": " + obstacle_;
  return concat(context_->options.name, " waits for ", peer_text(), " (",
                seconds_text(now - since_), ")", obstacle);
}

std::string ChannelStatus::text(TimePoint now) const {
  const std::string& name = context_->options.name;
  switch (phase_) {
    case Phase::kWaiting:
      return waiting_text(now);
    case Phase::kOpen:
      return concat(name, " is connected to ", peer_text());
    case Phase::kLost:
      return concat(name, " lost ", peer_text(), " ", seconds_text(now - since_), " ago: ", reason_,
                    obstacle_.empty() ? "" : "; " + obstacle_);
    case Phase::kClosed:
    case Phase::kFailed:
      break;
  }
  return reason_;
}

void ChannelStatus::notify(NoticeKind kind, TimePoint now) const {
  context_->notify({.kind = kind,
                    .peer = peer_.name,
                    .channel = channel_,
                    .obstacle = obstacle_,
                    .text = text(now)});
}

ChannelState ChannelStatus::state(TimePoint now) const {
  return {.phase = phase_,
          .since = std::chrono::duration_cast<Milliseconds>(now - since_),
          .text = text(now)};
}

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& caught) {
    return caught.what();
  } catch (...) {
    return "something that is no std::exception";
  }
}

std::string words_of(const std::string& text) {
  constexpr std::size_t kLongest = 2000;
  return printable(text.substr(0, kLongest));
}

}  // namespace ravnest::transport
