#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

namespace ravnest::relay {

// A random word by which a machine is known when somebody looks whether it can be reached.
using Nonce = std::array<std::byte, 16>;

Nonce draw_nonce();
// 32 hexadecimal digits, and back. Throws std::invalid_argument.
std::string to_digits(const Nonce& nonce);
Nonce read_nonce(const std::string& digits);

// Says the nonce to whoever connects, one at a time, until it is destroyed: a machine opens it at
// the address that it wants to be reached at, and asks the server to look.
class Echo {
 public:
  // Listens at "host:port". Throws Error(kIo) where the port is taken.
  Echo(const std::string& address, const Nonce& nonce);
  ~Echo();
  Echo(const Echo&) = delete;
  Echo& operator=(const Echo&) = delete;

  // As given, with the real port.
  const std::string& address() const;

 private:
  class Loop;
  const std::unique_ptr<Loop> loop_;
};

// Whether the nonce is heard at this address in time. It connects wherever it is told to: a server
// gives the address that a member's connection came from, not one of the member's choice.
bool answers(const std::string& address, const Nonce& nonce,
             std::chrono::milliseconds timeout = std::chrono::milliseconds(1000));

}  // namespace ravnest::relay
