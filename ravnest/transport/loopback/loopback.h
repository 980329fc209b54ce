#pragma once

#include <memory>
#include <string>

#include "ravnest/transport/carrier.h"
#include "ravnest/transport/transport.h"

namespace ravnest::transport {

class LoopbackNetwork;

// A network within this process: its transports reach each other by address, any text. It lives as
// long as one of them does.
std::shared_ptr<LoopbackNetwork> make_loopback_network();

// Every carrier has a thread of its own, on which the owners of its streams are called. An address
// that is taken throws Error(kIo) at start.
std::unique_ptr<Carrier> make_loopback_carrier(std::shared_ptr<LoopbackNetwork> network,
                                               const std::string& address);

std::unique_ptr<Transport> make_loopback_transport(std::shared_ptr<LoopbackNetwork> network,
                                                   const std::string& address,
                                                   const TransportOptions& options);

}  // namespace ravnest::transport
