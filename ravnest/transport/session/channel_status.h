#pragma once

#include <exception>
#include <memory>
#include <string>

#include "ravnest/transport/options.h"
#include "ravnest/transport/session/budget.h"
#include "ravnest/transport/session/loop.h"
#include "ravnest/transport/session/member_table.h"
#include "ravnest/transport/transport.h"

namespace ravnest::transport {

// What all sessions of a transport share; alive as long as one of them is.
struct SessionContext {
  // `is_proof_needed`: the carrier proves members.
  explicit SessionContext(TransportOptions given, bool is_proof_needed = false);

  TimePoint now() const { return options.now(); }
  bool is_alive() const { return !options.is_alive || options.is_alive(); }
  void notify(Notice notice);

  const TransportOptions options;
  const std::uint64_t instance;
  MemberTable members;
  const std::shared_ptr<Budget> budget;
  Loop notices;  // a thread of their own: heartbeats must not wait for who reads them
  Loop loop;
};

// Where one end of a channel stands, in words too. Plain data: its session holds the lock.
class ChannelStatus {
 public:
  ChannelStatus(std::shared_ptr<SessionContext> context, Peer peer, std::string channel);

  Phase phase() const { return phase_; }
  bool is_over() const { return phase_ == Phase::kClosed || phase_ == Phase::kFailed; }
  const Peer& peer() const { return peer_; }
  const std::string& channel() const { return channel_; }
  std::exception_ptr error() const { return error_; }

  void open();
  // Back to waiting, or to lost where the peer was there before.
  void lose(const std::string& reason);
  void close(const std::string& text);
  // Keeps the error for whoever waits.
  void fail(const std::exception_ptr& error);
  // A word on why the peer is not there yet; part of the text while waiting.
  void set_obstacle(const std::string& obstacle) { obstacle_ = obstacle; }

  // Whether the peer has been away for longer than it may. The error names it.
  std::exception_ptr find_overdue(TimePoint now) const;
  // Notices while waiting; when this, or the overdue, wants to be looked at again.
  TimePoint tick(TimePoint now);

  // "node_1 at 10.0.0.2:8081"
  std::string peer_text() const;
  ChannelState state(TimePoint now) const;

 private:
  void enter(Phase phase, NoticeKind kind);
  std::string text(TimePoint now) const;
  std::string waiting_text(TimePoint now) const;
  void notify(NoticeKind kind, TimePoint now) const;
  TimePoint overdue_at() const;

  std::shared_ptr<SessionContext> context_;
  Peer peer_;
  std::string channel_;
  Phase phase_ = Phase::kWaiting;
  TimePoint since_;
  TimePoint next_notice_;
  std::string reason_;  // of the loss, or the end
  std::string obstacle_;
  std::exception_ptr error_;
};

// What an exception says.
std::string text_of(const std::exception_ptr& error);
// What may go to another node, or comes from one and may be shown: printable, and not too long.
std::string words_of(const std::string& text);

}  // namespace ravnest::transport
