#include "ravnest/package/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>

#include "ravnest/base/atomic_file.h"
#include "ravnest/base/error.h"
#include "ravnest/base/json_text.h"

namespace ravnest::package {

namespace {

using Json = nlohmann::ordered_json;
using graph::DType;

static_assert(std::endian::native == std::endian::little);

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kAlignment = 8;
constexpr std::uint64_t kMostHeaderBytes = 100'000'000;
constexpr std::size_t kMostRank = 64;
constexpr std::size_t kMostDepth = 8;
constexpr const char* kMetadata = "__metadata__";

struct Name {
  DType dtype;
  std::string_view name;
};
constexpr auto kNames = std::to_array<Name>({{DType::kFloat64, "F64"},
                                             {DType::kFloat32, "F32"},
                                             {DType::kFloat16, "F16"},
                                             {DType::kBFloat16, "BF16"},
                                             {DType::kInt64, "I64"},
                                             {DType::kInt32, "I32"},
                                             {DType::kInt16, "I16"},
                                             {DType::kInt8, "I8"},
                                             {DType::kUInt16, "U16"},
                                             {DType::kUInt8, "U8"},
                                             {DType::kBool, "BOOL"}});

// Bytes of a tensor; nothing for sizes that make no sense or do not fit.
std::optional<std::uint64_t> nbytes_of(DType dtype, const std::vector<std::int64_t>& sizes) {
  std::uint64_t total = graph::element_size(dtype);
  for (const std::int64_t size : sizes) {
    const auto count = static_cast<std::uint64_t>(size);
    if (size < 0 || (count != 0 && total > std::numeric_limits<std::uint64_t>::max() / count)) {
      return std::nullopt;
    }
    total *= count;
  }
  return total;
}

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path)
      : file_(path.string()), bytes_(Bytes::map_file(path)) {}

  StoredTensors read() {
    const Json header = parse_header();
    StoredTensors stored;
    for (const auto& [name, entry] : header.items()) {
      if (name == kMetadata) {
        stored.metadata = read_metadata(entry);
      } else {
        stored.tensors.emplace(name, read_tensor(name, entry));
      }
    }
    check_coverage();
    return stored;
  }

 private:
  template <typename... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    throw_invalid("[package] '", file_, "' is not a safetensors file as it should be: ", parts...,
                  ".");
  }

  Json parse_header() {
    std::uint64_t length = 0;
    if (bytes_.size() < kLengthBytes) {
      refuse("it has ", bytes_.size(), " bytes");
    }
    std::memcpy(&length, bytes_.data(), kLengthBytes);
    if (length > kMostHeaderBytes || length > bytes_.size() - kLengthBytes) {
      refuse("its header claims ", length, " of ", bytes_.size(), " bytes");
    }
    data_ = kLengthBytes + static_cast<std::size_t>(length);
    const auto* text = reinterpret_cast<const char*>(bytes_.data()) + kLengthBytes;
    if (is_deeper_than({text, static_cast<std::size_t>(length)}, kMostDepth)) {
      refuse("its header is nested too deeply");
    }
    Json header = Json::parse(text, text + length, nullptr, /*allow_exceptions=*/false);
    if (!header.is_object()) {
      refuse("its header is not a JSON object");
    }
    return header;
  }

  std::map<std::string, std::string> read_metadata(const Json& entry) const {
    std::map<std::string, std::string> metadata;
    if (!entry.is_object()) {
      refuse("its metadata are not an object");
    }
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) {
        refuse("its metadata '", key, "' is not a text");
      }
      metadata.emplace(key, value.get<std::string>());
    }
    return metadata;
  }

  StoredTensor read_tensor(const std::string& name, const Json& entry) {
    StoredTensor tensor;
    const bool is_whole = entry.is_object() && entry.contains("dtype") &&
                          entry["dtype"].is_string() && entry.contains("shape") &&
                          entry.contains("data_offsets");
    if (!is_whole) {
      refuse("tensor '", name, "' lacks dtype, shape or data_offsets");
    }
    const auto known = std::ranges::find(kNames, entry["dtype"].get<std::string>(), &Name::name);
    if (known == kNames.end()) {
      refuse("tensor '", name, "' has the dtype ", entry["dtype"].dump());
    }
    tensor.dtype = known->dtype;
    tensor.sizes = read_numbers(name, entry["shape"]);
    const std::vector<std::int64_t> offsets = read_numbers(name, entry["data_offsets"]);
    const auto expected = nbytes_of(tensor.dtype, tensor.sizes);
    const auto room = static_cast<std::int64_t>(bytes_.size() - data_);
    if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > room || !expected ||
        *expected != static_cast<std::uint64_t>(offsets[1] - offsets[0])) {
      refuse("tensor '", name, "' has data that do not fit its shape or the file");
    }
    ranges_.emplace_back(offsets[0], offsets[1]);
    tensor.data = bytes_.slice(data_ + static_cast<std::size_t>(offsets[0]),
                               static_cast<std::size_t>(offsets[1] - offsets[0]));
    return tensor;
  }

  std::vector<std::int64_t> read_numbers(const std::string& name, const Json& list) const {
    std::vector<std::int64_t> numbers;
    if (!list.is_array() || list.size() > kMostRank) {
      refuse("tensor '", name, "' has a shape or offsets that are no short list");
    }
    for (const Json& item : list) {
      if (!item.is_number_unsigned() ||
          item.get<std::uint64_t>() >
              static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        refuse("tensor '", name, "' has a shape or offsets with ", item.dump());
      }
      numbers.push_back(item.get<std::int64_t>());
    }
    return numbers;
  }

  void check_coverage() {
    std::ranges::sort(ranges_);
    std::int64_t at = 0;
    for (const auto& [begin, end] : ranges_) {
      if (begin != at) {
        refuse("its data have a gap or overlap at byte ", at);
      }
      at = end;
    }
    if (static_cast<std::size_t>(at) != bytes_.size() - data_) {
      refuse("its data end at byte ", at, " of ", bytes_.size() - data_);
    }
  }

  std::string file_;
  Bytes bytes_;
  std::size_t data_ = 0;  // where the tensors begin
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges_;
};

std::string header_of(const StoredTensors& stored,
                      const std::vector<const std::pair<const std::string, StoredTensor>*>& order) {
  Json header = Json::object();
  if (!stored.metadata.empty()) {
    header[kMetadata] = stored.metadata;
  }
  std::uint64_t at = 0;
  for (const auto* entry : order) {
    const auto& [name, tensor] = *entry;
    const auto known = std::ranges::find(kNames, tensor.dtype, &Name::dtype);
    const auto expected = nbytes_of(tensor.dtype, tensor.sizes);
    if (known == kNames.end() || !expected || *expected != tensor.data.size()) {
      throw_invalid("[package] tensor '", name, "' of ", graph::name_of(tensor.dtype), " with ",
                    tensor.data.size(), " bytes cannot be stored.");
    }
    header[name] = {{"dtype", known->name},
                    {"shape", tensor.sizes},
                    {"data_offsets", {at, at + tensor.data.size()}}};
    at += tensor.data.size();
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::type_error&) {
    throw_invalid("[package] a name to be stored is not UTF-8.");
  }
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  return text;
}

}  // namespace

StoredTensors read_safetensors(const std::filesystem::path& path) { return Reader(path).read(); }

void write_safetensors(const StoredTensors& stored, const std::filesystem::path& path) {
  if (stored.tensors.contains(kMetadata)) {
    throw_invalid("[package] a tensor cannot be named '", kMetadata, "'.");
  }
  // Wider elements first, so that all are aligned.
  std::vector<const std::pair<const std::string, StoredTensor>*> order;
  for (const auto& entry : stored.tensors) {
    order.push_back(&entry);
  }
  std::ranges::stable_sort(order, std::greater{}, [](const auto* entry) {
    return graph::element_size(entry->second.dtype);
  });
  const std::string header = header_of(stored, order);
  AtomicFile file(path);
  const auto length = static_cast<std::uint64_t>(header.size());
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(header);
  for (const auto* entry : order) {
    file.write(entry->second.data.view());
  }
  file.commit();
}

}  // namespace ravnest::package
