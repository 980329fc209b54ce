#include "ravnest/control/stream.h"

#include <utility>

#include "ravnest/base/error.h"
#include "ravnest/base/table.h"

namespace ravnest::control {

void throw_status(const ::grpc::Status& status, const std::string& server) {
  const std::string words = printable(status.error_message().substr(0, 1024));
  switch (status.error_code()) {
    case ::grpc::StatusCode::DEADLINE_EXCEEDED:
      throw Error(ErrorKind::kTimeout,
                  concat("[control] the server at ", server, " did not answer in time."));
    case ::grpc::StatusCode::OK:
    case ::grpc::StatusCode::UNAVAILABLE:
    case ::grpc::StatusCode::CANCELLED:
    case ::grpc::StatusCode::INTERNAL:
    case ::grpc::StatusCode::UNKNOWN:
    case ::grpc::StatusCode::RESOURCE_EXHAUSTED:
      throw Error(ErrorKind::kPeerLost,
                  concat("[control] the server at ", server, " cannot be reached: ", words));
    case ::grpc::StatusCode::ABORTED:
      throw Error(ErrorKind::kPeerLost,
                  concat("[control] the server at ", server, " ended the session: ", words));
    default:
      throw_invalid("[control] the server at ", server, " refused: ", words);
  }
}

void StreamCall::start(const Begin& begin) {
  context_.set_wait_for_ready(false);
  begin(&context_, this);
  StartRead(&in_);
  AddHold();  // for say()
  StartCall();
}

void StreamCall::say(std::string text) {
  const std::lock_guard lock(mutex_);
  if (is_done_) {
    return;
  }
  queue_.push_back(std::move(text));
  if (!is_writing_) {
    is_writing_ = true;
    out_.set_text(std::move(queue_.front()));
    queue_.pop_front();
    StartWrite(&out_);
  }
}

void StreamCall::OnWriteDone(bool ok) {
  const std::lock_guard lock(mutex_);
  is_writing_ = false;
  if (!ok || queue_.empty()) {
    return;  // the read has failed too, or will
  }
  is_writing_ = true;
  out_.set_text(std::move(queue_.front()));
  queue_.pop_front();
  StartWrite(&out_);
}

void StreamCall::OnReadDone(bool ok) {
  if (ok) {
    events_.on_word(std::move(*in_.mutable_text()));
    StartRead(&in_);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(is_done_, true)) {
      return;
    }
  }
  RemoveHold();
}

void StreamCall::OnDone(const ::grpc::Status& status) {
  std::exception_ptr error;
  if (!status.ok()) {
    try {
      throw_status(status, server_);
    } catch (...) {
      error = std::current_exception();
    }
  }
  events_.on_end(error);
  const std::lock_guard lock(mutex_);
  events_ = {};
  changed_.notify_all();
}

void StreamCall::end() {
  context_.TryCancel();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return events_.on_end == nullptr; });
}

}  // namespace ravnest::control
