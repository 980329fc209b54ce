#include <charconv>
#include <limits>

#include "ravnest/base/error.h"
#include "ravnest/graph/expr.h"
#include "ravnest/graph/text/quote.h"

namespace ravnest::graph {

namespace {

constexpr std::size_t kMaxLength = std::size_t{1} << 16U;
// A printed tree has a bracket per call and one around a negative constant; the
// rest is room for brackets a person adds.
constexpr int kMaxNesting = 2 * Expr::kMaxDepth;

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {
    if (text.size() > kMaxLength) {
      throw_invalid("[graph] expected a size expression of at most ", kMaxLength,
                    " characters, got ", text.size(), ".");
    }
    skip_space();
  }

  // The next character; 0 at the end.
  char peek() const { return rest_at(0); }

  bool accept(std::string_view token) {
    if (text_.substr(position_, token.size()) != token) {
      return false;
    }
    position_ += token.size();
    skip_space();
    return true;
  }

  void expect(std::string_view token) {
    if (!accept(token)) {
      fail(concat("'", token, "'"));
    }
  }

  void expect_end() const {
    if (position_ != text_.size()) {
      fail("its end");
    }
  }

  bool at_digit() const { return is_digit(peek()); }
  bool at_name() const { return is_identifier(text_.substr(position_, 1)); }

  std::string name() {
    if (!at_name()) {
      fail("a name");
    }
    std::size_t length = 1;
    while (is_name_part(rest_at(length))) {
      ++length;
    }
    std::string found(text_.substr(position_, length));
    position_ += length;
    skip_space();
    return found;
  }

  std::int64_t magnitude(bool negative) {
    std::uint64_t value = 0;
    const char* begin = text_.data() + position_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    const auto limit = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (end == begin) {
      fail("a number");
    }
    if (error != std::errc() || value > limit + (negative ? 1 : 0)) {
      fail("a number of 64 bits");
    }
    position_ += static_cast<std::size_t>(end - begin);
    skip_space();
    return static_cast<std::int64_t>(negative ? 0 - value : value);
  }

  [[noreturn]] void fail(const std::string& expected) const {
    const std::string got =
        position_ < text_.size() ? quote(text_.substr(position_, 1)) : std::string("its end");
    throw_invalid("[graph] expected ", expected, " at character ", position_ + 1, ", got ", got,
                  " in the size expression ", quote_excerpt(text_), ".");
  }

 private:
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_name_part(char c) { return is_digit(c) || is_identifier(std::string_view(&c, 1)); }
  char rest_at(std::size_t ahead) const {
    return position_ + ahead < text_.size() ? text_[position_ + ahead] : '\0';
  }
  void skip_space() {
    while (peek() == ' ') {
      ++position_;
    }
  }

  std::string_view text_;
  std::size_t position_ = 0;
};

// Counts brackets that are open, so that deep text ends in a sentence.
class Nesting {
 public:
  Nesting(int& depth, const Scanner& scanner) : depth_(depth) {
    if (++depth_ > kMaxNesting) {
      scanner.fail("less nesting");
    }
  }
  ~Nesting() { --depth_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  int& depth_;
};

// sum    = ["-"] term { ("+" | "-") term }
// term   = factor { "*" factor }
// factor = atom ["**" atom]
// atom   = number | name | name "(" [sum { "," sum }] ")" | "(" sum ")"
class InfixParser {
 public:
  explicit InfixParser(std::string_view text) : scanner_(text) {}

  Expr run() {
    Expr result = sum();
    scanner_.expect_end();
    return result;
  }

 private:
  Expr sum() {
    std::vector<Expr> terms;
    terms.push_back(term(scanner_.accept("-")));
    while (true) {
      if (scanner_.accept("+")) {
        terms.push_back(term(false));
      } else if (scanner_.accept("-")) {
        terms.push_back(term(true));
      } else {
        break;
      }
    }
    return terms.size() == 1 ? std::move(terms[0]) : Expr::call("Add", std::move(terms));
  }

  // A minus sign belongs to the number that follows it, else it is a factor -1.
  Expr term(bool negative) {
    std::vector<Expr> factors;
    if (negative && scanner_.at_digit()) {
      factors = signed_number();
    } else {
      if (negative) {
        factors.emplace_back(-1);
      }
      factors.push_back(factor());
    }
    while (scanner_.accept("*")) {
      factors.push_back(factor());
    }
    return factors.size() == 1 ? std::move(factors[0]) : Expr::call("Mul", std::move(factors));
  }

  // -2 is a number, but -2**x is -1 * 2**x.
  std::vector<Expr> signed_number() {
    const std::int64_t number = scanner_.magnitude(true);
    if (number < -std::numeric_limits<std::int64_t>::max() || !scanner_.accept("**")) {
      return {Expr(number)};
    }
    return {Expr(-1), Expr::call("Pow", {Expr(-number), atom()})};
  }

  Expr factor() {
    Expr base = atom();
    return scanner_.accept("**") ? Expr::call("Pow", {std::move(base), atom()}) : base;
  }

  Expr atom() {
    if (scanner_.at_digit()) {
      return scanner_.magnitude(false);
    }
    if (scanner_.at_name()) {
      std::string name = scanner_.name();
      return scanner_.accept("(") ? Expr::call(std::move(name), call_arguments())
                                  : Expr::symbol(std::move(name));
    }
    const Nesting nesting(depth_, scanner_);
    if (!scanner_.accept("(")) {
      scanner_.fail("a number, a name or '('");
    }
    Expr inner = sum();
    scanner_.expect(")");
    return inner;
  }

  std::vector<Expr> call_arguments() {
    const Nesting nesting(depth_, scanner_);
    std::vector<Expr> arguments;
    if (scanner_.accept(")")) {
      return arguments;
    }
    do {
      arguments.push_back(sum());
    } while (scanner_.accept(","));
    scanner_.expect(")");
    return arguments;
  }

  Scanner scanner_;
  int depth_ = 0;
};

// value = ["-"] number | "Integer(" ["-"] number ")" | "Symbol('" name "'" {"," flag} ")"
//       | name "(" [value {"," value}] ")"
class SreprParser {
 public:
  explicit SreprParser(std::string_view text) : scanner_(text) {}

  Expr run() {
    Expr result = value();
    scanner_.expect_end();
    return result;
  }

 private:
  Expr value() {
    const Nesting nesting(depth_, scanner_);
    if (!scanner_.at_name()) {
      return integer();
    }
    std::string name = scanner_.name();
    scanner_.expect("(");
    Expr result = name == "Integer"  ? integer()
                  : name == "Symbol" ? symbol()
                                     : Expr::call(std::move(name), values());
    scanner_.expect(")");
    return result;
  }

  Expr integer() {
    const bool negative = scanner_.accept("-");
    return scanner_.magnitude(negative);
  }

  Expr symbol() {
    const std::string_view mark = scanner_.peek() == '"' ? "\"" : "'";
    scanner_.expect(mark);
    std::string name = scanner_.name();
    scanner_.expect(mark);
    // What sympy assumes of the symbol, as in positive=True.
    while (scanner_.accept(",")) {
      scanner_.name();
      scanner_.expect("=");
      scanner_.name();
    }
    return Expr::symbol(std::move(name));
  }

  std::vector<Expr> values() {
    std::vector<Expr> found;
    if (scanner_.peek() == ')') {
      return found;
    }
    do {
      found.push_back(value());
    } while (scanner_.accept(","));
    return found;
  }

  Scanner scanner_;
  int depth_ = 0;
};

}  // namespace

Expr Expr::parse(std::string_view text) { return InfixParser(text).run(); }

Expr Expr::parse_srepr(std::string_view text) { return SreprParser(text).run(); }

}  // namespace ravnest::graph
