#pragma once

#include <control.grpc.pb.h>

#include <memory>
#include <thread>

#include "ravnest/relay/pipe.h"

namespace ravnest::control {

// A member's end of a pipe through the server. A thread of its own brings what comes.
class PipeCall final : public relay::Pipe {
 public:
  // `first` says what the pipe is.
  PipeCall(Relay::Stub& stub, const PipePart& first, relay::PipeEvents events);
  // Closes it, and waits for its thread.
  ~PipeCall() override;

  bool write(std::span<const std::byte> bytes) override;
  void close() override;

 private:
  ::grpc::ClientContext context_;
  std::unique_ptr<::grpc::ClientReaderWriterInterface<PipePart, PipePart>> stream_;
  relay::PipeEvents events_;
  std::jthread thread_;
};

}  // namespace ravnest::control
