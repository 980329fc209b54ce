#include "ravnest/front/signals.h"

#include <algorithm>
#include <csignal>
#include <ctime>

namespace ravnest::front {

namespace {

sigset_t awaited_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGUSR1);
  return signals;
}

}  // namespace

Signals::Signals() {
  const sigset_t signals = awaited_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

int Signals::wait(std::chrono::milliseconds timeout) {
  const sigset_t signals = awaited_signals();
  const timespec time{.tv_sec = timeout.count() / 1000,
                      .tv_nsec = timeout.count() % 1000 * 1'000'000};
  return std::max(sigtimedwait(&signals, nullptr, &time), 0);
}

}  // namespace ravnest::front
