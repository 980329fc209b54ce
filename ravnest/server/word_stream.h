#pragma once

#include <control.grpc.pb.h>

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "ravnest/server/caller.h"
#include "ravnest/server/desk.h"
#include "ravnest/server/turnstile.h"

namespace ravnest::server {

// The server's end of a stream of words. A word comes when the one before was handled, is read on a
// thread of gRPC's, and handled on the desk's.
class WordStream : public ::grpc::ServerBidiReactor<control::Word, control::Word>,
                   public Listener,
                   public std::enable_shared_from_this<WordStream> {
 public:
  WordStream(Desk& desk, Verdict verdict);

  // gRPC's reactor; it keeps itself until gRPC is done with it, and has a pass for as long.
  static WordStream* start(const std::shared_ptr<WordStream>& stream, Turnstile& turnstile,
                           ::grpc::CallbackServerContext& context);

  void say(std::string text) final;
  void end(const std::string& reason) final;
  void refuse(const std::string& reason) final;

  void OnReadDone(bool ok) final;
  void OnWriteDone(bool ok) final;
  void OnDone() final;

 protected:
  Desk& desk() { return desk_; }
  const Caller& caller() const { return caller_; }
  void finish(::grpc::Status status);
  // Reads the next word; a handler that needs time for one calls this itself.
  void read_next();

  // What is to be done about a word, on the desk's thread. True: done, the next may come. What
  // either throws of std::invalid_argument ends the stream.
  using Handling = std::function<bool()>;
  // Nothing is done meanwhile, so that it may look at what the desk's thread has left.
  virtual Handling read(const std::string& text) = 0;
  virtual void on_closed() = 0;

 private:
  void do_at_desk(const Handling& handling);
  void pump();  // holds the lock

  Desk& desk_;
  Caller caller_;
  ::grpc::Status refusal_;
  ::grpc::CallbackServerContext* context_ = nullptr;  // until it is finished
  std::shared_ptr<WordStream> self_;
  std::unique_ptr<Turnstile::Pass> pass_;
  control::Word in_;
  control::Word out_;

  std::mutex mutex_;  // guards what follows
  std::deque<std::string> queue_;
  std::optional<::grpc::Status> end_;  // wanted after the queue
  bool is_writing_ = false;
  bool is_finished_ = false;
};

}  // namespace ravnest::server
