#include "ravnest/transport/grpc/server_stream.h"

#include <utility>

#include "ravnest/transport/grpc/byte_buffers.h"
#include "ravnest/transport/grpc/credentials.h"

namespace ravnest::transport {

namespace {

// "ipv4:127.0.0.1:41234" → "127.0.0.1:41234"; who came by a local socket has no address.
std::string remote_of(const std::string& peer) {
  return peer.starts_with("unix:") ? "this machine" : peer.substr(peer.find(':') + 1);
}

std::string member_of(const ::grpc::GenericCallbackServerContext& context) {
  const auto authority = context.auth_context();
  const auto member = authority ? find_member(*authority) : std::nullopt;
  return member ? member->id : std::string();
}

}  // namespace

ServerStream::ServerStream(::grpc::GenericCallbackServerContext* context,
                           std::shared_ptr<StreamSet> set)
    : set_(std::move(set)),
      remote_(remote_of(context->peer())),
      member_(member_of(*context)),
      context_(context) {}

void ServerStream::start(std::shared_ptr<StreamOwner> owner) {
  const std::lock_guard lock(mutex_);
  owner_ = std::move(owner);
  baton_.pass();
  StartRead(&in_);
}

std::shared_ptr<StreamOwner> ServerStream::find_owner() {
  const std::lock_guard lock(mutex_);
  return is_finished_ ? nullptr : owner_;
}

void ServerStream::wake() {
  if (gate_.enter()) {
    pump();
  }
}

void ServerStream::pump() {
  const auto owner = find_owner();
  while (owner) {
    const NextFrame next = owner->next_frame();
    if (next.frame) {
      is_ending_ = next.end;
      out_ = to_byte_buffer(*next.frame);
      const std::lock_guard lock(mutex_);
      if (!is_finished_) {
        baton_.pass();
        StartWrite(&out_);
      }
      return;
    }
    if (gate_.leave()) {
      return;
    }
  }
}

void ServerStream::OnWriteDone(bool ok) {
  baton_.take();
  out_.Clear();  // whoever lent the bytes may want them back before the next frame
  if (!ok) {
    return;  // the read has failed too, or will
  }
  if (is_ending_) {
    finish(::grpc::Status::OK);
  } else {
    pump();
  }
}

void ServerStream::OnReadDone(bool ok) {
  baton_.take();
  if (!ok) {
    finish(::grpc::Status::CANCELLED);
    return;
  }
  try {
    if (const auto owner = find_owner()) {
      owner->on_frame(to_frame(in_));
    }
  } catch (const std::exception& error) {
    abort(error.what());
  }
  const std::lock_guard lock(mutex_);
  if (!is_finished_) {
    baton_.pass();
    StartRead(&in_);
  }
}

void ServerStream::finish(const ::grpc::Status& status) {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(is_finished_, true)) {
    baton_.pass();
    Finish(status);
  }
}

void ServerStream::abort(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (reason_.empty()) {
    reason_ = reason;
  }
  if (context_ != nullptr) {
    context_->TryCancel();
  }
}

void ServerStream::OnDone() {
  baton_.take();
  std::string reason;
  std::shared_ptr<StreamOwner> owner;
  {
    const std::lock_guard lock(mutex_);
    context_ = nullptr;
    owner = std::move(owner_);
    reason = reason_.empty() ? "its connection was closed" : reason_;
  }
  if (owner) {
    owner->on_end(reason);
  }
  set_->release(shared_from_this());
}

}  // namespace ravnest::transport
