#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ravnest/coordinator/state.h"

namespace ravnest::agent {

struct AgentOptions {
  std::string server;  // "host:port"
  std::filesystem::path data = "ravnest-provider";
  std::string name;                  // what people call this machine
  std::optional<std::string> token;  // to enrol with; not needed again where `data` has an identity
  std::optional<double> ram_gb;      // at most so much of the memory is lent
  std::optional<std::int64_t> threads;
  double disk_gb = 20.0;  // at most so much of fetched files is kept
  std::string host;       // where others reach this machine; empty: as the server sees it
  int port = 0;           // 0: a free one
  // The server is of the user's own program on this machine, and so is what it trains: nothing is
  // measured, encrypted or closed in.
  bool is_local = false;
  // `ravnest provider`, the program that holds a stage.
  std::vector<std::string> program;
  std::function<void(const std::string&)> tell = [](const std::string&) {};  // any thread
};

// A machine that is lent: enrols, joins, holds what it is given, reports, stays for the next job.
// A server that is away is tried again and again, while the stage goes on.
class Agent {
 public:
  // Enrols and measures. Throws std::invalid_argument where token or options cannot be, Error where
  // the server is not there.
  explicit Agent(AgentOptions options);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  // To be called several times a second, by one thread. False: it has left, and may be destroyed.
  // Throws what ended it: the server does not want it any more.
  bool tick();
  // Hands its stage over, and leaves: tick() says when.
  void leave();
  // Its stage keeps a checkpoint soon, or now where it is at rest.
  void keep_checkpoint();

  const coordinator::Measurements& measured() const;
  std::string describe() const;  // what it does, for people: a line

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ravnest::agent
