#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ravnest/base/bytes.h"
#include "ravnest/transport/tensor.h"

namespace ravnest::transport {

// How float32 values are written down. Numbered as on the wire.
enum class Numbers : std::uint8_t {
  kUnchanged = 0,
  kFloat16 = 1,   // rounded to nearest, ties to even
  kBFloat16 = 2,  // the same
  // For every row (the last dimension, in runs of up to kLongestRow) a float32 scale, then for
  // every value one byte: value ≈ scale · byte, with scale = the run's largest magnitude / 127.
  kInt8Rows = 3,
};
// Values that share a scale: more would lose what is small beside the largest of them.
inline constexpr std::size_t kLongestRow = 1024;

// How a tensor travels. Tensors that are not float32 pass unchanged, but for zstd.
struct Codec {
  Numbers numbers = Numbers::kUnchanged;
  bool zstd = false;

  bool operator==(const Codec&) const = default;
};

// "none", "fp16", "bf16", "int8", "zstd", "fp16+zstd", …
std::string name_of(const Codec& codec);
// Throws std::invalid_argument that names the known ones.
Codec parse_codec(std::string_view name);

struct Encoded {
  Codec codec;  // what was really done
  Bytes bytes;
};

// Pure; both may run on any thread.
//
// What a codec cannot carry is sent without it, and `codec` says so: values that are not finite
// under kInt8Rows, a finite value that the narrower type would make infinite, and zstd where it
// would not make the bytes fewer. An unchanged tensor shares its bytes, nothing is copied.
Encoded encode(const Tensor& tensor, const Codec& codec);

// The bytes of a tensor that was encoded so. Memory grows with what is really there: for zstd with
// what comes out of it, never with a claim. Throws std::invalid_argument when the bytes do not give
// exactly a tensor of this dtype and shape, or the codec does not go with the dtype.
Bytes decode(const Bytes& bytes, const Codec& codec, std::int64_t dtype_code,
             std::span<const std::int64_t> shape, const Limits& limits);

// The bytes that the codec's numbers take for a tensor, before zstd. Throws std::invalid_argument
// as checked_tensor_bytes does, and for numbers that do not go with the dtype.
std::size_t checked_coded_bytes(Numbers numbers, std::int64_t dtype_code,
                                std::span<const std::int64_t> shape, const Limits& limits);

}  // namespace ravnest::transport
