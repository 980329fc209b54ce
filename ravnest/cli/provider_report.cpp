#include "ravnest/cli/provider_report.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "ravnest/base/resident_bytes.h"

namespace ravnest::cli {

void ProviderReport::note_averaging(std::string sentence) {
  const std::lock_guard lock(mutex_);
  averaging_ = std::move(sentence);
}

nlohmann::json ProviderReport::make(const provider::Provider& running) {
  const auto status = running.status();
  const auto& now = status.loop;
  const auto before = std::exchange(before_, now);
  const double seconds = std::max(
      std::chrono::duration<double>(now.spent.total() - before.spent.total()).count(), 1e-9);
  const auto share = [&](auto spent) {
    return std::chrono::duration<double>(now.spent.*spent - before.spent.*spent).count() / seconds;
  };
  const auto mbps = [&](std::uint64_t from, std::uint64_t to) {
    return static_cast<double>(to - from) * 8e-6 / seconds;
  };
  using Spent = provider::Activities::Spent;
  const provider::PassResult validation = running.last_validation();
  nlohmann::json accuracy = nullptr;
  if (validation.counted > 0) {
    accuracy =
        100.0 * static_cast<double>(validation.correct) / static_cast<double>(validation.counted);
  }
  const std::lock_guard lock(mutex_);
  return {{"event", "report"},
          {"version", status.passes},
          {"loss", status.loss},
          {"samples_per_second", status.samples_per_second},
          {"delay", now.delay},
          {"memory_bytes", resident_bytes()},
          {"send_mbps", mbps(before.bytes_sent, now.bytes_sent)},
          {"receive_mbps", mbps(before.bytes_received, now.bytes_received)},
          {"computing", share(&Spent::computing)},
          {"waiting", share(&Spent::waiting)},
          {"sending", share(&Spent::sending)},
          {"epoch", status.epoch},
          {"accuracy", accuracy},
          {"averaging", averaging_}};
}

}  // namespace ravnest::cli
