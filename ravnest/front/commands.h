#pragma once

#include "ravnest/cli/command.h"

namespace ravnest::front {

using cli::Command;

Command add_serve(CLI::App& app);
Command add_token(CLI::App& app);
Command add_join(CLI::App& app);
Command add_pause(CLI::App& app);
Command add_resume(CLI::App& app);
Command add_remove(CLI::App& app);
Command add_status(CLI::App& app);
Command add_logs(CLI::App& app);
Command add_cancel(CLI::App& app);
Command add_fetch(CLI::App& app);
Command add_pool(CLI::App& app);
Command add_doctor(CLI::App& app);

}  // namespace ravnest::front
