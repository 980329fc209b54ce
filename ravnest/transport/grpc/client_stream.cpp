#include "ravnest/transport/grpc/client_stream.h"

#include <utility>

#include "ravnest/transport/grpc/byte_buffers.h"

namespace ravnest::transport {

namespace {

std::string text_of(const ::grpc::Status& status) {
  switch (status.error_code()) {
    case ::grpc::StatusCode::OK:
      return "its connection was closed";
    case ::grpc::StatusCode::UNAVAILABLE:
      return "its connection was closed or cannot be made";
    case ::grpc::StatusCode::UNIMPLEMENTED:
      return "another program listens there";
    default:
      return "its connection ended: " + status.error_message();
  }
}

}  // namespace

ClientStream::ClientStream(const std::shared_ptr<::grpc::Channel>& channel, std::string address,
                           std::shared_ptr<StreamOwner> owner, std::shared_ptr<StreamSet> set)
    : address_(std::move(address)),
      set_(std::move(set)),
      owner_(std::move(owner)),
      stub_(channel) {}

void ClientStream::start() {
  stub_.PrepareBidiStreamingCall(&context_, kCarryMethod, {}, this);
  StartRead(&in_);
  AddHold();
  baton_.pass();
  StartCall();
}

bool ClientStream::hold() {
  const std::lock_guard lock(mutex_);
  if (is_over_) {
    return false;
  }
  AddHold();
  return true;
}

void ClientStream::wake() {
  if (!hold()) {
    return;
  }
  if (gate_.enter()) {
    pump();
  }
  baton_.pass();
  RemoveHold();
}

void ClientStream::pump() {
  while (true) {
    const NextFrame next = owner_->next_frame();
    if (next.frame) {
      is_ending_ = next.end;
      out_ = to_byte_buffer(*next.frame);
      baton_.pass();
      StartWrite(&out_);
      return;
    }
    if (gate_.leave()) {
      return;
    }
  }
}

void ClientStream::OnWriteDone(bool ok) {
  baton_.take();
  out_.Clear();  // whoever lent the bytes may want them back before the next frame
  if (!ok) {
    return;  // the read has failed too, or will
  }
  if (is_ending_) {
    StartWritesDone();
  } else {
    pump();
  }
}

void ClientStream::OnReadDone(bool ok) {
  baton_.take();
  if (!ok) {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    baton_.pass();
    RemoveHold();
    return;
  }
  try {
    owner_->on_frame(ReceivedFrame(in_).frame());
  } catch (const std::exception& error) {
    abort(error.what());
  }
  baton_.pass();
  StartRead(&in_);
}

void ClientStream::abort(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (reason_.empty()) {
      reason_ = reason;
    }
  }
  context_.TryCancel();
}

void ClientStream::OnDone(const ::grpc::Status& status) {
  baton_.take();
  std::string reason;
  {
    const std::lock_guard lock(mutex_);
    reason = reason_.empty() ? text_of(status) : reason_;
  }
  std::exchange(owner_, nullptr)->on_end(reason);
  set_->release(shared_from_this());
}

}  // namespace ravnest::transport
