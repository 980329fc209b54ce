#pragma once

#include <cstddef>
#include <string_view>

namespace ravnest {

// Whether a JSON text nests lists and objects deeper than this. Looks at brackets outside
// strings alone, in one pass: whoever parses and prints JSON recurses, and must not be made
// to without end. Text that is not JSON is judged by its brackets all the same.
bool is_deeper_than(std::string_view json, std::size_t depth);

}  // namespace ravnest
