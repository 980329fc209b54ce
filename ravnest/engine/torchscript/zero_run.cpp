#include "ravnest/engine/torchscript/zero_run.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zero.h>

#include <mutex>

#include "ravnest/engine/torchscript/probes.h"
#include "ravnest/engine/torchscript/types.h"

namespace ravnest::engine {

namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 31;

// Replaces every tensor of a value, lists included, by `replace(tensor)`.
template <typename Replace>
c10::IValue with_tensors(const c10::IValue& value, Replace&& replace) {
  if (value.isTensor()) {
    return value.toTensor().defined() ? c10::IValue(replace(value.toTensor())) : value;
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> replaced;
    for (const at::Tensor& tensor : value.toTensorVector()) {
      replaced.push_back(replace(tensor));
    }
    return replaced;
  }
  if (value.isList()) {
    c10::impl::GenericList replaced(value.toList().elementType());
    for (const c10::IValue& item : value.toListRef()) {
      replaced.push_back(with_tensors(item, replace));
    }
    return replaced;
  }
  return value;
}

struct TooLarge {};

class Zeros {
 public:
  at::Tensor operator()(const at::Tensor& form) {
    nbytes_ += form.storage().nbytes();
    if (nbytes_ > kMostBytes) {
      throw TooLarge();
    }
    return at::empty_strided(form.sizes(), form.strides(), form.options().device(c10::kCPU))
        .zero_();
  }

 private:
  std::size_t nbytes_ = 0;
};

bool depends_on_values(const c10::OperatorHandle& op) {
  return op.hasTag(at::Tag::dynamic_output_shape) || op.hasTag(at::Tag::data_dependent_output);
}

c10::IValue on_cpu(const c10::IValue& value) {
  return value.isDevice() ? c10::IValue(c10::Device(c10::kCPU)) : value;
}

// The results that are arguments changed in place.
void restore_aliases(const c10::FunctionSchema& schema, const std::vector<c10::IValue>& arguments,
                     std::vector<c10::IValue>& results) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto* returned = schema.returns()[i].alias_info();
    for (std::size_t j = 0; returned != nullptr && returned->isWrite() && j < arguments.size();
         ++j) {
      const auto* given = schema.arguments()[j].alias_info();
      if (given != nullptr && *given == *returned) {
        results[i] = arguments[j];
      }
    }
  }
}

// Puts the generator back when a trial ends.
class GeneratorGuard {
 public:
  GeneratorGuard() : generator_(at::detail::getDefaultCPUGenerator()) {
    const std::scoped_lock lock(generator_.mutex());
    state_ = generator_.get_state();
  }
  ~GeneratorGuard() {
    const std::scoped_lock lock(generator_.mutex());
    generator_.set_state(state_);
  }
  GeneratorGuard(const GeneratorGuard&) = delete;
  GeneratorGuard& operator=(const GeneratorGuard&) = delete;

 private:
  at::Generator generator_;
  at::Tensor state_;
};

}  // namespace

ZeroRun run_on_zeros(const c10::OperatorHandle& op, const std::vector<c10::IValue>& arguments) {
  if (depends_on_values(op)) {
    return {.results = std::nullopt,
            .refusal = "the shape of its result depends on values",
            .depends_on_values = true};
  }
  const at::NoGradGuard no_grad;
  const GeneratorGuard generator;
  try {
    std::vector<c10::IValue> stack;
    for (const c10::IValue& argument : arguments) {
      stack.push_back(on_cpu(with_tensors(argument, Zeros())));
    }
    op.callBoxed(stack);
    for (c10::IValue& result : stack) {
      result = with_tensors(result, [](const at::Tensor& t) { return without_data(t); });
    }
    restore_aliases(op.schema(), arguments, stack);
    return {.results = std::move(stack), .refusal = ""};
  } catch (const TooLarge&) {
    return {};
  } catch (const std::exception& error) {
    return {.results = std::nullopt, .refusal = brief_error(error)};
  }
}

}  // namespace ravnest::engine
