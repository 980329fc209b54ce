#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>

namespace ravnest::cli {

// CLI11's own validators speak of ranges of floating-point numbers.
CLI::Validator whole_number(std::int64_t least, std::int64_t most);
CLI::Validator number_above(double least, double most);
CLI::Validator number_from(double least, double most);
CLI::Validator one_of(std::initializer_list<const char*> words);

}  // namespace ravnest::cli
