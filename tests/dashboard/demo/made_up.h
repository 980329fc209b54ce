#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "ravnest/coordinator/state.h"
#include "ravnest/dashboard/http_server.h"

namespace ravnest::dashboard {

// A server's state that nobody's machines are behind, which changes as if there were. What is
// shown of it is made by the coordinator's own code. Any thread.
class MadeUp {
 public:
  // "busy": jobs in all phases; "empty": nobody has come yet; "hostile": "busy" with names and
  // texts that mean harm.
  explicit MadeUp(const std::string& scene);

  // A second of training goes by.
  void step();

  std::string view() const;
  std::optional<std::string> job_view(std::int64_t job) const;
  std::string metrics() const;
  std::optional<std::string> change(const Wish& wish);

 private:
  void make_busy();
  void make_hostile();
  void report();
  void say(const std::string& text);
  std::optional<std::string> change_provider(const Wish& wish);
  std::optional<std::string> change_job(const Wish& wish);

  mutable std::mutex mutex_;
  coordinator::State state_;
  std::int64_t steps_ = 0;
};

}  // namespace ravnest::dashboard
