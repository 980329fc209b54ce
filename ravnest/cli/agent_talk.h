#pragma once

#include <chrono>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace ravnest::cli {

// How a process talks with the agent that started it: words on standard input, a line each, and
// JSON on standard output, an object each line. SIGINT and SIGTERM, which must be blocked, and the
// end of the input are the word "keep". Input is for one thread, output for any.
class AgentTalk {
 public:
  AgentTalk();
  ~AgentTalk();
  AgentTalk(const AgentTalk&) = delete;
  AgentTalk& operator=(const AgentTalk&) = delete;

  // The words that came, waiting so long for the first.
  std::vector<std::string> listen(std::chrono::milliseconds timeout);
  // An agent that is gone does not hear it.
  void say(const nlohmann::json& event);
  void note(const std::string& text);

 private:
  void read_input(std::vector<std::string>& words);

  const int signals_;  // descriptor
  std::string begun_;  // the part of a line that is there
  std::mutex mutex_;   // held while a line is written
};

// {"event":"failed", …}: why the process ends, whether for want of memory, whether nobody else
// would fare better, and the neighbour that may be to blame.
nlohmann::json failure_event(const std::exception_ptr& error, const std::string& suspect = {});

}  // namespace ravnest::cli
