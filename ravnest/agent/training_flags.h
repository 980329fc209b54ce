#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ravnest::agent {

// A job's own options (coordinator::JobOptions::training), JSON such as {"optimizer": "adam",
// "codec": "fp16"}, as flags of `ravnest provider`. They come from a stranger: only what is known
// is passed on, and nothing that names a file. With `is_local` it is no stranger, and how clusters
// reach each other is the job's to say, too. Throws std::invalid_argument.
std::vector<std::string> training_flags(std::string_view training, bool is_local = false);

}  // namespace ravnest::agent
