#pragma once

#include <string>

namespace torch::jit {
struct Block;
struct Node;
}  // namespace torch::jit

namespace ravnest::engine {

// Whether running the block always ends in an exception: the failing side of an assertion.
bool always_raises(const torch::jit::Block& block);

// Whether running the block or not makes no difference but for what it returns.
bool is_pure(const torch::jit::Block& block);

// Where in the user's code a node comes from: the file with its folder and the line.
struct SourceLine {
  std::string file;
  std::size_t line = 0;
  bool in_library = false;  // torch's own code

  bool is_known() const { return line > 0; }
  std::string brief() const;  // "models.py:26"
  std::string full() const;   // "/home/me/models.py:26"
};
SourceLine source_line(const torch::jit::Node& node);

}  // namespace ravnest::engine
