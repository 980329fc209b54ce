#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ravnest/agent/machine.h"
#include "ravnest/trust/certificate.h"

namespace ravnest::front {

// What `ravnest doctor` says of one thing, with the way to mend it.
struct Finding {
  enum class Kind : std::uint8_t {
    kOk,
    kPoor,     // it works, but not well
    kUnknown,  // it could not be looked at
    kWrong,
  };
  Kind kind = Kind::kOk;
  std::string text;
};

Finding ok(std::string text);
Finding poor(std::string text);
Finding unknown(std::string text);
Finding wrong(std::string text);

// From facts alone, whoever found them out.

// Seconds of both wall clocks.
Finding judge_clock(std::int64_t here, std::int64_t at_server);
// Of the server's authority: outside it no TLS is spoken, and nobody can be asked for the time.
Finding judge_validity(const trust::Validity& validity, trust::WallTime now);
Finding judge_version(std::string_view here, std::string_view at_server);
Finding judge_link(double mbps, double latency_ms);
// Of who has not joined yet.
Finding judge_distance(double latency_ms);
Finding judge_machine(const agent::Machine& machine);
Finding judge_reach(bool is_relayed, const std::string& address);

}  // namespace ravnest::front
