#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "ravnest/base/table.h"

namespace ravnest::front {

// A job as `ravnest status JOB` shows it: how it stands, a table of stages for each cluster, the
// last of what happened. `job` is the server's view of it; see coordinator/view.h.
std::string job_page(const nlohmann::json& job, const Style& style);

// "2026-01-31 12:00:00", here.
std::string clock_time(std::int64_t seconds);

}  // namespace ravnest::front
