// Reads the input as a part of a file, cut into slices as the network might (the first two bytes
// say where), as protobuf reads it; and as a part of a pipe.

#include <control.pb.h>
#include <grpcpp/support/slice.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ravnest/base/error.h"
#include "ravnest/control/received_part.h"
#include "tests/fuzz/finding.h"

namespace ravnest::control {
namespace {

void read_file_part(const std::string& bytes, std::size_t cut) {
  const std::size_t at = std::min(cut, bytes.size());
  const std::array<::grpc::Slice, 2> slices{::grpc::Slice(bytes.substr(0, at)),
                                            ::grpc::Slice(bytes.substr(at))};
  try {
    std::vector<ReceivedPart> parts;  // they are moved about
    parts.push_back(read_part(std::make_unique<::grpc::ByteBuffer>(slices.data(), slices.size())));
    parts.push_back({});
    const ReceivedPart& part = parts.front();
    std::string payload;
    for (const auto& piece : part.payload) {
      payload.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    }
    FilePart same;
    require(same.ParseFromString(bytes) && same.payload() == payload);
    require(payload.size() == part.nbytes);
  } catch (const Error&) {
  }
}

}  // namespace
}  // namespace ravnest::control

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) {
    return 0;
  }
  const std::string bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  ravnest::control::read_file_part(bytes, data[0] + 256U * data[1]);
  ravnest::control::PipePart part;
  static_cast<void>(part.ParseFromString(bytes));
  return 0;
}
