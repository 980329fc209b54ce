#pragma once

#include <functional>
#include <string>

#include "ravnest/provider/provider.h"

namespace ravnest::cli {

// Of a provider, with an agent or without.
inline constexpr provider::Milliseconds kGoodbye{5000};
inline constexpr provider::Milliseconds kTick{250};  // between two looks at how it goes

// Runs a provider that an agent keeps, until the run is over or the agent has it end. SIGINT and
// SIGTERM must be blocked. Words in: "keep", "checkpoint". Events out: ready, report twice a
// second as long as its stage gets on, checkpoint, saved, note, and failed before what ended it is
// thrown. `close_in`, if any, closes this process in before anything else, and says what the kernel
// lacks.
void run_for_agent(const std::function<provider::ProviderOptions()>& make_options,
                   const std::function<std::string()>& close_in);

}  // namespace ravnest::cli
