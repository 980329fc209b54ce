#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "ravnest/transport/carrier.h"
#include "ravnest/transport/session/backoff.h"
#include "ravnest/transport/session/channel_status.h"
#include "ravnest/transport/session/outbox.h"
#include "ravnest/transport/session/pulse.h"

namespace ravnest::transport {

// The sending end of one channel over all its connections: connects, says hello, writes what the
// window allows, notices silence, connects again. Called by whoever sends, by the carrier's
// threads (through an owner per connection) and by the loop.
class SenderSession : public Ticking, public std::enable_shared_from_this<SenderSession> {
 public:
  // The carrier is borrowed until break_off or the end of the loop.
  SenderSession(std::shared_ptr<SessionContext> context, Carrier& carrier, const Peer& peer,
                const std::string& channel);

  void send(const Message& message, Milliseconds timeout);
  void flush(Milliseconds timeout);
  // The members are others now: fails where the peer is none any more, connects again where
  // another member bears its name.
  void recheck();
  void close(Milliseconds timeout);
  // Ends without a goodbye.
  void break_off(const std::string& reason);
  ChannelState state() const;
  bool is_over() const;

  TimePoint tick(TimePoint now) override;

 private:
  class Owner;

  struct Connection {
    std::shared_ptr<Stream> stream;  // empty while the carrier is still making it
    std::string member;              // whom it was made to
    Pulse pulse;
    TimePoint answer_by;
    bool is_welcome = false;
    bool is_hello_due = true;
    bool is_heartbeat_due = false;
    bool is_goodbye_written = false;
  };
  // What is left to do once the lock is free.
  struct Todo {
    std::shared_ptr<Stream> wake;
    std::shared_ptr<Stream> abort;
    std::string reason;
    void run() const;
  };

  NextFrame next_frame(std::uint64_t connection);
  void on_frame(std::uint64_t connection, const InFrame& frame);
  void on_end(std::uint64_t connection, const std::string& reason);

  void on_head(const Welcome& welcome, Todo& todo);
  void on_head(const Refusal& refusal, Todo& todo);
  void on_head(const Ack& ack, Todo& todo);
  void on_head(const Goodbye& goodbye, Todo& todo);

  void connect();
  Hello hello() const;
  TimePoint tick_connection(TimePoint now, bool is_alive, Todo& todo);
  // Gives up the connection and plans the next attempt.
  void drop(const std::string& reason, Todo& todo);
  void fail(const std::exception_ptr& error, Todo& todo);
  void wait_until_taken(std::unique_lock<std::mutex>& lock, TimePoint deadline);

  const std::shared_ptr<SessionContext> context_;
  Carrier& carrier_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  ChannelStatus status_;
  Outbox outbox_;
  Backoff backoff_;
  std::optional<Connection> connection_;
  std::uint64_t generation_ = 0;  // number of the connection; calls of older ones are ignored
  TimePoint next_attempt_;
  std::optional<TimePoint> refused_since_;
  std::uint64_t messages_ = 0;
  bool is_closing_ = false;
  bool is_broken_off_ = false;  // by whoever had it, who does not care any more
};

}  // namespace ravnest::transport
