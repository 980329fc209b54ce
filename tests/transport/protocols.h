#pragma once

#include <google/protobuf/descriptor.pb.h>

#include <algorithm>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace ravnest::transport {

// Every method of every service in proto/: "/package.Service/Method".
inline std::vector<std::string> all_methods() {
  google::protobuf::FileDescriptorSet files;
  std::ifstream description(RAVNEST_PROTOCOLS, std::ios::binary);
  if (!files.ParseFromIstream(&description)) {
    throw std::runtime_error("no description of the protocols in " RAVNEST_PROTOCOLS);
  }
  std::vector<std::string> found;
  for (const auto& file : files.file()) {
    for (const auto& service : file.service()) {
      for (const auto& method : service.method()) {
        found.push_back("/" + file.package() + "." + service.name() + "/" + method.name());
      }
    }
  }
  std::ranges::sort(found);
  return found;
}

// The server's own have a matrix in tests/server.
inline bool is_of_server(const std::string& method) {
  return method.starts_with("/ravnest.control.");
}

}  // namespace ravnest::transport
