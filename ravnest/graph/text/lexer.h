#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ravnest::graph {

struct Token {
  enum class Kind {
    kWord,    // aten.conv2d.default, f32, return
    kValue,   // %x, %"a b": `text` is the name
    kString,  // "…": `text` has the escapes resolved
    kNumber,  // 3, -0.5e7, -inf: as written
    kSign,    // = : := , [ ] ( ) ? @
    kNewline,
    kEnd,
  };
  Kind kind = Kind::kEnd;
  std::string text;
  std::size_t offset = 0;  // of its first character
};

// The text form's tokens, one at a time; borrows the text. Spaces and comments
// are skipped. Throws std::invalid_argument, with line and column, on what is none.
class TextLexer {
 public:
  explicit TextLexer(std::string_view text);

  const Token& peek() const { return token_; }
  Token take();

  // From the token at hand to the comma or bracket that ends a size such as
  // Max(s0, 2): returns what is between, and moves to what ends it.
  std::string_view take_size();

  // "[graph] line 7, column 12: expected …, got ….", at the token at hand.
  [[noreturn]] void fail_expected(std::string_view expected) const;
  // "[graph] line 7, column 12: <sentence>"
  [[noreturn]] void fail_at(std::size_t offset, std::string_view sentence) const;

 private:
  void advance();
  void skip_blank();
  Token read_token();
  std::string read_quoted();
  char read_escape();
  std::string read_while(bool (*belongs)(char));
  std::string read_number();
  char at(std::size_t offset) const { return offset < text_.size() ? text_[offset] : '\0'; }

  std::string_view text_;
  std::size_t next_ = 0;  // the first character after the token at hand
  Token token_;
};

}  // namespace ravnest::graph
