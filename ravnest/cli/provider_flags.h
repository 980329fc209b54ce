#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "ravnest/provider/averaging.h"
#include "ravnest/provider/provider.h"
#include "ravnest/provider/update_rule.h"

namespace ravnest::cli {

// What `ravnest provider` was told.
struct ProviderFlags {
  provider::ProviderOptions options;
  provider::RuleOptions rule;
  provider::AveragingWords averaging;
  std::string optimizer_options = "{}";
  std::string scheduler;
  std::string scheduler_options = "{}";
  std::string schedule = "async";
  std::string memory = "stash";
  std::string requester;
  double return_within = 60.0;
  double max_norm = 0.0;
  int threads = 0;
  std::int64_t seed = -1;
  bool steps_on_update = false;
  std::string identity;
  std::string members;
  bool quiet = false;
  std::string log_level = "info";
  std::int64_t epochs = 0;
  bool has_agent = false;
  bool is_closed_in = false;
  double ram = 0.0;
  bool measures = false;
};

void add_flags(CLI::App& command, ProviderFlags& flags);
// Throws std::invalid_argument for what cannot be.
provider::ProviderOptions to_options(const ProviderFlags& flags);
// "name@host:port"
transport::Peer parse_peer(const std::string& text);

}  // namespace ravnest::cli
