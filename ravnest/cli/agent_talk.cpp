#include "ravnest/cli/agent_talk.h"

#include <c10/util/Exception.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>
#include <nlohmann/json.hpp>
#include <utility>

#include "ravnest/base/error.h"
#include "ravnest/base/table.h"
#include "ravnest/cli/ending_signals.h"
#include "ravnest/provider/stopped.h"

namespace ravnest::cli {

namespace {

constexpr const char* kKeep = "keep";
constexpr std::size_t kLongestWord = 256;

int open_signals() {
  const sigset_t signals = ending_signals();
  const int descriptor = ::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  if (descriptor < 0) {
    throw Error(ErrorKind::kIo, concat("cannot wait for signals: ", std::strerror(errno), "."));
  }
  return descriptor;
}

}  // namespace

AgentTalk::AgentTalk() : signals_(open_signals()) {
  std::signal(SIGPIPE, SIG_IGN);  // the end of our input says it better
}

AgentTalk::~AgentTalk() { ::close(signals_); }

std::vector<std::string> AgentTalk::listen(std::chrono::milliseconds timeout) {
  std::vector<std::string> words;
  pollfd files[] = {{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0},
                    {.fd = signals_, .events = POLLIN, .revents = 0}};
  if (::poll(files, std::size(files), static_cast<int>(timeout.count())) <= 0) {
    return words;
  }
  if (files[0].revents != 0) {
    read_input(words);
  }
  if (files[1].revents != 0) {
    words.emplace_back(kKeep);
  }
  return words;
}

void AgentTalk::read_input(std::vector<std::string>& words) {
  char bytes[4096];
  const ssize_t count = ::read(STDIN_FILENO, bytes, sizeof bytes);
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) {
    return;
  }
  if (count <= 0) {
    words.emplace_back(kKeep);
    return;
  }
  begun_.append(bytes, static_cast<std::size_t>(count));
  for (std::size_t end = 0; (end = begun_.find('\n')) != std::string::npos;) {
    words.push_back(begun_.substr(0, end));
    begun_.erase(0, end + 1);
  }
  if (begun_.size() > kLongestWord) {
    words.push_back(std::exchange(begun_, {}));
  }
}

void AgentTalk::say(const nlohmann::json& event) {
  using Handling = nlohmann::json::error_handler_t;
  const std::string line = event.dump(-1, ' ', false, Handling::replace) + "\n";
  const std::lock_guard lock(mutex_);
  for (std::size_t written = 0; written < line.size();) {
    const ssize_t count = ::write(STDOUT_FILENO, line.data() + written, line.size() - written);
    if (count < 0 && errno != EINTR) {
      return;
    }
    written += count > 0 ? static_cast<std::size_t>(count) : 0;
  }
}

void AgentTalk::note(const std::string& text) {
  say({{"event", "note"}, {"text", printable(text)}});
}

nlohmann::json failure_event(const std::exception_ptr& error, const std::string& suspect) {
  bool is_memory = false;
  bool is_final = false;
  try {
    std::rethrow_exception(error);
  } catch (const std::bad_alloc&) {
    is_memory = true;
  } catch (const c10::OutOfMemoryError&) {
    is_memory = true;
  } catch (const c10::Error& failed) {  // c10 has no class of its own for a machine's memory
    is_memory = std::strstr(failed.what_without_backtrace(), "not enough memory") != nullptr;
    is_final = !is_memory;  // what the model cannot compute here, it cannot elsewhere
  } catch (const provider::LocalFault&) {  // another's values, or this machine's files
  } catch (const std::invalid_argument& bad) {
    // A peer that refuses us does so for reasons of its own.
    is_final = !std::string_view(bad.what()).starts_with("[transport]");
  } catch (...) {
  }
  return {{"event", "failed"},
          {"reason", printable(provider::text_of(error))},
          {"is_memory", is_memory},
          {"is_final", is_final},
          {"suspect", is_memory ? "" : suspect}};
}

}  // namespace ravnest::cli
