#include "ravnest/base/json_text.h"

namespace ravnest {

bool is_deeper_than(std::string_view json, std::size_t depth) {
  std::size_t open = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      i += c == '\\' ? 1 : 0;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++open > depth) {
        return true;
      }
    } else if ((c == ']' || c == '}') && open > 0) {
      --open;
    }
  }
  return false;
}

}  // namespace ravnest
