#include "ravnest/transport/grpc/client_stream.h"

#include <optional>
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

bool has(const ::grpc::Status& status, const char* words) {
  return status.error_message().find(words) != std::string::npos;
}

// What the handshake found out about who answers, in words of ours; nothing where it is another
// matter. gRPC tells it in its status alone.
std::optional<std::string> find_impostor(const ::grpc::Status& status, const Peer& peer) {
  if (peer.member.empty() || status.error_code() != ::grpc::StatusCode::UNAVAILABLE) {
    return std::nullopt;
  }
  if (has(status, "is not in peer certificate")) {
    return "who answers there is not member " + peer.member;
  }
  if (has(status, "certificate verify failed") || has(status, "CERTIFICATE_VERIFY_FAILED")) {
    return "its certificate is not of our authority, or is not valid now";
  }
  if (has(status, "wrong version number") || has(status, "WRONG_VERSION_NUMBER")) {
    return "who answers there does not speak TLS";
  }
  return std::nullopt;
}

}  // namespace

ClientStream::ClientStream(const std::shared_ptr<::grpc::Channel>& channel, Peer peer,
                           std::shared_ptr<StreamOwner> owner, std::shared_ptr<StreamSet> set)
    : peer_(std::move(peer)), set_(std::move(set)), owner_(std::move(owner)), stub_(channel) {}

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
    owner_->on_frame(to_frame(in_));
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

// In the other side's place, which cannot be believed: whoever waits then gives up as soon as after
// any refusal.
void ClientStream::refuse(StreamOwner& owner, std::string text) {
  try {
    owner.on_frame({.head = Refusal{.text = std::move(text)}, .payload = {}});
  } catch (const std::exception& error) {
    abort(error.what());
  }
}

void ClientStream::OnDone(const ::grpc::Status& status) {
  baton_.take();
  const auto owner = std::exchange(owner_, nullptr);
  if (auto impostor = find_impostor(status, peer_)) {
    refuse(*owner, std::move(*impostor));
  }
  std::string reason;
  {
    const std::lock_guard lock(mutex_);
    reason = reason_.empty() ? text_of(status) : reason_;
  }
  owner->on_end(reason);
  set_->release(shared_from_this());
}

}  // namespace ravnest::transport
