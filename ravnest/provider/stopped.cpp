#include "ravnest/provider/stopped.h"

namespace ravnest::provider {

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    const std::string text = known.what();
    return text.substr(0, text.find('\n'));
  } catch (...) {
    return "an unknown error";
  }
}

}  // namespace ravnest::provider
