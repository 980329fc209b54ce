#include "ravnest/relay/inward.h"

#include <chrono>
#include <exception>
#include <string>

#include "ravnest/relay/connections.h"

namespace ravnest::relay {

namespace {

constexpr std::chrono::seconds kConnectWithin{1};

void refuse(const TakePipe& take) {
  try {
    take({.on_bytes = [](std::span<const std::byte>) {}, .on_end = [] {}})->close();
  } catch (const std::exception&) {
    // It has ended already.
  }
}

}  // namespace

Inward::Inward(std::size_t connections)
    : connections_(std::make_unique<Connections>(connections)) {}

Inward::~Inward() = default;

void Inward::accept(std::uint16_t port, const TakePipe& take) {
  std::shared_ptr<Socket> socket = connect_to("127.0.0.1:" + std::to_string(port),
                                              std::chrono::steady_clock::now() + kConnectWithin);
  if (!socket || !connections_->add(std::move(socket), take)) {
    refuse(take);
  }
}

}  // namespace ravnest::relay
