#pragma once

#include <httplib.h>

#include <array>
#include <chrono>
#include <string>

#include "ravnest/dashboard/http_server.h"

namespace ravnest::dashboard {

// One connection, for one request. Whatever the other side does, it ends: the request must have
// come whole before a deadline and be below a size, and what is written must be taken in time.
// Borrows its descriptor. One thread has it.
class Connection : public httplib::Stream {
 public:
  Connection(int descriptor, const HttpLimits& limits);

  bool is_readable() const override;
  bool is_writable() const override;
  ssize_t read(char* data, std::size_t size) override;
  ssize_t write(const char* data, std::size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  // The library refuses what select() cannot take; nothing here selects.
  socket_t socket() const override { return -1; }

  // Ends our side and takes what still comes, for a while: an answer that was sent before all of a
  // request was read would be lost otherwise.
  void finish();

 private:
  using TimePoint = std::chrono::steady_clock::time_point;

  ssize_t receive(TimePoint deadline);

  const int descriptor_;
  const HttpLimits limits_;
  const TimePoint read_by_;
  std::array<char, 4096> buffer_{};
  std::size_t begin_ = 0;  // of what is in the buffer and was not read
  std::size_t end_ = 0;
  std::size_t received_ = 0;
  bool has_written_ = false;
};

}  // namespace ravnest::dashboard
