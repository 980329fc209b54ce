#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace ravnest::relay {

// A TCP connection. One thread sends, one receives, and any may shut it down.
class Socket {
 public:
  // Takes a connected descriptor.
  explicit Socket(int descriptor);
  ~Socket();
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  // Waits until all is sent. False once it has ended.
  bool send(std::span<const std::byte> bytes) const;
  // The same, and false at the deadline.
  bool send(std::span<const std::byte> bytes, std::chrono::steady_clock::time_point deadline) const;
  // Waits for bytes; how many came, 0 once it has ended.
  std::size_t receive(std::span<std::byte> bytes) const;
  // The same, and 0 at the deadline.
  std::size_t receive(std::span<std::byte> bytes,
                      std::chrono::steady_clock::time_point deadline) const;
  // Both directions. What was sent still arrives. Who waits returns.
  void shut_down() const;

 private:
  const int descriptor_;
};

// Nothing where nobody accepts until the deadline. Throws std::invalid_argument for what is no
// address, and Error(kIo) for a name that is not known; asking for a name has its own deadline.
std::unique_ptr<Socket> connect_to(const std::string& address,
                                   std::chrono::steady_clock::time_point deadline);

}  // namespace ravnest::relay
