#pragma once

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

namespace ravnest::provider {

// A text file that grows by a line at a time, such as losses.txt. Nothing is touched before the
// first line: then the file begins anew, or after as many of its lines as are to be kept.
class LineFile {
 public:
  // Without a path nothing is written.
  explicit LineFile(std::filesystem::path path) : path_(std::move(path)) {}

  // The next line is the one after so many of those that are there.
  void keep(std::size_t lines);
  std::size_t lines() const { return kept_; }
  // Throws Error(kIo).
  void add(const std::string& line);

 private:
  void open();

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::filesystem::path path_;
  std::size_t kept_ = 0;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace ravnest::provider
