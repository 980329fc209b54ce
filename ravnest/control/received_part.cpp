#include "ravnest/control/received_part.h"

#include <control.pb.h>
#include <google/protobuf/io/coded_stream.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <string>

#include "ravnest/base/error.h"

namespace ravnest::control {

namespace {

using google::protobuf::io::CodedInputStream;

constexpr std::uint32_t kWithLength = 2;  // protobuf's kind of field that bytes and messages are
constexpr std::uint32_t tag_of(int field) {
  return static_cast<std::uint32_t>(field) << 3 | kWithLength;
}

bool read_name(CodedInputStream& in, std::uint32_t length, ReceivedPart& part) {
  std::string text;
  FileName name;
  if (!in.ReadString(&text, static_cast<int>(length)) || !name.ParseFromString(text)) {
    return false;
  }
  part.file_size = name.size();
  return true;
}

bool find_payload(CodedInputStream& in, std::size_t length, ReceivedPart& part) {
  if (part.nbytes > 0) {
    return false;  // one is enough
  }
  part.nbytes = length;
  while (length > 0) {
    const void* data = nullptr;
    int size = 0;
    if (!in.GetDirectBufferPointer(&data, &size)) {
      return false;
    }
    const std::size_t count = std::min(length, static_cast<std::size_t>(size));
    part.payload.emplace_back(static_cast<const std::byte*>(data), count);
    in.Skip(static_cast<int>(count));
    length -= count;
  }
  return true;
}

bool read_fields(ReceivedPart& part) {
  ::grpc::ProtoBufferReader reader(part.buffer.get());
  CodedInputStream in(&reader);
  const std::size_t whole = part.buffer->Length();
  while (static_cast<std::size_t>(in.CurrentPosition()) < whole) {
    const std::uint32_t tag = in.ReadTag();
    std::uint32_t length = 0;
    if (!in.ReadVarint32(&length) || length > whole) {
      return false;
    }
    const bool is_read =
        (tag == tag_of(FilePart::kNameFieldNumber) && read_name(in, length, part)) ||
        (tag == tag_of(FilePart::kPayloadFieldNumber) && find_payload(in, length, part));
    if (!is_read) {
      return false;
    }
  }
  return true;
}

}  // namespace

ReceivedPart read_part(std::unique_ptr<::grpc::ByteBuffer> buffer) {
  ReceivedPart part{.buffer = std::move(buffer)};
  if (!part.buffer->Valid() || !read_fields(part)) {
    throw Error(ErrorKind::kPeerLost, "[control] expected a part of a file, got something else.");
  }
  return part;
}

}  // namespace ravnest::control
