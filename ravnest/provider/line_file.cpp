#include "ravnest/provider/line_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "ravnest/base/error.h"

namespace ravnest::provider {

void LineFile::keep(std::size_t lines) {
  file_.reset();
  kept_ = lines;
}

void LineFile::open() {
  std::string kept;
  std::ifstream old(path_);
  std::string line;
  for (std::size_t i = 0; i < kept_ && std::getline(old, line); ++i) {
    kept += line + "\n";
  }
  file_.reset(std::fopen(path_.c_str(), "w"));
  if (!file_ || std::fputs(kept.c_str(), file_.get()) < 0) {
    throw Error(ErrorKind::kIo, concat("[provider] cannot write '", path_.string(),
                                       "': ", std::strerror(errno), "."));
  }
}

void LineFile::add(const std::string& line) {
  if (path_.empty()) {
    return;
  }
  if (!file_) {
    open();
  }
  ++kept_;
  if (std::fputs((line + "\n").c_str(), file_.get()) < 0 || std::fflush(file_.get()) != 0) {
    throw Error(ErrorKind::kIo, concat("[provider] cannot write '", path_.string(),
                                       "': ", std::strerror(errno), "."));
  }
}

}  // namespace ravnest::provider
