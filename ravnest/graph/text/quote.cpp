#include "ravnest/graph/text/quote.h"

#include <algorithm>

namespace ravnest::graph {

namespace {

constexpr std::size_t kExcerpt = 80;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

void append_escaped(std::string& out, char c) {
  constexpr std::string_view kHex = "0123456789abcdef";
  const auto code = static_cast<unsigned char>(c);
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\t':
      out += "\\t";
      return;
    case '\r':
      out += "\\r";
      return;
    default:
      break;
  }
  if (code >= 0x20 && code < 0x7f) {
    out += c;
  } else {
    out += "\\x";
    out += kHex[code >> 4U];
    out += kHex[code & 0xfU];
  }
}

}  // namespace

bool is_identifier(std::string_view text) {
  return is_dotted_identifier(text) && text.find('.') == std::string_view::npos;
}

bool is_dotted_identifier(std::string_view text) {
  return !text.empty() && is_letter(text.front()) && std::ranges::all_of(text, [](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '.';
  });
}

std::string quote(std::string_view text) {
  std::string out = "\"";
  out.reserve(text.size() + 2);
  for (const char c : text) {
    append_escaped(out, c);
  }
  out += '"';
  return out;
}

std::string quote_excerpt(std::string_view text) {
  return text.size() <= kExcerpt ? quote(text) : quote(text.substr(0, kExcerpt)) + "...";
}

}  // namespace ravnest::graph
