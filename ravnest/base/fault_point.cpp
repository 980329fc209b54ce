#include "ravnest/base/fault_point.h"

#include <sys/mman.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "ravnest/base/error.h"

namespace ravnest {

namespace {

constexpr const char* kVariable = "RAVNEST_FAULT_POINTS";

FaultOrder* find_order() {
  const char* text = std::getenv(kVariable);
  if (text == nullptr) {
    return nullptr;
  }
  int descriptor = -1;
  std::from_chars(text, text + std::strlen(text), descriptor);
  void* memory =
      ::mmap(nullptr, sizeof(FaultOrder), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) {
    throw_invalid("[base] expected ", kVariable, " to be the descriptor of an order, got '", text,
                  "'.");
  }
  return static_cast<FaultOrder*>(memory);
}

std::string_view name_in(const FaultOrder& order) {
  return {order.name.data(), ::strnlen(order.name.data(), order.name.size())};
}

}  // namespace

void fault_point(std::string_view name) {
  static FaultOrder* const kOrder = find_order();
  if (kOrder == nullptr || kOrder->left.load(std::memory_order_acquire) <= 0 ||
      name_in(*kOrder) != name || kOrder->left.fetch_sub(1) != 1) {
    return;
  }
  kOrder->hit.store(::getpid());
  ::kill(::getpid(), SIGSTOP);
}

}  // namespace ravnest
