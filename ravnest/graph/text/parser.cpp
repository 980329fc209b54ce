#include <map>
#include <utility>

#include "ravnest/base/error.h"
#include "ravnest/graph/text/parts.h"
#include "ravnest/graph/text/quote.h"
#include "ravnest/graph/text/rules.h"
#include "ravnest/graph/text/text.h"

namespace ravnest::graph {

namespace {

constexpr int kMaxListDepth = 32;

using Kind = Token::Kind;

// The statements of one graph, up to the next `graph` or the end.
class GraphParser {
 public:
  explicit GraphParser(TextParts& parts) : parts_(parts) {}

  Graph run() {
    while (parts_.accept_word("symbol")) {
      symbol();
      parts_.end_line();
    }
    while (const auto kind = next_input_kind()) {
      parts_.take();
      input(*kind);
      parts_.end_line();
    }
    while (!parts_.accept_word("return")) {
      op();
      parts_.end_line();
    }
    outputs();
    parts_.end_line();
    graph_.in_spec = spec("in_spec");
    graph_.out_spec = spec("out_spec");
    return std::move(graph_);
  }

 private:
  void symbol() {
    const std::size_t offset = parts_.peek().offset;
    const std::string name = parts_.word_or_string("the name of a symbol");
    parts_.expect_sign("=");
    Symbol symbol;
    symbol.hint = parts_.integer();
    if (parts_.accept_word("in")) {
      parts_.expect_sign("[");
      symbol.min = bound("-inf");
      parts_.expect_sign(",");
      symbol.max = bound("inf");
      parts_.expect_sign("]");
    }
    if (!graph_.symbols.emplace(name, symbol).second) {
      parts_.fail_at(offset,
                     concat("expected each symbol once, got ", quote_excerpt(name), " again."));
    }
  }

  std::optional<std::int64_t> bound(std::string_view infinity) {
    const bool unbounded =
        (parts_.at(Kind::kWord) || parts_.at(Kind::kNumber)) && parts_.peek().text == infinity;
    if (!unbounded) {
      return parts_.integer();
    }
    parts_.take();
    return std::nullopt;
  }

  std::optional<InputKind> next_input_kind() const {
    return parts_.at(Kind::kWord) ? find_input_kind(parts_.peek().text) : std::nullopt;
  }

  void input(InputKind kind) {
    Input input{.kind = kind, .value = 0, .target = "", .literal = {}};
    if (kind == InputKind::kLiteral) {
      input.target = parts_.string();
      parts_.expect_sign("=");
      input.literal = argument(0);
    } else {
      const Token name = parts_.expect(Kind::kValue, "a value such as %x");
      input.value = add_value(name, requires_grad_by_default(kind));
      define(name, input.value);
      if (parts_.accept_sign("=")) {
        input.target = parts_.string();
      }
    }
    graph_.inputs.push_back(std::move(input));
  }

  void op() {
    Op op;
    std::vector<std::pair<Token, ValueId>> definitions;
    if (!at_target()) {
      do {
        op.results.push_back(result(definitions));
      } while (parts_.accept_sign(","));
      parts_.expect_sign("=");
    }
    if (!at_target()) {
      parts_.fail_expected("an operator such as aten.relu.default");
    }
    op.target = parts_.take().text;
    parts_.expect_sign("(");
    op.arguments = arguments();
    op.module = parts_.accept_word("in") ? parts_.string() : "";
    op.source = parts_.accept_word("at") ? parts_.string() : "";
    graph_.ops.push_back(std::move(op));
    // Only now: an operator cannot use its own results.
    for (const auto& [name, id] : definitions) {
      define(name, id);
    }
  }

  bool at_target() const {
    const bool dotted = parts_.at(Kind::kWord) && parts_.peek().text.find('.') != std::string::npos;
    return dotted || parts_.at(Kind::kString);
  }

  Result result(std::vector<std::pair<Token, ValueId>>& definitions) {
    if (parts_.accept_word("_")) {
      return {Result::Kind::kNone, {}};
    }
    const auto read_value = [&] {
      const Token name = parts_.expect(
          Kind::kValue,
          "an operation, as in %y : f32[2] = aten.relu.default(self=%x), or 'return'");
      const ValueId id = add_value(name, false);
      definitions.emplace_back(name, id);
      return id;
    };
    if (!parts_.accept_sign("[")) {
      return {Result::Kind::kValue, {read_value()}};
    }
    Result list{Result::Kind::kList, {}};
    if (!parts_.accept_sign("]")) {
      do {
        list.values.push_back(read_value());
      } while (parts_.accept_sign(","));
      parts_.expect_sign("]");
    }
    return list;
  }

  std::vector<NamedArgument> arguments() {
    std::vector<NamedArgument> found;
    if (parts_.accept_sign(")")) {
      return found;
    }
    do {
      NamedArgument next;
      next.name = parts_.word_or_string("the name of an argument");
      next.positional = !parts_.accept_sign(":=");
      if (next.positional) {
        parts_.expect_sign("=");
      }
      next.value = argument(0);
      found.push_back(std::move(next));
    } while (parts_.accept_sign(","));
    parts_.expect_sign(")");
    return found;
  }

  void outputs() {
    if (parts_.at(Kind::kNewline) || parts_.at(Kind::kEnd)) {
      return;
    }
    do {
      graph_.outputs.push_back(argument(0));
    } while (parts_.accept_sign(","));
  }

  std::string spec(std::string_view word) {
    if (!parts_.accept_word(word)) {
      return "";
    }
    std::string text = parts_.string();
    parts_.end_line();
    return text;
  }

  Argument argument(int depth) {
    switch (parts_.peek().kind) {
      case Kind::kValue:
        return {use(parts_.take())};
      case Kind::kString:
        return {parts_.take().text};
      case Kind::kNumber:
        return number();
      case Kind::kWord:
        return word(depth);
      default:
        break;
    }
    if (parts_.at_sign("@")) {
      return {parts_.device()};
    }
    if (!parts_.at_sign("[")) {
      parts_.fail_expected("an argument");
    }
    List list{ListKind::kInts, items(depth)};
    list.kind = infer_list_kind(graph_, list.items);
    return {std::move(list)};
  }

  Argument number() {
    const bool real = parts_.peek().text.find_first_of(".eEn") != std::string::npos;
    return real ? Argument{parts_.real()} : Argument{parts_.integer()};
  }

  Argument word(int depth) {
    if (parts_.at_word("inf") || parts_.at_word("nan")) {
      return {parts_.real()};
    }
    const Token token = parts_.take();
    const std::string& text = token.text;
    if (text == "none") {
      return {None{}};
    }
    if (text == "true" || text == "false") {
      return {text == "true"};
    }
    if (text == "complex") {
      return complex_number();
    }
    if (const auto dtype = find_dtype(text)) {
      return {*dtype};
    }
    if (const auto format = find_memory_format(text)) {
      return {*format};
    }
    if (const auto kind = find_list_kind(text)) {
      return {List{*kind, items(depth)}};
    }
    parts_.fail_at(token.offset, concat("expected an argument, got ", quote_excerpt(text), "."));
  }

  Argument complex_number() {
    parts_.expect_sign("(");
    const double real = parts_.real();
    parts_.expect_sign(",");
    const double imaginary = parts_.real();
    parts_.expect_sign(")");
    return {std::complex<double>(real, imaginary)};
  }

  std::vector<Argument> items(int depth) {
    if (depth >= kMaxListDepth) {
      parts_.fail_expected(concat("at most ", kMaxListDepth, " lists within each other"));
    }
    parts_.expect_sign("[");
    std::vector<Argument> found;
    if (parts_.accept_sign("]")) {
      return found;
    }
    do {
      found.push_back(argument(depth + 1));
    } while (parts_.accept_sign(","));
    parts_.expect_sign("]");
    return found;
  }

  // Adds the value that `name : type` says; it can be used once defined.
  ValueId add_value(const Token& name, bool requires_grad) {
    parts_.expect_sign(":");
    Value value = parts_.value_type(requires_grad);
    value.name = name.text;
    return graph_.add_value(std::move(value));
  }

  void define(const Token& name, ValueId id) {
    if (!ids_.emplace(name.text, id).second) {
      parts_.fail_at(name.offset, concat("expected each value to be defined once, got ",
                                         quote_excerpt(name.text), " again."));
    }
  }

  Ref use(const Token& name) const {
    const auto found = ids_.find(name.text);
    if (found == ids_.end()) {
      parts_.fail_at(name.offset, concat("expected a value that is defined above, got ",
                                         quote_excerpt(name.text), "."));
    }
    return {found->second};
  }

  TextParts& parts_;
  Graph graph_;
  std::map<std::string, ValueId> ids_;
};

class ProgramParser {
 public:
  explicit ProgramParser(std::string_view text) : parts_(text) {}

  Program run() {
    parts_.skip_newlines();
    if (parts_.accept_word("program")) {
      parts_.end_line();
    }
    Program program;
    while (parts_.accept_word("metadata")) {
      metadata(program);
      parts_.end_line();
    }
    while (parts_.accept_word("weight")) {
      program.weights.push_back(weight());
      parts_.end_line();
    }
    parts_.expect_word("graph");
    parts_.end_line();
    program.graph = GraphParser(parts_).run();
    if (parts_.accept_word("graph")) {
      parts_.expect_word("eval");
      parts_.end_line();
      program.eval_graph = GraphParser(parts_).run();
    }
    parts_.expect(Kind::kEnd, "the end of the text");
    return program;
  }

 private:
  void metadata(Program& program) {
    const std::size_t offset = parts_.peek().offset;
    const std::string key = parts_.string();
    parts_.expect_sign("=");
    if (!program.metadata.emplace(key, parts_.string()).second) {
      parts_.fail_at(offset, concat("expected each key of the metadata once, got ",
                                    quote_excerpt(key), " again."));
    }
  }

  Weight weight() {
    Weight weight;
    const auto kind = parts_.at(Kind::kWord) ? find_input_kind(parts_.peek().text) : std::nullopt;
    weight.kind = kind.value_or(InputKind::kUser);
    if (weight.kind == InputKind::kUser || weight.kind == InputKind::kLiteral) {
      parts_.fail_expected("'parameter', 'buffer' or 'constant'");
    }
    parts_.take();
    weight.name = parts_.string();
    parts_.expect_sign(":");
    weight.type = parts_.tensor_type(requires_grad_by_default(weight.kind));
    weight.persistent = !parts_.accept_word("transient");
    weight.storage_key = parts_.accept_word("key") ? parts_.string() : weight.name;
    return weight;
  }

  TextParts parts_;
};

}  // namespace

Program parse_text(std::string_view text) { return ProgramParser(text).run(); }

}  // namespace ravnest::graph
