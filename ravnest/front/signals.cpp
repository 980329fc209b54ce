#include "ravnest/front/signals.h"

#include <algorithm>
#include <ctime>

namespace ravnest::front {

namespace {

// By `nohup`: it shall outlive the terminal.
bool is_ignored(int signal) {
  struct sigaction action{};
  ::sigaction(signal, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

}  // namespace

Signals::Signals() {
  sigemptyset(&awaited_);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) {
    sigaddset(&awaited_, signal);
  }
  if (!is_ignored(SIGHUP)) {
    sigaddset(&awaited_, SIGHUP);
  }
  pthread_sigmask(SIG_BLOCK, &awaited_, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

int Signals::wait() {
  int signal = 0;
  sigwait(&awaited_, &signal);
  return signal;
}

int Signals::wait(std::chrono::milliseconds timeout) {
  const timespec time{.tv_sec = timeout.count() / 1000,
                      .tv_nsec = timeout.count() % 1000 * 1'000'000};
  return std::max(sigtimedwait(&awaited_, nullptr, &time), 0);
}

}  // namespace ravnest::front
