#include "ravnest/engine/torchscript/tree_spec.h"

#include <array>
#include <cstdio>

#include "ravnest/base/error.h"

namespace ravnest::engine {

namespace {

std::string join(const std::vector<std::string>& parts) {
  std::string joined;
  for (const std::string& part : parts) {
    joined += joined.empty() ? part : ", " + part;
  }
  return joined;
}

}  // namespace

std::string TreeSpec::quote_json(const std::string& text) {
  std::string quoted = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') {
      quoted += '\\';
      quoted += letter;
    } else if (static_cast<unsigned char>(letter) < 0x20) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04x",
                    static_cast<unsigned>(static_cast<unsigned char>(letter)));
      quoted += escape.data();
    } else {
      quoted += letter;
    }
  }
  return quoted + "\"";
}

TreeSpec TreeSpec::node(const std::string& type, const std::string& context,
                        const std::vector<TreeSpec>& children) {
  std::vector<std::string> specs;
  for (const TreeSpec& child : children) {
    specs.push_back(child.json_);
  }
  TreeSpec made;
  made.json_ = concat("{\"type\": ", type, ", \"context\": ", context, ", \"children_spec\": [",
                      join(specs), "]}");
  return made;
}

TreeSpec TreeSpec::leaf() { return node("null", "null", {}); }

TreeSpec TreeSpec::tuple(const std::vector<TreeSpec>& children) {
  return node("\"builtins.tuple\"", "\"null\"", children);
}

TreeSpec TreeSpec::list(const std::vector<TreeSpec>& children) {
  return node("\"builtins.list\"", "\"null\"", children);
}

TreeSpec TreeSpec::dict(const std::vector<std::string>& keys,
                        const std::vector<TreeSpec>& children) {
  return node("\"builtins.dict\"", quote_json(concat("[", join(keys), "]")), children);
}

}  // namespace ravnest::engine
