#include <ATen/core/Tensor.h>
#include <c10/core/WrapDimMinimal.h>

#include <cmath>
#include <unordered_map>

#include "ravnest/base/error.h"
#include "ravnest/engine/instruction.h"

namespace ravnest::engine {

namespace {

using c10::IValue;
using Arguments = std::vector<IValue>;

double as_double(const IValue& value) {
  return value.isBool() ? static_cast<double>(value.toBool()) : value.toScalar().toDouble();
}

bool is_integral(const IValue& value) { return value.isInt() || value.isBool(); }

std::int64_t as_int(const IValue& value) {
  return value.isBool() ? static_cast<std::int64_t>(value.toBool()) : value.toInt();
}

[[noreturn]] void throw_too_large() { throw_invalid("[engine] a size does not fit into 64 bits."); }

std::int64_t nonzero(std::int64_t divisor) {
  if (divisor == 0) {
    throw_invalid("[engine] a size is divided by zero.");
  }
  return divisor;
}

// Python's rounding: towards minus infinity.
std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  if (b == -1 && a == std::numeric_limits<std::int64_t>::min()) {
    throw_too_large();
  }
  const std::int64_t quotient = a / nonzero(b);
  return (a % b != 0 && (a < 0) != (b < 0)) ? quotient - 1 : quotient;
}

template <typename Ints, typename Doubles>
IValue arithmetic(const Arguments& args, Ints&& on_ints, Doubles&& on_doubles) {
  if (is_integral(args.at(0)) && is_integral(args.at(1))) {
    return on_ints(as_int(args[0]), as_int(args[1]));
  }
  return on_doubles(as_double(args[0]), as_double(args[1]));
}

template <typename Compare>
IValue compare(const Arguments& args, Compare&& holds) {
  if (is_integral(args.at(0)) && is_integral(args.at(1))) {
    return holds(as_int(args[0]), as_int(args[1]));
  }
  return holds(as_double(args[0]), as_double(args[1]));
}

std::int64_t integer_power(std::int64_t base, std::int64_t exponent) {
  if (base == 0 || base == 1 || base == -1) {
    return exponent == 0 ? 1 : (base == -1 && exponent % 2 == 0) ? 1 : base;
  }
  std::int64_t power = 1;
  for (std::int64_t i = 0; i < exponent; ++i) {  // at most 63 times, then it overflows
    if (__builtin_mul_overflow(power, base, &power)) {
      throw_too_large();
    }
  }
  return power;
}

IValue add(const Arguments& args) {
  return arithmetic(
      args,
      [](std::int64_t a, std::int64_t b) {
        return __builtin_add_overflow(a, b, &a) ? throw_too_large(), a : a;
      },
      std::plus<double>());
}
IValue sub(const Arguments& args) {
  return arithmetic(
      args,
      [](std::int64_t a, std::int64_t b) {
        return __builtin_sub_overflow(a, b, &a) ? throw_too_large(), a : a;
      },
      std::minus<double>());
}
IValue mul(const Arguments& args) {
  return arithmetic(
      args,
      [](std::int64_t a, std::int64_t b) {
        return __builtin_mul_overflow(a, b, &a) ? throw_too_large(), a : a;
      },
      std::multiplies<double>());
}
IValue floordiv(const Arguments& args) {
  return arithmetic(args, floor_div, [](double a, double b) { return std::floor(a / b); });
}
IValue mod(const Arguments& args) {
  return arithmetic(
      args, [](std::int64_t a, std::int64_t b) { return a - floor_div(a, b) * b; },
      [](double a, double b) { return a - std::floor(a / b) * b; });
}
IValue power(const Arguments& args) {
  if (is_integral(args.at(0)) && is_integral(args.at(1)) && as_int(args[1]) >= 0) {
    return integer_power(as_int(args[0]), as_int(args[1]));
  }
  return std::pow(as_double(args[0]), as_double(args[1]));
}
IValue truediv(const Arguments& args) { return as_double(args.at(0)) / as_double(args.at(1)); }
IValue maximum(const Arguments& args) {
  return compare(args, std::greater<>()).toBool() ? args[0] : args[1];
}
IValue minimum(const Arguments& args) {
  return compare(args, std::less<>()).toBool() ? args[0] : args[1];
}
IValue negate(const Arguments& args) {
  if (!is_integral(args.at(0))) {
    return -as_double(args[0]);
  }
  std::int64_t result = 0;
  if (__builtin_sub_overflow(std::int64_t{0}, as_int(args[0]), &result)) {
    throw_too_large();
  }
  return result;
}
IValue trunc(const Arguments& args) {
  if (is_integral(args.at(0))) {
    return as_int(args[0]);
  }
  const double value = as_double(args[0]);
  if (!(std::abs(value) < 9.2e18)) {
    throw_too_large();
  }
  return static_cast<std::int64_t>(value);
}
IValue bit_and(const Arguments& args) {
  return args.at(0).isBool() && args.at(1).isBool() ? IValue(args[0].toBool() && args[1].toBool())
                                                    : IValue(as_int(args[0]) & as_int(args[1]));
}
IValue bit_or(const Arguments& args) {
  return args.at(0).isBool() && args.at(1).isBool() ? IValue(args[0].toBool() || args[1].toBool())
                                                    : IValue(as_int(args[0]) | as_int(args[1]));
}
std::int64_t shift_of(const IValue& value) {
  const std::int64_t shift = as_int(value);
  if (shift < 0 || shift > 62) {
    throw_invalid("[engine] a size is shifted by ", shift, ".");
  }
  return shift;
}
IValue size_of(const Arguments& args) { return args.at(0).toTensor().size(args.at(1).toInt()); }
IValue stride_of(const Arguments& args) { return args.at(0).toTensor().stride(args.at(1).toInt()); }

const std::unordered_map<std::string, SizeFunction>& table() {
  static const std::unordered_map<std::string, SizeFunction> kTable{
      {"_operator.add", add},
      {"_operator.sub", sub},
      {"_operator.mul", mul},
      {"_operator.floordiv", floordiv},
      {"_operator.mod", mod},
      {"_operator.pow", power},
      {"_operator.truediv", truediv},
      {"_operator.neg", negate},
      {"_operator.pos", [](const Arguments& args) { return args.at(0); }},
      {"_operator.and_", bit_and},
      {"_operator.or_", bit_or},
      {"_operator.lshift",
       [](const Arguments& args) { return IValue(as_int(args.at(0)) << shift_of(args.at(1))); }},
      {"_operator.rshift",
       [](const Arguments& args) { return IValue(as_int(args.at(0)) >> shift_of(args.at(1))); }},
      {"_operator.eq", [](const Arguments& args) { return compare(args, std::equal_to<>()); }},
      {"_operator.ne", [](const Arguments& args) { return compare(args, std::not_equal_to<>()); }},
      {"_operator.lt", [](const Arguments& args) { return compare(args, std::less<>()); }},
      {"_operator.le", [](const Arguments& args) { return compare(args, std::less_equal<>()); }},
      {"_operator.gt", [](const Arguments& args) { return compare(args, std::greater<>()); }},
      {"_operator.ge", [](const Arguments& args) { return compare(args, std::greater_equal<>()); }},
      {"math.trunc", trunc},
      {"torch.sym_int", trunc},
      {"torch.sym_float", [](const Arguments& args) { return IValue(as_double(args.at(0))); }},
      {"torch._sym_sqrt",
       [](const Arguments& args) { return IValue(std::sqrt(as_double(args.at(0)))); }},
      {"torch.sym_sqrt",
       [](const Arguments& args) { return IValue(std::sqrt(as_double(args.at(0)))); }},
      {"torch.sym_not", [](const Arguments& args) { return IValue(!args.at(0).toBool()); }},
      {"torch.sym_ite",
       [](const Arguments& args) { return args.at(0).toBool() ? args.at(1) : args.at(2); }},
      {"torch.sym_max", maximum},
      {"torch.sym_min", minimum},
      {"aten.sym_size.int", size_of},
      {"aten.sym_stride.int", stride_of},
      {"aten.sym_numel.default",
       [](const Arguments& args) { return IValue(args.at(0).toTensor().numel()); }},
      {"aten.sym_storage_offset.default",
       [](const Arguments& args) { return IValue(args.at(0).toTensor().storage_offset()); }},
      {"aten.sym_is_contiguous.default",
       [](const Arguments& args) { return IValue(args.at(0).toTensor().is_contiguous()); }},
  };
  return kTable;
}

}  // namespace

SizeFunction find_size_function(const std::string& target) {
  const auto found = table().find(target);
  return found == table().end() ? nullptr : found->second;
}

}  // namespace ravnest::engine
