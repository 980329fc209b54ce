#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/base/atomic_file.h"

namespace ravnest::package {

using Json = nlohmann::ordered_json;

// Writes an object, two levels of it with an entry a line. The file appears whole or not
// at all. Throws std::invalid_argument where a name is not UTF-8.
void write_json(const Json& object, const std::filesystem::path& path,
                Durability durability = Durability::kAtCommit);

// Parses a file of bounded size and depth. Throws std::invalid_argument naming the file,
// and Error(kIo) where it cannot be read.
Json read_json(const std::filesystem::path& path);

// A value in a JSON file from outside, and the way to it: "rings[1].id". Every getter
// throws std::invalid_argument naming file and key. Borrows the parsed file.
class Field {
 public:
  Field(const Json& value, const std::filesystem::path& file) : value_(&value), file_(file) {}

  bool is_null() const { return value_->is_null(); }
  bool contains(const char* key) const { return value_->is_object() && value_->contains(key); }
  Field at(const char* key) const;                             // of an object
  std::vector<Field> items() const;                            // of a list
  std::vector<std::pair<std::string, Field>> entries() const;  // of an object

  std::string text() const;  // not empty
  std::vector<std::string> texts() const;
  std::int64_t integer(std::int64_t least, std::int64_t most) const;
  std::size_t count(std::size_t least, std::size_t most) const;

  // Throws: expected `wanted`, got this value.
  [[noreturn]] void refuse(const std::string& wanted) const;

 private:
  Field(const Json& value, const std::filesystem::path& file, std::string key)
      : value_(&value), file_(file), key_(std::move(key)) {}

  const Json* value_;
  std::filesystem::path file_;
  std::string key_;
};

}  // namespace ravnest::package
