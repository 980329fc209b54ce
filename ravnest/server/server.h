#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ravnest/coordinator/durable.h"

namespace ravnest::server {

struct ServerOptions {
  std::string listen = "0.0.0.0:7777";
  std::string http = "127.0.0.1:7780";  // empty: no dashboard
  std::vector<std::string> http_hosts;  // further names that it is asked by, behind a proxy
  bool allows_plain_http = false;       // also where the network can read it: not on loopback
  std::filesystem::path data = "ravnest-server";
  // It cannot go on: the log cannot be written. Nothing is acknowledged from here on.
  std::function<void(const std::string& reason)> on_broken = [](const std::string&) {};
};

// The whole intermediary server, from its construction to its destruction. Its folder:
//   ca.key, ca.crt     its authority
//   log.sqlite         what may not be forgotten
//   artifacts/         Programs, sub-models, checkpoints, results
//   server.json        where it listens, for `ravnest token` and the like on this machine
//   owner.secret       opens the dashboard's buttons
class Server {
 public:
  // Throws std::invalid_argument for options or a folder that cannot be, Error(kIo) where a port or
  // the folder is taken.
  explicit Server(const ServerOptions& options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  const std::string& address() const;  // with the real port
  std::string http_address() const;    // empty: there is none

  // A token to join with.
  std::string make_token(coordinator::Role role, std::int64_t uses, std::int64_t minutes);
  // Secret; who has it may press the dashboard's buttons.
  const std::string& owner_secret() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ravnest::server
