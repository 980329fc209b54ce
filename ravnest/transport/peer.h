#pragma once

#include <map>
#include <string>

namespace ravnest::transport {

// Another node, and where it listens.
struct Peer {
  std::string name;
  std::string address;  // "host:port"
  // The id that its certificate must carry, where a transport has credentials; empty: the one that
  // Members say.
  std::string member{};
};

// Who may bear which name, by the current plan: the name of a node, the id in its certificate.
using Members = std::map<std::string, std::string>;

}  // namespace ravnest::transport
