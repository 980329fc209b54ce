// Reads the input as a job's own options, which come from a stranger: what is passed on to the
// process of a stage are flags of names that we know.

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "ravnest/agent/training_flags.h"
#include "tests/fuzz/finding.h"

namespace ravnest::agent {
namespace {

void read_options(std::string_view text) {
  for (const std::string& flag : training_flags(text)) {
    const std::string_view name = std::string_view(flag).substr(0, flag.find('='));
    require(name.starts_with("--") && name.size() > 2);
    require(std::ranges::all_of(name, [](char c) { return c == '-' || (c >= 'a' && c <= 'z'); }));
  }
}

}  // namespace
}  // namespace ravnest::agent

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  ravnest::accepted([&] { ravnest::agent::read_options(text); });
  return 0;
}
