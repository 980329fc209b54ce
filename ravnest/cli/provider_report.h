#pragma once

#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "ravnest/provider/provider.h"

namespace ravnest::cli {

// How a provider fares, as {"event":"report", …}: rates and shares of time are those since the
// report before.
class ProviderReport {
 public:
  nlohmann::json make(const provider::Provider& running);
  // What was said last of averaging with other clusters. Any thread.
  void note_averaging(std::string sentence);

 private:
  std::mutex mutex_;  // guards what follows
  std::string averaging_;
  provider::StageLoop::Status before_;
};

}  // namespace ravnest::cli
