#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "ravnest/transport/carrier.h"
#include "ravnest/transport/session/assembler.h"
#include "ravnest/transport/session/channel_status.h"
#include "ravnest/transport/session/pulse.h"

namespace ravnest::transport {

// The receiving end of one channel over all its connections: welcomes the sender, assembles and
// delivers messages, acknowledges what was taken, notices silence. Called by the carrier's threads,
// by the loop and by whoever gives credit back.
class ReceiverSession : public Ticking, public std::enable_shared_from_this<ReceiverSession> {
 public:
  ReceiverSession(std::shared_ptr<SessionContext> context, const Peer& peer,
                  const std::string& channel, Handler handler);

  // A stream whose hello names this channel. Either takes it, and sets the number by which its
  // calls are known, or says why not.
  std::optional<Refusal> attach(const std::shared_ptr<Stream>& stream, const Hello& hello,
                                std::uint64_t& connection);
  NextFrame next_frame(std::uint64_t connection);
  void on_frame(std::uint64_t connection, const InFrame& frame);
  void on_end(std::uint64_t connection, const std::string& reason);

  // The members are others now: cuts off who may not stay.
  void recheck();
  const Peer& peer() const { return status_.peer(); }

  void close(Milliseconds timeout);
  // Ends without a goodbye; the handler is not called again.
  void break_off(const std::string& reason);
  ChannelState state() const;
  bool is_over() const;

  TimePoint tick(TimePoint now) override;

 private:
  struct Connection {
    std::shared_ptr<Stream> stream;
    Pulse pulse;
    bool is_welcome_due = true;
    bool is_ack_due = false;
    bool is_over = false;  // nothing follows the last word
    std::optional<FrameHead> last_word;
  };
  // A message that was delivered and not yet taken, in the order of sequence numbers.
  struct Pending {
    std::size_t nbytes = 0;
    bool is_released = false;
  };

  std::optional<Refusal> find_objection(const Stream& stream, const Hello& hello) const;
  void on_begin(const Begin& begin, const InFrame& frame);
  void on_piece(const Piece& piece, const InFrame& frame);
  void on_heartbeat(const Heartbeat& heartbeat);
  void on_goodbye();
  void check_window(const Begin& begin) const;
  void deliver();
  void release(std::uint64_t incarnation, std::uint64_t sequence);

  // Gives up this connection, if it still is the current one, and returns its stream.
  std::shared_ptr<Stream> drop(std::uint64_t connection, const std::string& reason);
  void fail_if_overdue(TimePoint now);
  // With `delivering_` held.
  void fail(const std::exception_ptr& error);
  void call_end(const std::exception_ptr& error);
  bool is_current(std::uint64_t connection) const;

  const std::shared_ptr<SessionContext> context_;
  const Handler handler_;

  // Held while a frame is worked on and the handler runs; taken before `mutex_`.
  std::mutex delivering_;
  Assembler assembler_;
  bool is_ended_ = false;  // the handler has been told, or is not to be called any more

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  ChannelStatus status_;
  std::optional<Connection> connection_;
  std::uint64_t generation_ = 0;   // number of the connection; calls of older ones are ignored
  std::uint64_t incarnation_ = 0;  // counts the sender's instances
  std::uint64_t sender_instance_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t taken_ = 0;
  std::deque<Pending> pending_;
  std::size_t pending_bytes_ = 0;
  std::uint64_t messages_ = 0;
  std::uint64_t duplicates_ = 0;
};

}  // namespace ravnest::transport
