#include "ravnest/graph/dtype.h"

#include <algorithm>
#include <array>

namespace ravnest::graph {

namespace {

struct DTypeRow {
  DType dtype;
  std::string_view name;
  std::string_view long_name;
  std::size_t size;
  bool floating;
};

constexpr std::array kDTypes{
    DTypeRow{DType::kUnknown, "unknown", "unknown", 0, false},
    DTypeRow{DType::kUInt8, "u8", "uint8", 1, false},
    DTypeRow{DType::kInt8, "i8", "int8", 1, false},
    DTypeRow{DType::kInt16, "i16", "int16", 2, false},
    DTypeRow{DType::kInt32, "i32", "int32", 4, false},
    DTypeRow{DType::kInt64, "i64", "int64", 8, false},
    DTypeRow{DType::kFloat16, "f16", "float16", 2, true},
    DTypeRow{DType::kFloat32, "f32", "float32", 4, true},
    DTypeRow{DType::kFloat64, "f64", "float64", 8, true},
    DTypeRow{DType::kComplex32, "c32", "complex32", 4, true},
    DTypeRow{DType::kComplex64, "c64", "complex64", 8, true},
    DTypeRow{DType::kComplex128, "c128", "complex128", 16, true},
    DTypeRow{DType::kBool, "bool", "bool", 1, false},
    DTypeRow{DType::kBFloat16, "bf16", "bfloat16", 2, true},
    DTypeRow{DType::kUInt16, "u16", "uint16", 2, false},
};

struct MemoryFormatRow {
  MemoryFormat format;
  std::string_view name;
};

constexpr std::array kMemoryFormats{
    MemoryFormatRow{MemoryFormat::kContiguous, "contiguous"},
    MemoryFormatRow{MemoryFormat::kChannelsLast, "channels_last"},
    MemoryFormatRow{MemoryFormat::kChannelsLast3d, "channels_last_3d"},
    MemoryFormatRow{MemoryFormat::kPreserve, "preserve"},
};

const DTypeRow& row(DType dtype) { return *std::ranges::find(kDTypes, dtype, &DTypeRow::dtype); }

}  // namespace

std::string_view name_of(DType dtype) { return row(dtype).name; }

std::string_view long_name_of(DType dtype) { return row(dtype).long_name; }

std::optional<DType> find_dtype(std::string_view name) {
  const auto* found = std::ranges::find(kDTypes, name, &DTypeRow::name);
  return found == kDTypes.end() ? std::nullopt : std::optional(found->dtype);
}

std::optional<DType> find_dtype(std::int64_t pt2_code) {
  const auto* found = std::ranges::find_if(kDTypes, [pt2_code](const DTypeRow& candidate) {
    return static_cast<std::int64_t>(candidate.dtype) == pt2_code && pt2_code != 0;
  });
  return found == kDTypes.end() ? std::nullopt : std::optional(found->dtype);
}

std::size_t element_size(DType dtype) { return row(dtype).size; }

bool is_floating(DType dtype) { return row(dtype).floating; }

std::string_view name_of(MemoryFormat format) {
  return std::ranges::find(kMemoryFormats, format, &MemoryFormatRow::format)->name;
}

std::optional<MemoryFormat> find_memory_format(std::string_view name) {
  const auto* found = std::ranges::find(kMemoryFormats, name, &MemoryFormatRow::name);
  return found == kMemoryFormats.end() ? std::nullopt : std::optional(found->format);
}

std::optional<MemoryFormat> find_memory_format(std::int64_t pt2_code) {
  const auto* found =
      std::ranges::find_if(kMemoryFormats, [pt2_code](const MemoryFormatRow& candidate) {
        return static_cast<std::int64_t>(candidate.format) == pt2_code;
      });
  return found == kMemoryFormats.end() ? std::nullopt : std::optional(found->format);
}

}  // namespace ravnest::graph
