#pragma once

#include <stdexcept>
#include <string>

#include "ravnest/coordinator/words.h"
#include "ravnest/server/caller.h"
#include "ravnest/server/desk.h"
#include "ravnest/trust/authority.h"

namespace ravnest::server {

// Not for this caller to ask.
class Forbidden : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The answer to a question, JSON. Throws std::invalid_argument with the reason why not. On the
// desk's thread.
std::string answer(Desk& desk, const trust::Authority& authority, const Caller& caller,
                   const coordinator::Question& question);

// By name or id. Throws std::invalid_argument.
const coordinator::Member& find_member(const coordinator::State& state, const std::string& name);

}  // namespace ravnest::server
