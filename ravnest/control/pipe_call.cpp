#include "ravnest/control/pipe_call.h"

#include <utility>

#include "ravnest/base/error.h"

namespace ravnest::control {

PipeCall::PipeCall(Relay::Stub& stub, const PipePart& first, relay::PipeEvents events)
    : stream_(stub.Pipe(&context_)), events_(std::move(events)) {
  if (!stream_->Write(first)) {
    const ::grpc::Status status = stream_->Finish();
    throw Error(ErrorKind::kPeerLost,
                concat("[control] the relay cannot be reached: ", status.error_message()));
  }
  thread_ = std::jthread([this] {
    PipePart part;
    while (stream_->Read(&part)) {
      events_.on_bytes(std::as_bytes(std::span(part.payload())));
    }
    events_.on_end();
  });
}

PipeCall::~PipeCall() {
  close();
  if (thread_.joinable()) {
    thread_.join();
  }
}

bool PipeCall::write(std::span<const std::byte> bytes) {
  PipePart part;
  part.set_payload(bytes.data(), bytes.size());
  return stream_->Write(part);
}

void PipeCall::close() { context_.TryCancel(); }

}  // namespace ravnest::control
