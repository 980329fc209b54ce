#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <cstddef>
#include <memory>

#include "ravnest/base/bytes.h"
#include "ravnest/server/turnstile.h"

namespace ravnest::server {

// The answer to Files.Get: a file's bytes from where they are mapped, a part at a time, copied
// nowhere on our side of gRPC. Made with new; goes when gRPC is done with it. Either begin() or
// Finish() is called, once.
class Download final : public ::grpc::ServerWriteReactor<::grpc::ByteBuffer> {
 public:
  void begin(const Bytes& file, std::size_t offset, std::unique_ptr<Turnstile::Pass> pass);

  void OnWriteDone(bool ok) override;
  void OnDone() override { delete this; }

 private:
  void write_next();

  Bytes file_;
  std::size_t offset_ = 0;
  std::unique_ptr<Turnstile::Pass> pass_;
  ::grpc::ByteBuffer part_;  // being written
};

}  // namespace ravnest::server
