#include "ravnest/graph/text/lexer.h"

#include <algorithm>
#include <utility>

#include "ravnest/base/error.h"
#include "ravnest/graph/text/quote.h"

namespace ravnest::graph {

namespace {

constexpr std::string_view kSigns = "=:,[]()?@";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool begins_word(char c) { return is_identifier(std::string_view(&c, 1)); }

bool continues_word(char c) { return begins_word(c) || is_digit(c) || c == '.'; }

int hex_digit(char c) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const std::size_t found = kDigits.find(c);
  return found == std::string_view::npos ? -1 : static_cast<int>(found);
}

std::string description(const Token& token) {
  switch (token.kind) {
    case Token::Kind::kNewline:
      return "the end of the line";
    case Token::Kind::kEnd:
      return "the end of the text";
    case Token::Kind::kValue:
      return "the value " + quote_excerpt(token.text);
    case Token::Kind::kString:
      return "the string " + quote_excerpt(token.text);
    default:
      return quote_excerpt(token.text);
  }
}

}  // namespace

TextLexer::TextLexer(std::string_view text) : text_(text) { advance(); }

Token TextLexer::take() {
  Token taken = std::move(token_);
  advance();
  return taken;
}

std::string_view TextLexer::take_size() {
  const std::size_t begin = token_.offset;
  std::size_t end = begin;
  std::size_t open = 0;
  for (; end < text_.size(); ++end) {
    const char c = text_[end];
    const bool closes = c == ')' || c == ']';
    if (c == '\n' || c == '#' || (open == 0 && (closes || c == ','))) {
      break;
    }
    open += c == '(' ? 1U : 0U;
    open -= closes ? 1U : 0U;
  }
  next_ = end;
  advance();
  return text_.substr(begin, end - begin);
}

void TextLexer::fail_expected(std::string_view expected) const {
  fail_at(token_.offset, concat("expected ", expected, ", got ", description(token_), "."));
}

void TextLexer::fail_at(std::size_t offset, std::string_view sentence) const {
  const std::string_view before = text_.substr(0, offset);
  const auto line = std::ranges::count(before, '\n') + 1;
  const std::size_t line_break = before.rfind('\n');
  const std::size_t column =
      line_break == std::string_view::npos ? offset + 1 : offset - line_break;
  throw_invalid("[graph] line ", line, ", column ", column, ": ", sentence);
}

void TextLexer::advance() {
  skip_blank();
  token_ = read_token();
}

void TextLexer::skip_blank() {
  while (at(next_) == ' ' || at(next_) == '\t' || at(next_) == '\r') {
    ++next_;
  }
  if (at(next_) == '#') {
    next_ = std::min(text_.find('\n', next_), text_.size());
  }
}

Token TextLexer::read_token() {
  const std::size_t begin = next_;
  const char c = at(begin);
  if (begin == text_.size()) {
    return {Token::Kind::kEnd, "", begin};
  }
  if (c == '\n') {
    ++next_;
    return {Token::Kind::kNewline, "", begin};
  }
  if (c == '"') {
    return {Token::Kind::kString, read_quoted(), begin};
  }
  if (c == '%') {
    ++next_;
    if (at(next_) != '"' && !begins_word(at(next_))) {
      fail_at(next_, "expected the name of a value after '%'.");
    }
    return {Token::Kind::kValue, at(next_) == '"' ? read_quoted() : read_while(continues_word),
            begin};
  }
  if (begins_word(c)) {
    return {Token::Kind::kWord, read_while(continues_word), begin};
  }
  if (is_digit(c) || c == '-') {
    return {Token::Kind::kNumber, read_number(), begin};
  }
  if (kSigns.find(c) == std::string_view::npos) {
    fail_at(begin,
            concat("expected a statement's next part, got ", quote(text_.substr(begin, 1)), "."));
  }
  next_ += c == ':' && at(begin + 1) == '=' ? 2 : 1;
  return {Token::Kind::kSign, std::string(text_.substr(begin, next_ - begin)), begin};
}

std::string TextLexer::read_quoted() {
  const std::size_t begin = next_++;
  std::string text;
  while (at(next_) != '"') {
    const char c = at(next_);
    if (next_ >= text_.size() || c == '\n') {
      fail_at(begin, "expected a string that ends on its line, got no closing '\"'.");
    }
    ++next_;
    text += c == '\\' ? read_escape() : c;
  }
  ++next_;
  return text;
}

char TextLexer::read_escape() {
  const char c = at(next_++);
  switch (c) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case '"':
    case '\\':
      return c;
    default:
      break;
  }
  const int high = hex_digit(at(next_));
  const int low = hex_digit(at(next_ + 1));
  if (c != 'x' || high < 0 || low < 0) {
    fail_at(next_ - 2, R"(expected one of the escapes \" \\ \n \r \t \xNN in a string.)");
  }
  next_ += 2;
  return static_cast<char>(high * 16 + low);
}

std::string TextLexer::read_while(bool (*belongs)(char)) {
  const std::size_t begin = next_;
  while (belongs(at(next_))) {
    ++next_;
  }
  return std::string(text_.substr(begin, next_ - begin));
}

std::string TextLexer::read_number() {
  const std::size_t begin = next_++;
  const auto continues_number = [this] {
    const char c = at(next_);
    const char before = at(next_ - 1);
    return continues_word(c) || ((c == '-' || c == '+') && (before == 'e' || before == 'E'));
  };
  while (continues_number()) {
    ++next_;
  }
  return std::string(text_.substr(begin, next_ - begin));
}

}  // namespace ravnest::graph
