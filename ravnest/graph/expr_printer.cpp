#include <algorithm>
#include <string>

#include "ravnest/base/error.h"
#include "ravnest/graph/expr.h"

namespace ravnest::graph {

namespace {

bool is_negative(const Expr& expr) { return expr.is_constant() && expr.constant() < 0; }

bool is_call(const Expr& expr, std::string_view function) {
  const std::string* name = expr.find_function();
  const std::size_t count = expr.arguments().size();
  // Only these shapes have an infix form; Add(x) and Pow(x) stay calls.
  return name != nullptr && *name == function && (function == "Pow" ? count == 2 : count >= 2);
}

void write_infix(std::string& out, const Expr& expr);

void write_call(std::string& out, const Expr& expr) {
  out += *expr.find_function();
  out += '(';
  bool first = true;
  for (const Expr& argument : expr.arguments()) {
    out += first ? "" : ", ";
    first = false;
    write_infix(out, argument);
  }
  out += ')';
}

void write_atom(std::string& out, const Expr& expr) {
  const bool brackets =
      is_negative(expr) || is_call(expr, "Add") || is_call(expr, "Mul") || is_call(expr, "Pow");
  out += brackets ? "(" : "";
  write_infix(out, expr);
  out += brackets ? ")" : "";
}

void write_factor(std::string& out, const Expr& expr) {
  if (is_call(expr, "Pow")) {
    write_atom(out, expr.arguments()[0]);
    out += "**";
    write_atom(out, expr.arguments()[1]);
  } else {
    write_atom(out, expr);
  }
}

void write_product(std::string& out, const std::vector<Expr>& factors) {
  std::size_t next = 0;
  if (is_negative(factors[0])) {
    next = 1;
    const bool only_sign = factors[0].constant() == -1 && !factors[1].is_constant();
    out += only_sign ? "-" : std::to_string(factors[0].constant()) + "*";
  }
  for (std::size_t i = next; i < factors.size(); ++i) {
    out += i > next ? "*" : "";
    write_factor(out, factors[i]);
  }
}

void write_sum(std::string& out, const std::vector<Expr>& terms) {
  bool first = true;
  for (const Expr& term : terms) {
    std::string text;
    if (is_call(term, "Add")) {
      write_atom(text, term);
    } else {
      write_infix(text, term);
    }
    const bool negative = text[0] == '-';
    out += first ? "" : negative ? " - " : " + ";
    out += !first && negative ? std::string_view(text).substr(1) : std::string_view(text);
    first = false;
  }
}

void write_infix(std::string& out, const Expr& expr) {
  if (expr.is_constant()) {
    out += std::to_string(expr.constant());
  } else if (const std::string* name = expr.find_symbol()) {
    out += *name;
  } else if (is_call(expr, "Add")) {
    write_sum(out, expr.arguments());
  } else if (is_call(expr, "Mul")) {
    write_product(out, expr.arguments());
  } else if (is_call(expr, "Pow")) {
    write_factor(out, expr);
  } else {
    write_call(out, expr);
  }
}

// torch names unbacked sizes u0, u1, …: nothing is known of their sign.
bool is_unbacked(const std::string& symbol) {
  return symbol.size() > 1 && symbol[0] == 'u' &&
         std::all_of(symbol.begin() + 1, symbol.end(), [](char c) { return c >= '0' && c <= '9'; });
}

void write_srepr(std::string& out, const Expr& expr) {
  if (expr.is_constant()) {
    out += concat("Integer(", expr.constant(), ")");
    return;
  }
  if (const std::string* name = expr.find_symbol()) {
    out +=
        concat("Symbol('", *name, is_unbacked(*name) ? "'" : "', positive=True", ", integer=True)");
    return;
  }
  const std::string& function = *expr.find_function();
  out += function + "(";
  bool first = true;
  for (const Expr& argument : expr.arguments()) {
    out += first ? "" : ", ";
    first = false;
    if (function == "Rational" && argument.is_constant()) {
      out += std::to_string(argument.constant());
    } else {
      write_srepr(out, argument);
    }
  }
  out += ")";
}

}  // namespace

std::string Expr::to_string() const {
  std::string out;
  write_infix(out, *this);
  return out;
}

std::string Expr::to_srepr() const {
  std::string out;
  write_srepr(out, *this);
  return out;
}

}  // namespace ravnest::graph
