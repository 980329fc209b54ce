#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "ravnest/transport/frame.h"
#include "ravnest/transport/grpc/baton.h"
#include "ravnest/transport/grpc/frame_format.h"

namespace ravnest::transport {

// A part of a tensor that gRPC writes from: keeps the bytes alive until gRPC is done with them, on
// whatever thread that is.
class KeptBytes {
 public:
  static ::grpc::Slice make_slice(const Bytes& bytes) {
    // gRPC does not write through it, whatever its type says.
    return {const_cast<std::byte*>(bytes.data()), bytes.size(), &KeptBytes::destroy,
            new KeptBytes(bytes)};
  }

 private:
  explicit KeptBytes(const Bytes& bytes) : bytes_(bytes) { baton_.pass(); }

  static void destroy(void* self) {
    auto* kept = static_cast<KeptBytes*>(self);
    kept->baton_.take();
    delete kept;
  }

  Bytes bytes_;
  Baton baton_;
};

// A frame as gRPC wants it. Tensors are not copied.
inline ::grpc::ByteBuffer to_byte_buffer(const OutFrame& frame) {
  std::size_t nbytes = 0;
  for (const Bytes& part : frame.payload) {
    nbytes += part.size();
  }
  std::vector<::grpc::Slice> slices;
  slices.reserve(frame.payload.size() + 1);
  slices.emplace_back(write_head(frame.head, nbytes));
  for (const Bytes& part : frame.payload) {
    slices.push_back(KeptBytes::make_slice(part));
  }
  return {slices.data(), slices.size()};
}

// A frame that came; it owns its payload, which is not copied. Throws std::invalid_argument for
// what is not a frame.
inline InFrame to_frame(const ::grpc::ByteBuffer& buffer) {
  const auto slices = std::make_shared<std::vector<::grpc::Slice>>();
  if (!buffer.Dump(slices.get()).ok()) {
    throw std::invalid_argument("[transport] expected a frame, got a broken buffer.");
  }
  std::vector<std::span<const std::byte>> parts;
  parts.reserve(slices->size());
  for (const ::grpc::Slice& slice : *slices) {
    parts.push_back(std::as_bytes(std::span(slice.begin(), slice.size())));
  }
  InFrame frame = read_frame(parts);
  frame.owner = slices;
  return frame;
}

}  // namespace ravnest::transport
