// Reads the input as a server's view of a job: nothing in it drives the terminal that shows it.

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "ravnest/base/table.h"
#include "ravnest/front/job_page.h"
#include "tests/fuzz/finding.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto view = nlohmann::json::parse(data, data + size);
    const std::string page = ravnest::front::job_page(view, ravnest::Style());
    ravnest::require(std::ranges::none_of(page, [](char c) {
      return c != '\n' && (static_cast<unsigned char>(c) < 0x20 || c == 0x7f);
    }));
  } catch (const nlohmann::json::exception&) {  // is not a view, and said so
  }
  return 0;
}
