#pragma once

#include <string>
#include <string_view>

namespace ravnest::graph {

// [A-Za-z_][A-Za-z0-9_]*
bool is_identifier(std::string_view text);
// [A-Za-z_][A-Za-z0-9_.]*
bool is_dotted_identifier(std::string_view text);

// The text in double quotes, with escapes (\" \\ \n \t \r \xNN) for everything
// that is not printable ASCII, so that the result is safe in any message.
std::string quote(std::string_view text);

// As `quote`, cut to a length that suits an error message.
std::string quote_excerpt(std::string_view text);

}  // namespace ravnest::graph
