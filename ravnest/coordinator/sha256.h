#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace ravnest::coordinator {

// SHA-256 of bytes as they come.
class Sha256 {
 public:
  Sha256();
  void update(std::span<const std::byte> bytes);
  // 64 digits; the end of this object's use.
  std::string finish();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

std::string sha256_of(std::string_view text);
// Throws Error(kIo) where the file cannot be read.
std::string sha256_of_file(const std::filesystem::path& file);

}  // namespace ravnest::coordinator
