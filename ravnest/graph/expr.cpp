#include "ravnest/graph/expr.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>

#include "ravnest/base/error.h"
#include "ravnest/graph/text/quote.h"

namespace ravnest::graph {

namespace {

constexpr std::size_t kMaxNameLength = 256;
constexpr std::int64_t kMaxExponent = 63;

// sympy writes s0/2 as Mul(Rational(1, 2), s0): sums and products may pass
// through fractions on their way to an integer.
struct Fraction {
  std::int64_t top = 0;
  std::int64_t bottom = 1;  // > 0

  bool is_integer() const { return bottom == 1; }
};

using MaybeInt = std::optional<std::int64_t>;
using MaybeFraction = std::optional<Fraction>;

MaybeFraction reduce(std::int64_t top, std::int64_t bottom) {
  if (bottom == 1) {
    return Fraction{top, 1};
  }
  constexpr auto kLowest = std::numeric_limits<std::int64_t>::min();
  if (bottom == 0 || bottom == kLowest || top == kLowest) {
    return std::nullopt;
  }
  const std::int64_t divisor = std::gcd(top, bottom) * (bottom < 0 ? -1 : 1);
  return Fraction{top / divisor, bottom / divisor};
}

MaybeFraction add(const Fraction& a, const Fraction& b) {
  std::int64_t left = 0;
  std::int64_t right = 0;
  std::int64_t top = 0;
  std::int64_t bottom = 0;
  if (__builtin_mul_overflow(a.top, b.bottom, &left) ||
      __builtin_mul_overflow(b.top, a.bottom, &right) ||
      __builtin_add_overflow(left, right, &top) ||
      __builtin_mul_overflow(a.bottom, b.bottom, &bottom)) {
    return std::nullopt;
  }
  return reduce(top, bottom);
}

MaybeFraction multiply(const Fraction& a, const Fraction& b) {
  std::int64_t top = 0;
  std::int64_t bottom = 0;
  if (__builtin_mul_overflow(a.top, b.top, &top) ||
      __builtin_mul_overflow(a.bottom, b.bottom, &bottom)) {
    return std::nullopt;
  }
  return reduce(top, bottom);
}

// Division and remainder round towards minus infinity, as in Python.
MaybeInt floor_div(std::int64_t a, std::int64_t b) {
  if (b == 0 || (b == -1 && a == std::numeric_limits<std::int64_t>::min())) {
    return std::nullopt;
  }
  const bool rounds_up = a % b != 0 && (a < 0) != (b < 0);
  return a / b - (rounds_up ? 1 : 0);
}

MaybeInt floor_mod(std::int64_t a, std::int64_t b) {
  if (b == 0) {
    return std::nullopt;
  }
  if (b == -1) {
    return 0;
  }
  const std::int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

MaybeInt power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0 || exponent > kMaxExponent) {
    return std::nullopt;
  }
  std::int64_t result = 1;
  for (; exponent > 0; --exponent) {
    if (__builtin_mul_overflow(result, base, &result)) {
      return std::nullopt;
    }
  }
  return result;
}

MaybeInt apply_integers(std::string_view name, std::span<const std::int64_t> x) {
  if (name == "Max" && !x.empty()) {
    return std::ranges::max(x);
  }
  if (name == "Min" && !x.empty()) {
    return std::ranges::min(x);
  }
  if (x.size() != 2) {
    return std::nullopt;
  }
  if (name == "FloorDiv" || name == "CleanDiv") {
    return floor_div(x[0], x[1]);
  }
  if (name == "Mod" || name == "PythonMod") {
    return floor_mod(x[0], x[1]);
  }
  if (name == "Pow" || name == "PowByNatural") {
    return power(x[0], x[1]);
  }
  return std::nullopt;
}

MaybeFraction fold(std::span<const Fraction> x, Fraction start,
                   MaybeFraction (*combine)(const Fraction&, const Fraction&)) {
  MaybeFraction total = start;
  for (const Fraction& item : x) {
    total = combine(*total, item);
    if (!total) {
      break;
    }
  }
  return total;
}

MaybeFraction apply_function(std::string_view name, std::span<const Fraction> x) {
  if (name == "Add") {
    return fold(x, Fraction{0, 1}, add);
  }
  if (name == "Mul") {
    return fold(x, Fraction{1, 1}, multiply);
  }
  if (name == "floor" && x.size() == 1) {
    return Fraction{*floor_div(x[0].top, x[0].bottom), 1};
  }
  std::vector<std::int64_t> integers;
  for (const Fraction& item : x) {
    if (!item.is_integer()) {
      return std::nullopt;
    }
    integers.push_back(item.top);
  }
  if (name == "Rational" && x.size() == 2) {
    return reduce(integers[0], integers[1]);
  }
  const MaybeInt result = apply_integers(name, integers);
  return result ? MaybeFraction(Fraction{*result, 1}) : std::nullopt;
}

void check_name(std::string_view name) {
  if (!is_identifier(name) || name.size() > kMaxNameLength) {
    throw_invalid("[graph] expected the name of a symbol or function, got ", quote_excerpt(name),
                  ".");
  }
}

// Recursion ends: a tree is at most Expr::kMaxDepth deep.
MaybeFraction evaluate_fraction(const Expr& expr, const SymbolValues& values) {
  if (expr.is_constant()) {
    return Fraction{expr.constant(), 1};
  }
  if (const std::string* name = expr.find_symbol()) {
    const auto found = values.find(*name);
    return found == values.end() ? std::nullopt : MaybeFraction(Fraction{found->second, 1});
  }
  std::vector<Fraction> arguments;
  for (const Expr& argument : expr.arguments()) {
    const MaybeFraction value = evaluate_fraction(argument, values);
    if (!value) {
      return std::nullopt;
    }
    arguments.push_back(*value);
  }
  return apply_function(*expr.find_function(), arguments);
}

}  // namespace

Expr Expr::symbol(std::string name) {
  check_name(name);
  Expr expr;
  expr.node_ = std::make_shared<const Node>(Node{std::move(name), true, {}, 0});
  return expr;
}

Expr Expr::call(std::string function, std::vector<Expr> arguments) {
  check_name(function);
  int depth = 0;
  for (const Expr& argument : arguments) {
    depth = std::max(depth, argument.depth());
  }
  if (++depth > kMaxDepth) {
    throw_invalid("[graph] expected a size of at most ", kMaxDepth, " nested calls, got more.");
  }
  Expr expr;
  expr.node_ =
      std::make_shared<const Node>(Node{std::move(function), false, std::move(arguments), depth});
  return expr;
}

const std::string* Expr::find_symbol() const {
  return node_ != nullptr && node_->is_symbol ? &node_->name : nullptr;
}

const std::string* Expr::find_function() const {
  return node_ != nullptr && !node_->is_symbol ? &node_->name : nullptr;
}

const std::vector<Expr>& Expr::arguments() const {
  static const std::vector<Expr> kNone;
  return node_ == nullptr ? kNone : node_->arguments;
}

void Expr::collect_symbols(std::set<std::string>& names) const {
  if (is_constant()) {
    return;
  }
  if (node_->is_symbol) {
    names.insert(node_->name);
  }
  for (const Expr& argument : node_->arguments) {
    argument.collect_symbols(names);
  }
}

std::optional<std::int64_t> Expr::evaluate(const SymbolValues& values) const {
  const MaybeFraction result = evaluate_fraction(*this, values);
  return result && result->is_integer() ? MaybeInt(result->top) : std::nullopt;
}

bool Expr::operator==(const Expr& other) const {
  if (node_ == other.node_) {
    return constant_ == other.constant_;
  }
  if (node_ == nullptr || other.node_ == nullptr) {
    return false;
  }
  return node_->is_symbol == other.node_->is_symbol && node_->name == other.node_->name &&
         node_->arguments == other.node_->arguments;
}

}  // namespace ravnest::graph
