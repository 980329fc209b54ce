#pragma once

#include <control.grpc.pb.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "ravnest/control/client.h"

namespace ravnest::control {

// One bidirectional call. It lives until gRPC says that it is done.
class StreamCall final : public ::grpc::ClientBidiReactor<Word, Word> {
 public:
  StreamCall(std::string server, StreamEvents events)
      : server_(std::move(server)), events_(std::move(events)) {}

  using Begin = std::function<void(::grpc::ClientContext*, StreamCall*)>;
  void start(const Begin& begin);
  void say(std::string text);
  // Breaks off, and waits until no event will be told any more.
  void end();

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const ::grpc::Status& status) override;

 private:
  const std::string server_;
  ::grpc::ClientContext context_;
  StreamEvents events_;
  Word in_;
  Word out_;  // being written

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::string> queue_;
  bool is_writing_ = false;
  bool is_done_ = false;
};

// Throws what a status means; see Client.
[[noreturn]] void throw_status(const ::grpc::Status& status, const std::string& server);

}  // namespace ravnest::control
