#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ravnest::graph {

using SymbolValues = std::map<std::string, std::int64_t>;

// A size that may depend on symbols such as the batch: 64, s0, 2*s0 + 1.
// Immutable; copies share the tree. Arithmetic is checked: what overflows or
// uses an unknown symbol or function evaluates to nothing.
class Expr {
 public:
  Expr(std::int64_t constant = 0) : constant_(constant) {}  // NOLINT: a number is an Expr
  static Expr symbol(std::string name);
  // `function` is a sympy class name: Add, Mul, FloorDiv, Mod, Max, Min, Pow, …
  // Names are identifiers, and a tree is at most kMaxDepth calls deep; anything
  // else is std::invalid_argument, as is malformed text below.
  static constexpr int kMaxDepth = 64;
  static Expr call(std::string function, std::vector<Expr> arguments);

  // "2*s0 + 1", "FloorDiv(s0, 2)": what to_string writes, tree for tree.
  static Expr parse(std::string_view text);
  // sympy's srepr form, as stored in .pt2 files.
  static Expr parse_srepr(std::string_view text);

  bool is_constant() const { return node_ == nullptr; }
  std::int64_t constant() const { return constant_; }
  // The name, when this is a symbol alone.
  const std::string* find_symbol() const;
  // The name of the function, when this is a call.
  const std::string* find_function() const;
  // Of a call; else empty.
  const std::vector<Expr>& arguments() const;
  // Levels of calls: 0 of a number or symbol.
  int depth() const { return node_ == nullptr ? 0 : node_->depth; }
  void collect_symbols(std::set<std::string>& names) const;

  std::optional<std::int64_t> evaluate(const SymbolValues& values) const;

  std::string to_string() const;
  std::string to_srepr() const;

  bool operator==(const Expr& other) const;

 private:
  struct Node {
    std::string name;
    bool is_symbol;
    std::vector<Expr> arguments;
    int depth;
  };

  std::int64_t constant_ = 0;
  std::shared_ptr<const Node> node_;
};

}  // namespace ravnest::graph
