#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace ravnest::control {

// A FilePart of proto/control.proto as it came: its payload is where gRPC has put it, and copied
// nowhere.
struct ReceivedPart {
  std::unique_ptr<::grpc::ByteBuffer> buffer;  // keeps the payload; a copy would not keep all of it
  std::vector<std::span<const std::byte>> payload;
  std::size_t nbytes = 0;       // of the payload
  std::uint64_t file_size = 0;  // as it says
};

// Throws Error(kPeerLost) for what is no FilePart.
ReceivedPart read_part(std::unique_ptr<::grpc::ByteBuffer> buffer);

}  // namespace ravnest::control
