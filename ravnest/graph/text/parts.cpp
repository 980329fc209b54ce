#include "ravnest/graph/text/parts.h"

#include <charconv>
#include <stdexcept>
#include <utility>

#include "ravnest/base/error.h"
#include "ravnest/graph/text/rules.h"

namespace ravnest::graph {

namespace {

constexpr std::size_t kMaxRank = 64;

using Kind = Token::Kind;

template <typename Number>
bool parse_number(std::string_view text, Number& value) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  return result.ec == std::errc() && result.ptr == end;
}

}  // namespace

bool TextParts::at_word(std::string_view word) const {
  return at(Kind::kWord) && peek().text == word;
}

bool TextParts::at_sign(std::string_view sign) const {
  return at(Kind::kSign) && peek().text == sign;
}

bool TextParts::accept_word(std::string_view word) {
  const bool found = at_word(word);
  if (found) {
    take();
  }
  return found;
}

bool TextParts::accept_sign(std::string_view sign) {
  const bool found = at_sign(sign);
  if (found) {
    take();
  }
  return found;
}

void TextParts::expect_word(std::string_view word) {
  if (!accept_word(word)) {
    fail_expected(concat("'", word, "'"));
  }
}

void TextParts::expect_sign(std::string_view sign) {
  if (!accept_sign(sign)) {
    fail_expected(concat("'", sign, "'"));
  }
}

Token TextParts::expect(Kind kind, std::string_view what) {
  if (!at(kind)) {
    fail_expected(what);
  }
  return take();
}

void TextParts::end_line() {
  if (!at(Kind::kNewline) && !at(Kind::kEnd)) {
    fail_expected("the end of the line");
  }
  skip_newlines();
}

void TextParts::skip_newlines() {
  while (at(Kind::kNewline)) {
    take();
  }
}

std::string TextParts::string() { return expect(Kind::kString, "a string").text; }

std::string TextParts::word_or_string(std::string_view what) {
  if (!at(Kind::kWord) && !at(Kind::kString)) {
    fail_expected(what);
  }
  return take().text;
}

std::int64_t TextParts::integer() {
  std::int64_t value = 0;
  if (!at(Kind::kNumber) || !parse_number(peek().text, value)) {
    fail_expected("an integer of 64 bits");
  }
  take();
  return value;
}

double TextParts::real() {
  double value = 0;
  const bool possible = at(Kind::kNumber) || at_word("inf") || at_word("nan");
  if (!possible || !parse_number(peek().text, value)) {
    fail_expected("a number");
  }
  take();
  return value;
}

Device TextParts::device() {
  expect_sign("@");
  Device device{word_or_string("the type of a device"), -1};
  if (accept_sign(":")) {
    device.index = integer();
  }
  return device;
}

TensorType TextParts::tensor_type(bool requires_grad_by_default) {
  TensorType type;
  if (!accept_sign("?")) {
    type.dtype = dtype();
    expect_sign("[");
    type.sizes = sizes("]");
  }
  finish_type(type, requires_grad_by_default);
  return type;
}

void TextParts::finish_type(TensorType& type, bool requires_grad_by_default) {
  type.strides = strides(type.sizes);
  if (accept_word("offset")) {
    expect_sign("(");
    type.storage_offset = size();
    expect_sign(")");
  }
  type.requires_grad =
      accept_word("requires_grad") || (!accept_word("no_grad") && requires_grad_by_default);
  if (at_sign("@")) {
    type.device = device();
  }
}

Value TextParts::value_type(bool requires_grad_by_default) {
  Value value;
  if (accept_word("int")) {
    value.kind = ValueKind::kInt;
  } else if (accept_word("float")) {
    value.kind = ValueKind::kFloat;
  } else if (!accept_word("bool")) {
    value.type = tensor_type(requires_grad_by_default);
    return value;
  } else if (accept_sign("[")) {
    // `bool` alone is a truth value, `bool[]` a tensor.
    value.type.dtype = DType::kBool;
    value.type.sizes = sizes("]");
    finish_type(value.type, requires_grad_by_default);
    return value;
  } else {
    value.kind = ValueKind::kBool;
  }
  if (accept_sign("(")) {
    value.expr = size();
    expect_sign(")");
  }
  return value;
}

Expr TextParts::size() {
  const std::size_t offset = peek().offset;
  const std::string_view text = lexer_.take_size();
  try {
    return Expr::parse(text);
  } catch (const std::invalid_argument& error) {
    constexpr std::string_view kPlace = "[graph] ";
    std::string_view sentence = error.what();
    sentence.remove_prefix(sentence.starts_with(kPlace) ? kPlace.size() : 0);
    fail_at(offset, sentence);
  }
}

std::vector<Expr> TextParts::sizes(std::string_view closing) {
  std::vector<Expr> found;
  if (accept_sign(closing)) {
    return found;
  }
  do {
    if (found.size() == kMaxRank) {
      fail_expected(concat("at most ", kMaxRank, " dimensions"));
    }
    found.push_back(size());
  } while (accept_sign(","));
  expect_sign(closing);
  return found;
}

DType TextParts::dtype() {
  const auto found = at(Kind::kWord) ? find_dtype(peek().text) : std::nullopt;
  if (!found) {
    fail_expected("a type such as f32[2, 3], int or ?");
  }
  take();
  return *found;
}

std::vector<Expr> TextParts::strides(const std::vector<Expr>& of_sizes) {
  if (accept_word("strides")) {
    expect_sign("(");
    return sizes(")");
  }
  auto contiguous = contiguous_strides(of_sizes);
  if (!contiguous) {
    fail_expected("strides(...), as the contiguous ones do not fit into 64 bits");
  }
  return std::move(*contiguous);
}

}  // namespace ravnest::graph
