#pragma once

#include <csignal>

namespace ravnest::cli {

// Those by which people and systems end a program.
inline sigset_t ending_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

}  // namespace ravnest::cli
