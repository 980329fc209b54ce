#pragma once

#include <nlohmann/json_fwd.hpp>

#include "ravnest/provider/provider.h"

namespace ravnest::cli {

// How a provider fares, as {"event":"report", …}: rates and shares of time are those since the
// report before.
class ProviderReport {
 public:
  nlohmann::json make(const provider::Provider& running);

 private:
  provider::StageLoop::Status before_;
};

}  // namespace ravnest::cli
