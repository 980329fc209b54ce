// Compiled without errno for mathematical functions (CMakeLists.txt of the engine): with it, a loop
// that takes a square root is not vectorised.

#include "ravnest/engine/optim/loops.h"

#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/TensorIterator.h>

#include <algorithm>
#include <utility>

#include "ravnest/engine/optim/rules.h"

// Elements are independent of each other, also where the result is the value: the compiler need
// not prove that the operands do not overlap.
#if defined(__clang__)
#define RAVNEST_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define RAVNEST_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace ravnest::engine::optim {

namespace {

template <typename Rule>
constexpr std::size_t kOperands = 2 + Rule::kRead + Rule::kKept;

// Operands in the order of the iterator: result, kept, value, read.
template <typename T, bool Dense, typename Rule, std::size_t... Reads, std::size_t... Keeps>
void run_loop(const Rule rule, const std::array<char*, kOperands<Rule>> data,
              const std::array<std::int64_t, kOperands<Rule>> strides, std::int64_t count,
              std::index_sequence<Reads...>, std::index_sequence<Keeps...>) {
  using Math = at::opmath_type<T>;
  const auto at = [&](std::size_t operand, std::int64_t i) -> T& {
    const std::int64_t stride = Dense ? static_cast<std::int64_t>(sizeof(T)) : strides[operand];
    return *reinterpret_cast<T*>(data[operand] + i * stride);
  };
  RAVNEST_INDEPENDENT
  for (std::int64_t i = 0; i < count; ++i) {
    Math value = at(1 + sizeof...(Keeps), i);
    const std::array<Math, sizeof...(Reads)> read = {at(2 + sizeof...(Keeps) + Reads, i)...};
    std::array<Math, sizeof...(Keeps)> kept = {at(1 + Keeps, i)...};
    rule(value, read, kept);
    ((at(1 + Keeps, i) = static_cast<T>(kept[Keeps])), ...);
    at(0, i) = static_cast<T>(value);
  }
}

template <typename T, typename Rule>
void run_row(const Rule& rule, const std::array<char*, kOperands<Rule>>& data,
             const std::array<std::int64_t, kOperands<Rule>>& strides, std::int64_t count) {
  constexpr std::make_index_sequence<Rule::kRead> kRead;
  constexpr std::make_index_sequence<Rule::kKept> kKept;
  const auto is_dense = [](std::int64_t stride) { return stride == sizeof(T); };
  if (std::ranges::all_of(strides, is_dense)) {
    run_loop<T, true>(rule, data, strides, count, kRead, kKept);
  } else {
    run_loop<T, false>(rule, data, strides, count, kRead, kKept);
  }
}

// What TensorIterator hands out: rows of one stride per operand, and the strides between rows.
template <typename T, typename Rule>
void run_rows(const Rule& rule, char* const* starts, const std::int64_t* strides,
              std::int64_t count, std::int64_t rows) {
  std::array<char*, kOperands<Rule>> data;
  std::array<std::int64_t, kOperands<Rule>> inner;
  std::copy_n(starts, data.size(), data.begin());
  std::copy_n(strides, inner.size(), inner.begin());
  for (std::int64_t row = 0; row < rows; ++row) {
    run_row<T>(rule, data, inner, count);
    for (std::size_t i = 0; i < data.size(); ++i) {
      data[i] += strides[data.size() + i];
    }
  }
}

template <typename Rule>
void apply_in_loop(const Rule& rule, at::ScalarType dtype, at::TensorIterator& operands) {
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, dtype, "optimizer", [&] {
    operands.for_each(
        [&rule](char** data, const std::int64_t* strides, std::int64_t count, std::int64_t rows) {
          run_rows<scalar_t>(rule, data, strides, count, rows);
        });
  });
}

template <typename Rule>
void apply_to_tensors(const Rule& rule, const at::Tensor& value, const at::Tensor& result,
                      const std::array<at::Tensor, Rule::kRead>& read,
                      const std::array<at::Tensor, Rule::kKept>& kept) {
  at::Tensor updated = value;
  std::array<at::Tensor, Rule::kKept> changed = kept;
  rule(updated, read, changed);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    kept[i].copy_(changed[i]);
  }
  result.copy_(updated);
}

template <std::size_t Count>
bool all_like(const at::Tensor& value, const std::array<at::Tensor, Count>& others) {
  return std::ranges::all_of(others, [&value](const at::Tensor& other) {
    return other.device() == value.device() && other.scalar_type() == value.scalar_type();
  });
}

}  // namespace

template <typename Rule>
void apply(const Rule& rule, const at::Tensor& value, const at::Tensor& result,
           const std::array<at::Tensor, Rule::kRead>& read,
           const std::array<at::Tensor, Rule::kKept>& kept) {
  const std::array<at::Tensor, 1> written = {result};
  if (!value.is_cpu() || !all_like(value, written) || !all_like(value, read) ||
      !all_like(value, kept)) {
    apply_to_tensors(rule, value, result, read, kept);
    return;
  }
  at::TensorIteratorConfig config;
  config.resize_outputs(false).add_output(result);
  for (const at::Tensor& tensor : kept) {
    config.add_output(tensor);
  }
  config.add_const_input(value);
  for (const at::Tensor& tensor : read) {
    config.add_const_input(tensor);
  }
  at::TensorIterator operands = config.build();
  apply_in_loop(rule, value.scalar_type(), operands);
  // What autograd saved of the result is now another value; it must notice.
  if (!result.is_inference()) {
    result.unsafeGetTensorImpl()->bump_version();
  }
}

#define RAVNEST_APPLY(...)                                                      \
  template void apply(const __VA_ARGS__&, const at::Tensor&, const at::Tensor&, \
                      const std::array<at::Tensor, __VA_ARGS__::kRead>&,        \
                      const std::array<at::Tensor, __VA_ARGS__::kKept>&)

RAVNEST_APPLY(SgdRule<false>);
RAVNEST_APPLY(SgdRule<true>);
RAVNEST_APPLY(AdamRule<false>);
RAVNEST_APPLY(AdamRule<true>);
RAVNEST_APPLY(NadamRule);
RAVNEST_APPLY(RmspropRule<false, false>);
RAVNEST_APPLY(RmspropRule<false, true>);
RAVNEST_APPLY(RmspropRule<true, false>);
RAVNEST_APPLY(RmspropRule<true, true>);
RAVNEST_APPLY(AdagradRule);
RAVNEST_APPLY(DriftRule);
RAVNEST_APPLY(AdaptiveDriftRule);
RAVNEST_APPLY(DelayRule);

}  // namespace ravnest::engine::optim
