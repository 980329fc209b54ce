#include "ravnest/graph/expr.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <stdexcept>
#include <string>

namespace ravnest::graph {
namespace {

constexpr auto kLowest = std::numeric_limits<std::int64_t>::min();
constexpr auto kHighest = std::numeric_limits<std::int64_t>::max();

const Expr kS = Expr::symbol("s0");

Expr call(const std::string& function, std::vector<Expr> arguments) {
  return Expr::call(function, std::move(arguments));
}

std::string error_of(const std::string& text, Expr (*parse)(std::string_view)) {
  try {
    parse(text);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

Expr nested(int levels) {
  Expr expr = kS;
  for (int i = 0; i < levels; ++i) {
    expr = call(i % 2 == 0 ? "Add" : "Mul", {-1, expr});
  }
  return expr;
}

class RandomTrees {
 public:
  explicit RandomTrees(unsigned seed) : random_(seed) {}

  Expr make(int levels) {
    if (levels == 0 || pick(4) == 0) {
      return leaf();
    }
    static const std::vector<std::string> kFunctions{"Add", "Mul",      "Pow", "FloorDiv", "Mod",
                                                     "Max", "Rational", "f_1", "Add",      "Mul"};
    std::vector<Expr> arguments(pick(4));
    for (Expr& argument : arguments) {
      argument = make(levels - 1);
    }
    return call(kFunctions[pick(kFunctions.size())], arguments);
  }

 private:
  std::size_t pick(std::size_t count) { return random_() % count; }

  Expr leaf() {
    static const std::vector<Expr> kLeaves{
        0, 1, -1, 2, -2, 64, kLowest, kHighest, kS, Expr::symbol("u1"), Expr::symbol("_Max9")};
    return kLeaves[pick(kLeaves.size())];
  }

  std::mt19937 random_;
};

TEST(Expr, WritesInfixAsPeopleDo) {
  EXPECT_EQ(Expr(64).to_string(), "64");
  EXPECT_EQ(Expr(-3).to_string(), "-3");
  EXPECT_EQ(kS.to_string(), "s0");
  EXPECT_EQ(call("Add", {call("Mul", {2, kS}), 1}).to_string(), "2*s0 + 1");
  EXPECT_EQ(call("Add", {kS, -1}).to_string(), "s0 - 1");
  EXPECT_EQ(call("Add", {3, call("Mul", {-1, kS})}).to_string(), "3 - s0");
  EXPECT_EQ(call("Add", {3, call("Mul", {-2, kS, kS})}).to_string(), "3 - 2*s0*s0");
  EXPECT_EQ(call("Mul", {-1, kS}).to_string(), "-s0");
  EXPECT_EQ(call("Mul", {kS, call("Add", {kS, 1})}).to_string(), "s0*(s0 + 1)");
  EXPECT_EQ(call("Pow", {kS, 2}).to_string(), "s0**2");
  EXPECT_EQ(call("FloorDiv", {call("Add", {kS, -1}), 2}).to_string(), "FloorDiv(s0 - 1, 2)");
  EXPECT_EQ(call("Add", {kS}).to_string(), "Add(s0)");
}

TEST(Expr, KeepsTheTreeWhereSignsMeetProducts) {
  for (const Expr& expr :
       {call("Mul", {-1, 2, kS}), call("Mul", {-2, kS}), call("Mul", {-1, call("Mul", {2, kS})}),
        call("Mul", {-1, -2, kS}), call("Mul", {kS, -2}), call("Mul", {-1, call("Pow", {2, kS})}),
        call("Pow", {-2, kS}), call("Pow", {kS, -1}), call("Pow", {call("Pow", {kS, 2}), 3}),
        call("Add", {call("Add", {kS, 1}), 2}), call("Add", {1, call("Mul", {-1, -1})}),
        call("Mul", {kLowest, kS}), call("Add", {kS, kLowest}), call("Pow", {kLowest, 2}),
        call("Add", {}), call("Mul", {-1}), call("Pow", {kS}), call("Add", {-1, kLowest})}) {
    EXPECT_EQ(Expr::parse(expr.to_string()), expr) << expr.to_string();
  }
}

TEST(Expr, ReadsBackEveryTree) {
  constexpr unsigned kSeed = 7;
  RandomTrees trees(kSeed);
  for (int i = 0; i < 20000; ++i) {
    const Expr expr = trees.make(5);
    ASSERT_EQ(Expr::parse(expr.to_string()), expr) << expr.to_string() << " of seed " << kSeed;
    ASSERT_EQ(Expr::parse_srepr(expr.to_srepr()), expr) << expr.to_srepr() << " of seed " << kSeed;
  }
}

TEST(Expr, ReadsInfixWithoutSpacesAndWithBrackets) {
  EXPECT_EQ(Expr::parse("2*s0+1"), Expr::parse(" 2 * s0 + 1 "));
  EXPECT_EQ(Expr::parse("((s0))"), kS);
  EXPECT_EQ(Expr::parse("Add(s0, 1)"), Expr::parse("s0 + 1"));
  EXPECT_EQ(Expr::parse("-2**s0"), call("Mul", {-1, call("Pow", {2, kS})}));
  EXPECT_NE(Expr::parse("1 + s0"), Expr::parse("s0 + 1"));
}

TEST(Expr, ReadsWhatTorchExports) {
  const std::string s0 = "Symbol('s0', positive=True, integer=True)";
  EXPECT_EQ(Expr::parse_srepr(s0), kS);
  EXPECT_EQ(Expr::parse_srepr("Integer(-5)"), Expr(-5));
  EXPECT_EQ(Expr::parse_srepr("Mul(Integer(16), " + s0 + ")").to_string(), "16*s0");
  EXPECT_EQ(Expr::parse_srepr("Mul(Rational(1, 2), " + s0 + ")").to_string(), "Rational(1, 2)*s0");
  EXPECT_EQ(Expr::parse_srepr("Min(Integer(16), Symbol(\"u0\"))").to_string(), "Min(16, u0)");
}

TEST(Expr, WritesSreprThatSympyUnderstands) {
  EXPECT_EQ(Expr::parse("2*s0 + 1").to_srepr(),
            "Add(Mul(Integer(2), Symbol('s0', positive=True, integer=True)), Integer(1))");
  EXPECT_EQ(Expr::symbol("u12").to_srepr(), "Symbol('u12', integer=True)");
  EXPECT_EQ(Expr::symbol("u").to_srepr(), "Symbol('u', positive=True, integer=True)");
  EXPECT_EQ(Expr::symbol("u1x").to_srepr(), "Symbol('u1x', positive=True, integer=True)");
  EXPECT_EQ(Expr::parse("Rational(1, 2)").to_srepr(), "Rational(1, 2)");
}

TEST(Expr, EvaluatesAsPythonDoes) {
  const auto value = [](const std::string& text) {
    return Expr::parse(text).evaluate({{"s0", 7}, {"m", -7}});
  };
  EXPECT_EQ(value("2*s0 + 1"), 15);
  EXPECT_EQ(value("3 - s0"), -4);
  EXPECT_EQ(value("FloorDiv(s0, 2)"), 3);
  EXPECT_EQ(value("FloorDiv(m, 2)"), -4);
  EXPECT_EQ(value("FloorDiv(s0, -2)"), -4);
  EXPECT_EQ(value("FloorDiv(m, -2)"), 3);
  EXPECT_EQ(value("CleanDiv(14, s0)"), 2);
  EXPECT_EQ(value("Mod(s0, 4)"), 3);
  EXPECT_EQ(value("Mod(m, 4)"), 1);
  EXPECT_EQ(value("PythonMod(s0, -4)"), -1);
  EXPECT_EQ(value("PythonMod(m, -4)"), -3);
  EXPECT_EQ(value("Mod(m, 7)"), 0);
  EXPECT_EQ(value("Max(1, s0, m)"), 7);
  EXPECT_EQ(value("Min(1, s0, m)"), -7);
  EXPECT_EQ(value("s0**2"), 49);
  EXPECT_EQ(value("s0**0"), 1);
  EXPECT_EQ(value("(-2)**63"), kLowest);
  EXPECT_EQ(value("Rational(1, 2)*(s0 + 1)"), 4);
  EXPECT_EQ(value("Rational(1, 2) + Rational(1, 2)*s0"), 4);
  EXPECT_EQ(value("Rational(1, -7)*s0"), -1);
  EXPECT_EQ(value("floor(Rational(1, 2)*m)"), -4);
}

TEST(Expr, EvaluatesToNothingWhatIsUnknownOrDoesNotFit) {
  const auto value = [](const std::string& text) {
    return Expr::parse(text).evaluate({{"s0", 7}, {"low", kLowest}, {"high", kHighest}});
  };
  for (const std::string text : {"s1",
                                 "2*s1 + 1",
                                 "Unknown(s0)",
                                 "Add(s0, Unknown(1))",
                                 "FloorDiv(s0, 0)",
                                 "Mod(s0, 0)",
                                 "high + 1",
                                 "low - 1",
                                 "2*high",
                                 "low*(-1)",
                                 "FloorDiv(low, -1)",
                                 "2**63",
                                 "2**64",
                                 "2**(-1)",
                                 "1**64",
                                 "Rational(1, 2)*s0",
                                 "Rational(1, 0)",
                                 "Rational(low, 2)",
                                 "Rational(1, low)",
                                 "Max()",
                                 "Min(Rational(1, 2), 1)",
                                 "FloorDiv(s0)",
                                 "Mod(1, 2, 3)",
                                 "Rational(1, high)*Rational(1, high)",
                                 "Rational(1, high) + Rational(1, 2)"}) {
    EXPECT_EQ(value(text), std::nullopt) << text;
  }
  EXPECT_EQ(value("Mod(low, -1)"), 0);
  EXPECT_EQ(value("high + low"), -1);
}

TEST(Expr, FindsItsSymbols) {
  std::set<std::string> names;
  Expr::parse("Max(s0, 2*s1) + s0").collect_symbols(names);
  EXPECT_EQ(names, (std::set<std::string>{"s0", "s1"}));
  EXPECT_EQ(*kS.find_symbol(), "s0");
  EXPECT_EQ(Expr(3).find_symbol(), nullptr);
  EXPECT_EQ(Expr::parse("s0 + 1").find_symbol(), nullptr);
  EXPECT_EQ(*Expr::parse("s0 + 1").find_function(), "Add");
}

TEST(Expr, ComparesTrees) {
  EXPECT_EQ(Expr(), Expr(0));
  EXPECT_NE(Expr(0), kS);
  EXPECT_NE(kS, Expr(0));
  EXPECT_EQ(kS, Expr::symbol("s0"));
  EXPECT_NE(kS, Expr::symbol("s1"));
  EXPECT_NE(Expr::symbol("f"), call("f", {}));
  EXPECT_NE(call("Max", {kS, 1}), call("Max", {kS, 2}));
  EXPECT_NE(call("Max", {kS}), call("Max", {kS, kS}));
}

TEST(Expr, SaysWhereInfixIsWrong) {
  EXPECT_EQ(error_of("2*", Expr::parse),
            "[graph] expected a number, a name or '(' at character 3, got its end in the size "
            "expression \"2*\".");
  EXPECT_EQ(error_of("2 s0", Expr::parse),
            "[graph] expected its end at character 3, got \"s\" in the size expression \"2 s0\".");
  for (const std::string text : {"",
                                 " ",
                                 "(",
                                 "()",
                                 ")",
                                 "s0)",
                                 "(s0",
                                 "f(",
                                 "f(s0",
                                 "f(s0,",
                                 "f(,)",
                                 "--1",
                                 "+1",
                                 "1 +",
                                 "1 + - 2",
                                 "s0**",
                                 "s0***2",
                                 "2**3**4",
                                 "s0 / 2",
                                 "9223372036854775808",
                                 "-9223372036854775809",
                                 "99999999999999999999999",
                                 "1.5",
                                 "s0.x",
                                 "\xff",
                                 "a\nb",
                                 "-9223372036854775808**2"}) {
    EXPECT_TRUE(error_of(text, Expr::parse).starts_with("[graph] expected ")) << text;
  }
  EXPECT_TRUE(error_of(std::string("1\0", 2), Expr::parse).starts_with("[graph] expected "));
}

TEST(Expr, SaysWhereSreprIsWrong) {
  EXPECT_EQ(error_of("Add(Integer(2)", Expr::parse_srepr),
            "[graph] expected ')' at character 15, got its end in the size expression "
            "\"Add(Integer(2)\".");
  for (const std::string text :
       {"", "oo", "Integer()", "Integer('2')", "Integer(1, 2)", "Integer(1180591620717411303424)",
        "Symbol(s0)", "Symbol('s0)", "Symbol('s0\", integer=True)", "Symbol('')", "Symbol('a b')",
        "Symbol('s0', positive)", "Symbol('s0', 1)", "Add(", "Add(,)", "Add(Integer(1),)",
        "Float('0.5', precision=53)", "Integer(1) + 1", "__import__('os').system('ls')"}) {
    EXPECT_TRUE(error_of(text, Expr::parse_srepr).starts_with("[graph] expected ")) << text;
  }
}

TEST(Expr, RefusesNamesThatCannotBeWritten) {
  EXPECT_THROW(Expr::symbol(""), std::invalid_argument);
  EXPECT_THROW(Expr::symbol("a b"), std::invalid_argument);
  EXPECT_THROW(Expr::symbol("1a"), std::invalid_argument);
  EXPECT_THROW(Expr::symbol(std::string(1000, 'a')), std::invalid_argument);
  EXPECT_THROW(call("f()", {}), std::invalid_argument);
}

TEST(Expr, BoundsDepthAndLength) {
  const Expr deepest = nested(Expr::kMaxDepth);
  EXPECT_EQ(deepest.depth(), Expr::kMaxDepth);
  EXPECT_EQ(Expr::parse(deepest.to_string()), deepest);
  EXPECT_EQ(Expr::parse_srepr(deepest.to_srepr()), deepest);
  EXPECT_THROW(nested(Expr::kMaxDepth + 1), std::invalid_argument);

  std::string brackets(30000, '(');
  EXPECT_NE(error_of(brackets, Expr::parse).find("less nesting"), std::string::npos);
  std::string calls;
  for (int i = 0; i < 10000; ++i) {
    calls += "Add(";
  }
  EXPECT_NE(error_of(calls, Expr::parse).find("less nesting"), std::string::npos);
  EXPECT_NE(error_of(calls, Expr::parse_srepr).find("less nesting"), std::string::npos);
  EXPECT_NE(error_of(std::string(100000, '1'), Expr::parse).find("at most 65536 characters"),
            std::string::npos);
}

TEST(Expr, SurvivesDamagedText) {
  constexpr unsigned kSeed = 11;
  std::mt19937 random(kSeed);
  RandomTrees trees(kSeed);
  const std::string noise = "()*+-,'=09sA \"\n\xff";
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = i % 2 == 0 ? trees.make(4).to_string() : trees.make(3).to_srepr();
    text[random() % text.size()] = noise[random() % noise.size()];
    const auto parse = i % 2 == 0 ? Expr::parse : Expr::parse_srepr;
    try {
      const Expr expr = parse(text);
      ASSERT_EQ(Expr::parse(expr.to_string()), expr) << text;
      expr.evaluate({{"s0", 3}, {"u1", -3}, {"_Max9", 0}});
    } catch (const std::invalid_argument&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace ravnest::graph
