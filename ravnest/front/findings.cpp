#include "ravnest/front/findings.h"

#include <cstdlib>
#include <utility>

#include "ravnest/base/error.h"
#include "ravnest/base/table.h"

namespace ravnest::front {

namespace {

constexpr std::int64_t kClockSeconds = 60;
constexpr double kSlowMbps = 10.0;
constexpr double kFarMs = 100.0;
constexpr double kLittleGb = 2.0;
constexpr const char* kSetClock = "set it, for example with `timedatectl set-ntp true`";

}  // namespace

Finding ok(std::string text) { return {Finding::Kind::kOk, std::move(text)}; }
Finding poor(std::string text) { return {Finding::Kind::kPoor, std::move(text)}; }
Finding unknown(std::string text) { return {Finding::Kind::kUnknown, std::move(text)}; }
Finding wrong(std::string text) { return {Finding::Kind::kWrong, std::move(text)}; }

Finding judge_clock(std::int64_t here, std::int64_t at_server) {
  const std::int64_t ahead = here - at_server;
  return std::abs(ahead) > kClockSeconds
             ? wrong(concat("it is ", std::abs(ahead), " s ", ahead > 0 ? "ahead of" : "behind",
                            " the server's: ", kSetClock))
             : ok("as the server's");
}

Finding judge_validity(const trust::Validity& validity, trust::WallTime now) {
  if (now < validity.from) {
    return wrong(concat("it says ", trust::to_text(now), ", before the server was made (",
                        trust::to_text(validity.from), "): ", kSetClock));
  }
  if (now > validity.until) {
    return wrong(concat("it says ", trust::to_text(now), ", after the server's authority ends (",
                        trust::to_text(validity.until), "): ", kSetClock,
                        "; if it is right, the server needs a new folder"));
  }
  return ok("in the time of the server's authority");
}

Finding judge_version(std::string_view here, std::string_view at_server) {
  return here == at_server ? ok(concat("ravnest ", here, " on both"))
                           : wrong(concat("ravnest ", here, " here, ", at_server,
                                          " on the server: install the same"));
}

Finding judge_link(double mbps, double latency_ms) {
  const std::string text =
      concat(format_number(mbps), " Mbit/s and ", format_number(latency_ms), " ms to the server");
  return mbps < kSlowMbps || latency_ms > kFarMs
             ? poor(concat(text, ": stages will wait for each other; use a cable, larger ",
                           "batches, or codec=\"int8\""))
             : ok(text);
}

Finding judge_distance(double latency_ms) {
  const std::string text = concat(format_number(latency_ms), " ms to the server");
  return latency_ms > kFarMs ? poor(concat(text, ": stages will wait for each other"))
                             : ok(concat(text, "; how fast it is, is found out at `join`"));
}

Finding judge_machine(const agent::Machine& machine) {
  const std::string text = concat(format_number(machine.ram_gb), " GB free, ", machine.threads,
                                  machine.threads == 1 ? " core" : " cores");
  return machine.ram_gb < kLittleGb
             ? poor(concat(text, ": only small stages fit; close other programs"))
             : ok(text);
}

Finding judge_reach(bool is_relayed, const std::string& address) {
  return is_relayed
             ? poor(concat("the server cannot connect to this machine, so that all goes ",
                           "through its relay: choose a port with `join --port` and open it ",
                           "in the firewall and the router"))
             : ok(concat("others reach it at ", address));
}

}  // namespace ravnest::front
