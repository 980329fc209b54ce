#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ravnest {

struct Address {
  std::string host;  // of IPv6 with its brackets
  std::uint16_t port = 0;
};

// Splits "host:port". Throws std::invalid_argument unless the whole is safe as the name of
// a folder: the host is of letters, digits, '.', '_' and '-', begins with neither '.'
// nor '-' and has no "..", or is an IPv6 address in brackets; the port is 1 to 65535.
Address parse_address(std::string_view text);

// To listen at all addresses of this machine: "[::]" where IPv4 comes there, too, else "0.0.0.0".
std::string every_host();

}  // namespace ravnest
