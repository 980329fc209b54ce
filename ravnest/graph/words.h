#pragma once

#include <algorithm>
#include <string_view>

namespace ravnest::graph {

// Calls `visit(std::string_view)` for every word between blanks. Tables of
// operators are written as words, so that they stay readable.
template <typename Visit>
void for_each_word(std::string_view text, Visit&& visit) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (end > 0) {
      visit(text.substr(0, end));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace ravnest::graph
