#include "ravnest/engine/load.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "ravnest/base/bytes.h"
#include "ravnest/base/error.h"
#include "ravnest/engine/torchscript/torchscript.h"
#include "ravnest/graph/mode.h"
#include "ravnest/graph/pt2/pt2.h"

namespace ravnest::engine {

namespace {

constexpr std::string_view kWayOut =
    " Save the model with torch.export.save, torch.jit.save or, from ravnest.capture, "
    "Program.save.";

std::string_view as_text(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The end of a zip file with the list of its entries; empty where there is none.
// It is only looked through for names; whoever reads the archive checks it.
std::string_view zip_directory(std::string_view file) {
  constexpr std::size_t kEndRecord = 22;
  constexpr std::size_t kLongestComment = 65535;
  constexpr std::size_t kZip64Records = 76;
  const std::size_t before = file.size() - std::min(file.size(), kEndRecord + kLongestComment);
  const std::size_t end = file.substr(before).rfind("PK\x05\x06");
  if (end == std::string_view::npos || file.size() - before - end < kEndRecord) {
    return {};
  }
  std::uint32_t size = 0;
  std::memcpy(&size, file.data() + before + end + 12, sizeof(size));
  const std::size_t reach = std::min(before + end, std::size_t{size} + kZip64Records);
  return file.substr(before + end - reach, reach);
}

graph::Program imported(const std::filesystem::path& path, const ImportOptions& options) {
  graph::Program program = import_torchscript(path, options);
  graph::drop_redundant_eval(program);
  return program;
}

enum class Content : std::uint8_t { kPt2, kTorchScript, kPickle, kSafetensors, kOther };

Content content_of(std::string_view file) {
  if (file.starts_with("PK")) {
    const std::string_view names = zip_directory(file);
    const auto lists = [names](std::string_view name) {
      return names.find(name) != std::string_view::npos;
    };
    return lists("/archive_format")  ? Content::kPt2
           : lists("/constants.pkl") ? Content::kTorchScript
           : lists("/data.pkl")      ? Content::kPickle
                                     : Content::kOther;
  }
  if (file.size() > 2 && file[0] == '\x80' && file[1] >= 2 && file[1] <= 5) {
    return Content::kPickle;
  }
  const bool is_safetensors = file.size() > 10 && file[8] == '{' && file[9] == '"';
  return is_safetensors ? Content::kSafetensors : Content::kOther;
}

}  // namespace

graph::Program load_program(const std::filesystem::path& path, const ImportOptions& options) {
  if (std::filesystem::is_directory(path)) {
    throw_invalid("[load] expected a model file, got the folder '", path.string(), "'.");
  }
  const Bytes bytes = Bytes::map_file(path);
  switch (content_of(as_text(bytes))) {
    case Content::kTorchScript:
      return imported(path, options);
    case Content::kPickle:
      throw_invalid("[load] '", path.string(),
                    "' is pickled (a state dict, or a whole model from torch.save), and Ravnest "
                    "unpickles nothing.",
                    kWayOut);
    case Content::kSafetensors:
      throw_invalid("[load] '", path.string(), "' holds weights alone, not a model.", kWayOut);
    case Content::kPt2:
      return graph::read_pt2(path);
    case Content::kOther:
      break;
  }
  if (path.extension() == ".pt2") {
    return graph::read_pt2(path);  // which says what is wrong with it
  }
  throw_invalid("[load] '", path.string(), "' is neither a .pt2 archive nor TorchScript.", kWayOut);
}

}  // namespace ravnest::engine
