#include "ravnest/server/download.h"

#include <control.pb.h>
#include <google/protobuf/io/coded_stream.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "ravnest/transport/grpc/byte_buffers.h"

namespace ravnest::server {

namespace {

constexpr std::size_t kPartBytes = std::size_t{1} << 20;

// A FilePart as protobuf would write it, with the payload where it is.
::grpc::ByteBuffer make_part(const Bytes& payload, std::size_t file_size) {
  using google::protobuf::io::CodedOutputStream;
  control::FilePart head;
  head.mutable_name()->set_size(file_size);
  std::string text = head.SerializeAsString();
  std::array<std::uint8_t, 16> length{};
  length[0] = control::FilePart::kPayloadFieldNumber << 3 | 2;
  const std::uint8_t* end = CodedOutputStream::WriteVarint32ToArray(
      static_cast<std::uint32_t>(payload.size()), length.data() + 1);
  text.append(length.begin(), length.begin() + (end - length.data()));
  const std::array<::grpc::Slice, 2> slices{::grpc::Slice(text),
                                            transport::KeptBytes::make_slice(payload)};
  return {slices.data(), slices.size()};
}

}  // namespace

void Download::begin(const Bytes& file, std::size_t offset, std::unique_ptr<Turnstile::Pass> pass) {
  file_ = file;
  offset_ = offset;
  pass_ = std::move(pass);
  write_next();
}

void Download::write_next() {
  if (offset_ == file_.size()) {
    Finish(::grpc::Status::OK);
    return;
  }
  const std::size_t count = std::min(kPartBytes, file_.size() - offset_);
  part_ = make_part(file_.slice(offset_, count), file_.size());
  offset_ += count;
  StartWrite(&part_);
}

void Download::OnWriteDone(bool ok) {
  if (ok) {
    write_next();
  } else {
    Finish(::grpc::Status::CANCELLED);
  }
}

}  // namespace ravnest::server
