// Reads the input as the text form: what is accepted prints and reads again the
// same, and a Program that lint accepts goes through every pass.

#include <string>
#include <string_view>

#include "tests/fuzz/passes.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ravnest::graph;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Program program;
  if (!accepted([&] { program = parse_text(text); })) {
    return 0;
  }
  const std::string printed = to_text(program);
  require(to_text(parse_text(printed)) == printed);
  if (accepted([&] { lint(program, "fuzz"); })) {
    run_passes(program);
  }
  return 0;
}
