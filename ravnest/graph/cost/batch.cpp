#include "ravnest/graph/cost/batch.h"

#include "ravnest/base/error.h"

namespace ravnest::graph {

namespace {

void check_batch(const Graph& graph, const Batch& batch, std::int64_t wanted) {
  if (wanted < 1) {
    throw_invalid("[graph] expected a batch of 1 or more, got ", wanted, ".");
  }
  if (batch.symbols.empty()) {
    if (batch.captured && *batch.captured == wanted) {
      return;
    }
    if (!batch.captured) {
      throw_invalid("[graph] expected a model whose shapes are known, got batch ", wanted,
                    " for one that was captured without example inputs. Capture it with some.");
    }
    throw_invalid("[graph] expected batch ", *batch.captured,
                  ", which the model was captured with and is fixed to, got ", wanted, ".");
  }
  for (const std::string& name : batch.symbols) {
    const auto symbol = graph.symbols.find(name);
    if (symbol != graph.symbols.end() && symbol->second.max && wanted > *symbol->second.max) {
      throw_invalid("[graph] expected a batch of ", *symbol->second.max, " or less, got ", wanted,
                    ".");
    }
  }
}

}  // namespace

Batch find_batch(const Graph& graph) {
  Batch batch;
  for (const Input* input : graph.user_inputs()) {
    if (input->kind != InputKind::kUser) {
      continue;
    }
    const TensorType& type = graph.value(input->value).type;
    if (!type.is_known() || type.sizes.empty()) {
      continue;
    }
    if (const std::string* symbol = type.sizes[0].find_symbol()) {
      batch.symbols.insert(*symbol);
    }
    if (!batch.captured) {
      batch.captured = type.sizes[0].evaluate(graph.hints());
    }
  }
  return batch;
}

SymbolValues batch_symbols(const Graph& graph, const Batch& batch,
                           std::optional<std::int64_t> wanted) {
  SymbolValues symbols = graph.hints();
  if (wanted) {
    check_batch(graph, batch, *wanted);
    for (const std::string& name : batch.symbols) {
      symbols[name] = *wanted;
    }
  }
  return symbols;
}

}  // namespace ravnest::graph
