#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "ravnest/base/bytes.h"
#include "ravnest/graph/dtype.h"

namespace ravnest::package {

// A tensor in a file: contiguous, row by row.
struct StoredTensor {
  graph::DType dtype = graph::DType::kUnknown;
  std::vector<std::int64_t> sizes;
  Bytes data;
};

// Tensors by name, and a few texts beside.
struct StoredTensors {
  std::map<std::string, StoredTensor> tensors;
  std::map<std::string, std::string> metadata;
};

// Writes a .safetensors file, which other programs open too; equal content gives equal bytes,
// and the file appears whole or not at all. Throws std::invalid_argument for a dtype that the
// format does not know or data whose size is not its shape's, Error(kIo) as AtomicFile does.
void write_safetensors(const StoredTensors& stored, const std::filesystem::path& path);

// Reads one; the data are views of the mapped file. Strict: sizes must agree, and the data be
// there without gaps or overlaps. Throws std::invalid_argument naming the file and the tensor,
// and Error(kIo) where it cannot be read.
StoredTensors read_safetensors(const std::filesystem::path& path);

}  // namespace ravnest::package
