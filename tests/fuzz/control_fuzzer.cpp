// Reads the input as each kind of word that the server and its members say to each other. What is
// taken is written and read again, to the same text.

#include <cstdint>
#include <string>
#include <string_view>

#include "ravnest/coordinator/words.h"
#include "tests/fuzz/finding.h"

namespace ravnest::coordinator {
namespace {

template <typename Read>
void try_reading(Read read, std::string_view text) {
  accepted([&] {
    const std::string again = to_text(read(text));
    // Refused here, it would be a finding: what we say, we understand.
    require(accepted([&] { require(to_text(read(again)) == again); }));
  });
}

}  // namespace
}  // namespace ravnest::coordinator

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ravnest::coordinator;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try_reading(read_provider_word, text);
  try_reading(read_server_word, text);
  try_reading(read_requester_word, text);
  try_reading(read_feed_word, text);
  try_reading(read_question, text);
  try_reading(read_results, text);
  return 0;
}
