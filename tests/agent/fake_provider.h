#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace ravnest::agent {

// A shell script that stands for `ravnest provider`. It knows $data (--node-data), $checkpoints,
// and $stage, the folder of its sub-model; `body` is what it does then. Its words are in
// <path>.args.
inline std::vector<std::string> write_fake_provider(const std::filesystem::path& path,
                                                    const std::string& body) {
  std::ofstream(path) << R"sh(printf '%s\n' "$@" > "$0.args"
for word in "$@"; do
  case $before in
    --node-data) data=$word ;;
    --checkpoints) checkpoints=$word ;;
  esac
  [ "$word" = --measure ] && { echo '{"gflops": 5.0}'; exit; }
  before=$word
done
stage=$(dirname "$(find "$data" -name submod.pt2)")
)sh" << body;
  return {"/bin/sh", path.string()};
}

inline constexpr const char* kReady = R"(echo '{"event": "ready"}'
)";
// Until it is told to end; it says that it lives.
inline constexpr const char* kListens =
    R"((while sleep 0.5 && echo '{"event": "alive"}'; do :; done) 2> /dev/null &
while read word; do
  case $word in
    checkpoint)
      echo "weights at 7" > "$checkpoints/7.safetensors"
      echo '{"event": "checkpoint", "version": 7}' ;;
    save)
      echo "trained" > "$stage/submod_0.safetensors"
      echo '{"event": "saved"}' ;;
    keep)
      echo "kept" > "$stage/submod_0_checkpoint.safetensors"
      exit ;;
  esac
done
)";

}  // namespace ravnest::agent
