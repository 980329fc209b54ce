#include "ravnest/package/plan_id.h"

#include <cstring>
#include <set>
#include <span>

#include "ravnest/graph/text/text.h"
#include "ravnest/planner/report/report.h"

namespace ravnest::package {

namespace {

// Eight bytes a step, because it goes over all weights.
class Hash {
 public:
  void add(std::span<const std::byte> bytes) {
    mix(bytes.size());
    while (!bytes.empty()) {
      const std::size_t count = std::min(bytes.size(), sizeof(std::uint64_t));
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data(), count);
      mix(word);
      bytes = bytes.subspan(count);
    }
  }
  void add(const std::string& text) { add(std::as_bytes(std::span(text))); }

  std::string digits() const {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    for (int shift = 60; shift >= 0; shift -= 4) {
      text += kDigits[(state_ >> shift) & 15];
    }
    return text;
  }

 private:
  // Both steps can be undone, so that no word is lost; the factor is odd and has no pattern.
  void mix(std::uint64_t word) {
    state_ = (state_ ^ word) * 0x9e3779b97f4a7c15U;
    state_ ^= state_ >> 32;
  }

  std::uint64_t state_ = 0x243f6a8885a308d3U;
};

}  // namespace

std::string plan_id(const graph::Program& program, const planner::Plan& plan) {
  Hash hash;
  hash.add(planner::plan_json(plan));
  hash.add(graph::to_text(program));
  std::set<std::string> seen;
  for (const graph::Weight& weight : program.weights) {
    if (seen.insert(weight.storage_key).second) {
      hash.add(weight.storage.view());
    }
  }
  return hash.digits();
}

}  // namespace ravnest::package
