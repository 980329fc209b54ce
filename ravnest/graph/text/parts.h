#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ravnest/graph/program.h"
#include "ravnest/graph/text/lexer.h"

namespace ravnest::graph {

// Reads the parts that statements of the text form share: words, numbers, sizes
// and types. `at` looks, `accept` takes it if it is there, `expect` and the rest
// take it or throw std::invalid_argument with line and column.
class TextParts {
 public:
  explicit TextParts(std::string_view text) : lexer_(text) {}

  const Token& peek() const { return lexer_.peek(); }
  Token take() { return lexer_.take(); }
  [[noreturn]] void fail_expected(std::string_view what) const { lexer_.fail_expected(what); }
  [[noreturn]] void fail_at(std::size_t offset, std::string_view sentence) const {
    lexer_.fail_at(offset, sentence);
  }

  bool at(Token::Kind kind) const { return peek().kind == kind; }
  bool at_word(std::string_view word) const;
  bool at_sign(std::string_view sign) const;
  bool accept_word(std::string_view word);
  bool accept_sign(std::string_view sign);
  void expect_word(std::string_view word);
  void expect_sign(std::string_view sign);
  Token expect(Token::Kind kind, std::string_view what);
  // Also takes the empty lines that follow.
  void end_line();
  void skip_newlines();

  std::string string();
  std::string word_or_string(std::string_view what);
  std::int64_t integer();
  double real();
  Device device();
  // With at most 64 dimensions.
  TensorType tensor_type(bool requires_grad_by_default);
  // What follows the colon of a value: its kind, and its type or size.
  Value value_type(bool requires_grad_by_default);

 private:
  Expr size();
  std::vector<Expr> sizes(std::string_view closing);
  DType dtype();
  // After the dtype: strides, offset, gradient, device.
  void finish_type(TensorType& type, bool requires_grad_by_default);
  std::vector<Expr> strides(const std::vector<Expr>& of_sizes);

  TextLexer lexer_;
};

}  // namespace ravnest::graph
