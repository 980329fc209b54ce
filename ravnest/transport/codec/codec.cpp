#include "ravnest/transport/codec/codec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <optional>

#include "ravnest/base/error.h"
#include "ravnest/transport/codec/numbers.h"
#include "ravnest/transport/codec/zstd.h"
#include "ravnest/transport/session/buffer.h"

namespace ravnest::transport {

namespace {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

struct NumbersRow {
  Numbers numbers;
  std::string_view name;
};

constexpr std::array kNumbers{
    NumbersRow{Numbers::kUnchanged, "none"},
    NumbersRow{Numbers::kFloat16, "fp16"},
    NumbersRow{Numbers::kBFloat16, "bf16"},
    NumbersRow{Numbers::kInt8Rows, "int8"},
};

template <typename Value>
std::span<const Value> as_values(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const Value*>(bytes.data()), bytes.size() / sizeof(Value)};
}

template <typename Value>
Value* as_values(std::byte* bytes) {
  return reinterpret_cast<Value*>(bytes);
}

// The same bytes where floats may be read; a part of a mapped file may begin anywhere.
Bytes aligned(const Bytes& bytes) {
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(float) == 0;
  return is_aligned ? bytes : Bytes::copy_of(bytes.view());
}

// The values of a tensor under kInt8Rows: rows, each cut into runs of up to kLongestRow.
struct Rows {
  std::size_t length = 1;  // of a row
  std::size_t count = 0;

  std::size_t runs() const { return count * ((length + kLongestRow - 1) / kLongestRow); }
  // Calls `each(number of the run, its first value, its size)` while that gives true.
  template <typename Each>
  bool all_runs(const Each& each) const {
    std::size_t run = 0;
    for (std::size_t first = 0; first < count * length;) {
      const std::size_t size = std::min(kLongestRow, length - first % length);
      if (!each(run++, first, size)) {
        return false;
      }
      first += size;
    }
    return true;
  }
};

// The tensor has at least one value.
Rows rows_of(std::size_t values, std::span<const std::int64_t> shape) {
  const std::size_t length = shape.empty() ? 1 : static_cast<std::size_t>(shape.back());
  return {.length = length, .count = values / length};
}

bool encode_rows(std::span<const float> values, const Rows& rows, std::byte* out) {
  auto* scales = as_values<float>(out);
  auto* bytes = as_values<std::int8_t>(out + rows.runs() * sizeof(float));
  return rows.all_runs([&](std::size_t run, std::size_t first, std::size_t size) {
    return to_int8(values.subspan(first, size), scales + run, bytes + first);
  });
}

void decode_rows(std::span<const std::byte> coded, const Rows& rows, float* values) {
  const auto scales = as_values<float>(coded.first(rows.runs() * sizeof(float)));
  const auto bytes = as_values<std::int8_t>(coded.subspan(scales.size_bytes()));
  rows.all_runs([&](std::size_t run, std::size_t first, std::size_t size) {
    if (!std::isfinite(scales[run])) {
      throw_invalid("[transport] expected a finite scale for every row, got ", scales[run], ".");
    }
    from_int8(bytes.subspan(first, size), scales[run], values + first);
    return true;
  });
}

std::size_t coded_bytes(Numbers numbers, std::size_t nbytes, std::span<const std::int64_t> shape) {
  switch (numbers) {
    case Numbers::kFloat16:
    case Numbers::kBFloat16:
      return nbytes / 2;
    case Numbers::kInt8Rows:
      return nbytes == 0 ? 0
                         : rows_of(nbytes / sizeof(float), shape).runs() * sizeof(float) +
                               nbytes / sizeof(float);
    case Numbers::kUnchanged:
      break;
  }
  return nbytes;
}

// Empty where the numbers cannot carry the values, or gain nothing.
std::optional<Bytes> narrow(const Tensor& tensor, Numbers numbers) {
  const std::size_t nbytes = tensor.bytes.size();
  const std::size_t coded = coded_bytes(numbers, nbytes, tensor.shape);
  if (tensor.dtype != graph::DType::kFloat32 || coded >= nbytes) {
    return std::nullopt;
  }
  const Bytes source = aligned(tensor.bytes);
  const auto values = as_values<float>(source.view());
  Buffer out(coded);
  const bool is_done = numbers == Numbers::kFloat16
                           ? to_float16(values, as_values<std::uint16_t>(out.data()))
                       : numbers == Numbers::kBFloat16
                           ? to_bfloat16(values, as_values<std::uint16_t>(out.data()))
                           : encode_rows(values, rows_of(values.size(), tensor.shape), out.data());
  return is_done ? std::optional(out.take()) : std::nullopt;
}

Bytes widen(std::span<const std::byte> coded, Numbers numbers, std::span<const std::int64_t> shape,
            std::size_t nbytes) {
  Buffer out(nbytes);
  auto* values = as_values<float>(out.data());
  if (numbers == Numbers::kFloat16) {
    from_float16(as_values<std::uint16_t>(coded), values);
  } else if (numbers == Numbers::kBFloat16) {
    from_bfloat16(as_values<std::uint16_t>(coded), values);
  } else if (nbytes > 0) {
    decode_rows(coded, rows_of(nbytes / sizeof(float), shape), values);
  }
  return out.take();
}

}  // namespace

std::string name_of(const Codec& codec) {
  for (const NumbersRow& row : kNumbers) {
    if (row.numbers == codec.numbers && codec.numbers != Numbers::kUnchanged) {
      return std::string(row.name) + (codec.zstd ? "+zstd" : "");
    }
  }
  return codec.zstd ? "zstd" : "none";
}

Codec parse_codec(std::string_view name) {
  for (const NumbersRow& row : kNumbers) {
    for (const bool zstd : {false, true}) {
      const Codec codec{.numbers = row.numbers, .zstd = zstd};
      if (name == name_of(codec)) {
        return codec;
      }
    }
  }
  throw_invalid(
      "[transport] expected a codec (none, fp16, bf16, int8, zstd, or one of the first "
      "with +zstd), got '",
      name, "'.");
}

Encoded encode(const Tensor& tensor, const Codec& codec) {
  Encoded encoded{.codec = {}, .bytes = tensor.bytes};
  if (codec.numbers != Numbers::kUnchanged) {
    if (auto narrowed = narrow(tensor, codec.numbers)) {
      encoded = {.codec = {.numbers = codec.numbers}, .bytes = std::move(*narrowed)};
    }
  }
  if (codec.zstd) {
    if (auto compressed = compress(encoded.bytes.view())) {
      encoded.codec.zstd = true;
      encoded.bytes = std::move(*compressed);
    }
  }
  return encoded;
}

std::size_t checked_coded_bytes(Numbers numbers, std::int64_t dtype_code,
                                std::span<const std::int64_t> shape, const Limits& limits) {
  const std::size_t nbytes = checked_tensor_bytes(dtype_code, shape, limits);
  if (numbers != Numbers::kUnchanged &&
      dtype_code != static_cast<std::int64_t>(graph::DType::kFloat32)) {
    throw_invalid("[transport] expected ", name_of({.numbers = numbers}),
                  " numbers for float32 alone, got dtype number ", dtype_code, ".");
  }
  return coded_bytes(numbers, nbytes, shape);
}

Bytes decode(const Bytes& bytes, const Codec& codec, std::int64_t dtype_code,
             std::span<const std::int64_t> shape, const Limits& limits) {
  const std::size_t coded_size = checked_coded_bytes(codec.numbers, dtype_code, shape, limits);
  Bytes coded = codec.zstd ? decompress(bytes.view(), coded_size).take() : bytes;
  if (coded.size() != coded_size) {
    throw_invalid("[transport] expected ", coded_size, " bytes for the tensor's shape and codec, ",
                  "got ", coded.size(), ".");
  }
  if (codec.numbers == Numbers::kUnchanged) {
    return coded;
  }
  return widen(aligned(coded).view(), codec.numbers, shape,
               checked_tensor_bytes(dtype_code, shape, limits));
}

}  // namespace ravnest::transport
