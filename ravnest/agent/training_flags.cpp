#include "ravnest/agent/training_flags.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ravnest/base/error.h"
#include "ravnest/base/json_text.h"
#include "ravnest/base/table.h"

namespace ravnest::agent {

namespace {

constexpr std::size_t kDeepest = 8;

// As the command has them, with '-' for '_'.
constexpr std::string_view kOptions[] = {"optimizer",        "optimizer_options",
                                         "scheduler",        "scheduler_options",
                                         "schedule",         "memory",
                                         "update_frequency", "codec",
                                         "max_norm",         "warmup_updates",
                                         "compensation",     "reduce_factor",
                                         "averaging",        "averaging_codec",
                                         "robust",           "outer",
                                         "outer_lr",         "outer_momentum",
                                         "streams",          "patience",
                                         "checkpoint_every", "seed"};
constexpr std::string_view kLocalOption = "reduce";
constexpr std::string_view kSwitches[] = {"step_on_update", "predict_weights", "average_optim"};

}  // namespace

std::vector<std::string> training_flags(std::string_view training, bool is_local) {
  std::vector<std::string> flags;
  if (training.empty()) {
    return flags;
  }
  const auto json = is_deeper_than(training, kDeepest)
                        ? nlohmann::json()
                        : nlohmann::json::parse(training, nullptr, false);
  if (!json.is_object()) {
    throw_invalid("[agent] expected a job's options as an object, got something else.");
  }
  for (const auto& [key, value] : json.items()) {
    std::string flag = "--" + key;
    std::ranges::replace(flag, '_', '-');
    if (std::ranges::find(kOptions, key) != std::end(kOptions) ||
        (is_local && key == kLocalOption)) {
      if (value.is_null()) {
        continue;
      }
      flags.push_back(flag + "=" + (value.is_string() ? value.get<std::string>() : value.dump()));
    } else if (std::ranges::find(kSwitches, key) != std::end(kSwitches) && value.is_boolean()) {
      if (value.get<bool>()) {
        flags.push_back(flag);
      }
    } else {
      throw_invalid("[agent] expected an option that providers know, got '",
                    printable(key.substr(0, 64)), "'.");
    }
  }
  return flags;
}

}  // namespace ravnest::agent
