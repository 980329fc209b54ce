#include "ravnest/provider/stopped.h"

namespace ravnest::provider {

std::optional<int> exit_code_of(const std::exception_ptr& error) {
  try {
    if (error) {
      std::rethrow_exception(error);
    }
  } catch (const StoppedRun& stopped) {
    return stopped.exit_code();
  } catch (...) {
  }
  return std::nullopt;
}

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
