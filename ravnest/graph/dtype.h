#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ravnest::graph {

// Element types, numbered as in the .pt2 schema.
enum class DType : std::uint8_t {
  kUnknown = 0,
  kUInt8 = 1,
  kInt8 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kComplex32 = 9,
  kComplex64 = 10,
  kComplex128 = 11,
  kBool = 12,
  kBFloat16 = 13,
  kUInt16 = 28,
};

// Numbered as in the .pt2 schema.
enum class MemoryFormat : std::uint8_t {
  kContiguous = 1,
  kChannelsLast = 2,
  kChannelsLast3d = 3,
  kPreserve = 4,
};

// "f32", "i64", …; "unknown" for kUnknown.
std::string_view name_of(DType dtype);
// As PyTorch's users know it: "float32", "int64", ….
std::string_view long_name_of(DType dtype);
std::optional<DType> find_dtype(std::string_view name);
// The dtype with this number in a .pt2 file, if it is one we compute with.
std::optional<DType> find_dtype(std::int64_t pt2_code);

// Bytes of one element; 0 for kUnknown.
std::size_t element_size(DType dtype);
bool is_floating(DType dtype);

std::string_view name_of(MemoryFormat format);
std::optional<MemoryFormat> find_memory_format(std::string_view name);
std::optional<MemoryFormat> find_memory_format(std::int64_t pt2_code);

}  // namespace ravnest::graph
