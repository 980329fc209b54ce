#include "ravnest/server/word_stream.h"

#include <utility>

namespace ravnest::server {

namespace {

// Somebody who does not read what it is told is not waited for.
constexpr std::size_t kMostQueued = 4096;

}  // namespace

WordStream::WordStream(Desk& desk, Verdict verdict) : desk_(desk), refusal_(verdict.status) {
  if (verdict.caller) {
    caller_ = std::move(*verdict.caller);
  }
}

WordStream* WordStream::start(const std::shared_ptr<WordStream>& stream, Turnstile& turnstile,
                              ::grpc::CallbackServerContext& context) {
  stream->context_ = &context;
  stream->self_ = stream;
  if (!stream->refusal_.ok()) {
    stream->finish(stream->refusal_);
    return stream.get();
  }
  try {
    stream->pass_ = std::make_unique<Turnstile::Pass>(turnstile, stream->caller_.member.id);
    stream->read_next();
  } catch (const Error& error) {
    stream->finish({::grpc::StatusCode::RESOURCE_EXHAUSTED, error.what()});
  }
  return stream.get();
}

void WordStream::read_next() {
  const std::lock_guard lock(mutex_);
  if (!is_finished_) {
    StartRead(&in_);
  }
}

void WordStream::OnReadDone(bool ok) {
  Handling handling;
  try {
    handling = ok ? read(in_.text()) : nullptr;
  } catch (const std::invalid_argument& error) {
    finish({::grpc::StatusCode::INVALID_ARGUMENT, error.what()});
    return;
  }
  desk_.post(
      [self = shared_from_this(), handling = std::move(handling)] { self->do_at_desk(handling); },
      [self = shared_from_this()] { self->finish(server_ends()); });
}

void WordStream::do_at_desk(const Handling& handling) {
  if (!handling) {
    on_closed();
    finish(::grpc::Status::OK);
    return;
  }
  try {
    if (!is_member(desk_, caller_)) {
      finish(no_member());
    } else if (handling()) {
      read_next();
    }
  } catch (const std::invalid_argument& error) {
    finish({::grpc::StatusCode::INVALID_ARGUMENT, error.what()});
  }
}

void WordStream::say(std::string text) {
  const std::lock_guard lock(mutex_);
  if (is_finished_ || end_) {
    return;
  }
  if (queue_.size() >= kMostQueued) {
    queue_.clear();
    end_ = ::grpc::Status(::grpc::StatusCode::RESOURCE_EXHAUSTED, "It reads too slowly.");
    context_->TryCancel();  // the word that is being written would wait for it
  } else {
    queue_.push_back(std::move(text));
  }
  pump();
}

void WordStream::end(const std::string& reason) {
  finish(reason.empty() ? ::grpc::Status::OK : ::grpc::Status(::grpc::StatusCode::ABORTED, reason));
}

void WordStream::refuse(const std::string& reason) {
  finish({::grpc::StatusCode::FAILED_PRECONDITION, reason});
}

void WordStream::finish(::grpc::Status status) {
  const std::lock_guard lock(mutex_);
  if (!end_) {
    end_ = std::move(status);
  }
  pump();
}

void WordStream::pump() {
  if (is_writing_ || is_finished_) {
    return;
  }
  if (!queue_.empty()) {
    is_writing_ = true;
    out_.set_text(std::move(queue_.front()));
    queue_.pop_front();
    StartWrite(&out_);
  } else if (end_) {
    is_finished_ = true;
    Finish(*end_);
  }
}

void WordStream::OnWriteDone(bool ok) {
  const std::lock_guard lock(mutex_);
  is_writing_ = false;
  if (!ok) {
    queue_.clear();  // a read fails too, and ends it
    if (!end_) {
      end_ = ::grpc::Status::OK;
    }
  }
  pump();
}

void WordStream::OnDone() {
  pass_.reset();
  // Whatever ended it: the desk knows it closed, and our last word to ourselves is dropped.
  desk_.post([self = std::move(self_)] { self->on_closed(); });
}

}  // namespace ravnest::server
