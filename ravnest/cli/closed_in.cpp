#include "ravnest/cli/closed_in.h"

#include <set>

#include "ravnest/base/address.h"
#include "ravnest/sandbox/sandbox.h"

namespace ravnest::cli {

std::string close_in(const package::NodeConfig& node, const ClosedInOptions& options) {
  std::set<std::uint16_t> ports;
  for (const package::ClusterMate& mate : node.mates) {
    ports.insert(parse_address(mate.address).port);
  }
  for (const package::NodeRing& ring : node.rings) {
    for (const std::string& member : ring.members) {
      ports.insert(parse_address(member).port);
    }
  }
  if (options.requester) {
    ports.insert(parse_address(*options.requester).port);
  }
  sandbox::SandboxOptions wanted{.writable = {options.node_data},
                                 .readable = options.readable,
                                 // gRPC binds a socket at one of the system's choice to see
                                 // whether there is IPv6; listening there needs no leave anyhow.
                                 .bind_ports = {parse_address(node.address).port, 0},
                                 .connect_ports = std::vector(ports.begin(), ports.end())};
  if (options.ram_gb) {
    wanted.memory_bytes = static_cast<std::uint64_t>(*options.ram_gb * 1e9);
    wanted.file_bytes = wanted.memory_bytes;  // a file is made of what it has in memory
  }
  return sandbox::enter(wanted).lacking;
}

}  // namespace ravnest::cli
