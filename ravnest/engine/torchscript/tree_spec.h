#pragma once

#include <string>
#include <vector>

namespace ravnest::engine {

// The nesting of a caller's inputs or outputs, written as torch.utils._pytree writes it.
class TreeSpec {
 public:
  static TreeSpec leaf();
  static TreeSpec tuple(const std::vector<TreeSpec>& children);
  static TreeSpec list(const std::vector<TreeSpec>& children);
  // `keys` are JSON values.
  static TreeSpec dict(const std::vector<std::string>& keys, const std::vector<TreeSpec>& children);

  // With the format's version in front.
  std::string to_json() const { return "[1, " + json_ + "]"; }

  // A string as a JSON value.
  static std::string quote_json(const std::string& text);

 private:
  static TreeSpec node(const std::string& type, const std::string& context,
                       const std::vector<TreeSpec>& children);

  std::string json_;
};

}  // namespace ravnest::engine
