// Reads the input as a line of the process that holds a stage, which runs a stranger's model: what
// is passed on to the server is what it takes.

#include <cmath>
#include <cstdint>
#include <string>

#include "ravnest/agent/child_line.h"
#include "ravnest/coordinator/limits.h"
#include "ravnest/coordinator/words.h"
#include "tests/fuzz/finding.h"

namespace ravnest::agent {
namespace {

using namespace coordinator;

void read_line(const std::string& line) {
  const auto said = ChildLine::read(line);
  if (!said) {
    return;
  }
  const Report report = said->report();
  for (const double number :
       {report.loss, report.accuracy, report.samples_per_second, report.delay, report.send_mbps,
        report.receive_mbps, report.computing, report.waiting, report.sending}) {
    require(std::abs(number) <= static_cast<double>(kLargestNumber));
  }
  for (const std::int64_t number : {report.version, report.memory_bytes, said->version()}) {
    require(number >= 0 && number <= kLargestNumber);
  }
  for (const char* key : {"reason", "text", "peer", "averaging"}) {
    require(said->text(key).size() <= kLongestText);
  }
  static_cast<void>(said->is("is_memory"));
  // It can be told, whatever is in its texts.
  static_cast<void>(to_text(ProviderWord(Tells{Post{}, report})));
}

}  // namespace
}  // namespace ravnest::agent

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ravnest::agent::read_line(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
