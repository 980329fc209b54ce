#include "ravnest/fuse/pt_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <map>
#include <string_view>
#include <tuple>

#include "ravnest/base/error.h"
#include "ravnest/graph/pt2/zip.h"

namespace ravnest::fuse {

namespace {

using graph::DType;
using package::StoredTensor;

static_assert(std::endian::native == std::endian::little);

struct Storage {
  DType dtype;
  std::string_view name;  // of torch's class
};
constexpr auto kStorages = std::to_array<Storage>({{DType::kFloat64, "DoubleStorage"},
                                                   {DType::kFloat32, "FloatStorage"},
                                                   {DType::kFloat16, "HalfStorage"},
                                                   {DType::kBFloat16, "BFloat16Storage"},
                                                   {DType::kInt64, "LongStorage"},
                                                   {DType::kInt32, "IntStorage"},
                                                   {DType::kInt16, "ShortStorage"},
                                                   {DType::kInt8, "CharStorage"},
                                                   {DType::kUInt8, "ByteStorage"},
                                                   {DType::kBool, "BoolStorage"},
                                                   {DType::kComplex64, "ComplexFloatStorage"},
                                                   {DType::kComplex128, "ComplexDoubleStorage"}});

// A pickle of protocol 2, opcode by opcode.
class Pickle {
 public:
  void op(char code) { text_ += code; }
  void global(std::string_view module, std::string_view name) {
    text_ += concat('c', module, "\n", name, "\n");
  }
  void text(std::string_view value) {
    op('X');
    append<std::uint32_t>(static_cast<std::uint32_t>(value.size()));
    text_ += value;
  }
  void integer(std::int64_t value) {
    if (value >= 0 && value <= std::numeric_limits<std::int32_t>::max()) {
      op('J');
      append(static_cast<std::int32_t>(value));
    } else {
      op('\x8a');  // a long of so many bytes
      op(sizeof(value));
      append(value);
    }
  }
  void integers(const std::vector<std::int64_t>& values) {
    op('(');
    std::ranges::for_each(values, [this](std::int64_t value) { integer(value); });
    op('t');
  }
  const std::string& bytes() const { return text_; }

 private:
  template <typename T>
  void append(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }

  std::string text_ = "\x80\x02";
};

std::vector<std::int64_t> contiguous_strides(const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> strides(sizes.size(), 1);
  for (std::size_t i = sizes.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * std::max<std::int64_t>(sizes[i], 1);
  }
  return strides;
}

// The call that makes a tensor of a storage. Types without a storage class of their own come
// from plain bytes, which older versions of torch do not know.
void put_tensor(Pickle& pickle, const StoredTensor& tensor, const std::string& key) {
  const auto* typed = std::ranges::find(kStorages, tensor.dtype, &Storage::dtype);
  const bool is_typed = typed != kStorages.end();
  const std::size_t unit = is_typed ? graph::element_size(tensor.dtype) : 1;
  pickle.global("torch._utils", is_typed ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
  pickle.op('(');
  pickle.op('(');
  pickle.text("storage");
  pickle.global(is_typed ? "torch" : "torch.storage", is_typed ? typed->name : "UntypedStorage");
  pickle.text(key);
  pickle.text("cpu");
  pickle.integer(static_cast<std::int64_t>(tensor.data.size() / unit));
  pickle.op('t');
  pickle.op('Q');  // what is kept outside of the pickle
  pickle.integer(0);
  pickle.integers(tensor.sizes);
  pickle.integers(contiguous_strides(tensor.sizes));
  pickle.op('\x89');  // no gradient
  pickle.global("collections", "OrderedDict");
  pickle.op(')');
  pickle.op('R');
  if (!is_typed) {
    pickle.global("torch", graph::long_name_of(tensor.dtype));
  }
  pickle.op('t');
  pickle.op('R');
}

}  // namespace

void write_pt(const StateDict& state, const std::filesystem::path& path) {
  Pickle pickle;
  std::vector<const StoredTensor*> storages;
  // An empty tensor may begin where another does.
  std::map<std::tuple<const std::byte*, std::size_t, DType>, std::string> keys;
  pickle.op('}');
  pickle.op('(');
  for (const auto& [name, tensor] : state.tensors) {
    const auto [key, is_new] = keys.try_emplace(
        {tensor.data.data(), tensor.data.size(), tensor.dtype}, std::to_string(storages.size()));
    if (is_new) {
      storages.push_back(&tensor);
    }
    pickle.text(name);
    put_tensor(pickle, tensor, key->second);
  }
  pickle.op('u');
  pickle.op('.');
  graph::ZipWriter archive(path, "archive");
  archive.add("data.pkl", pickle.bytes());
  archive.add("byteorder", std::string_view("little"));
  for (std::size_t i = 0; i < storages.size(); ++i) {
    archive.add(concat("data/", i), storages[i]->data.view());
  }
  archive.add("version", std::string_view("3\n"));
  archive.finish();
}

}  // namespace ravnest::fuse
