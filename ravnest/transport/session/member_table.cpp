#include "ravnest/transport/session/member_table.h"

#include <utility>

#include "ravnest/base/error.h"

namespace ravnest::transport {

void MemberTable::set(Members members) {
  const std::lock_guard lock(mutex_);
  members_ = std::move(members);
}

std::string MemberTable::expected(const Peer& peer) const {
  if (!peer.member.empty()) {
    return peer.member;
  }
  const std::lock_guard lock(mutex_);
  const auto found = members_.find(peer.name);
  return found == members_.end() ? std::string() : found->second;
}

std::optional<std::string> MemberTable::find_stranger(const Peer& peer,
                                                      const std::string& member) const {
  if (!is_proof_needed_) {
    return std::nullopt;
  }
  const std::string wanted = expected(peer);
  if (wanted.empty()) {
    return concat(peer.name, " is not in the plan; it must be started from the same one.");
  }
  if (member.empty()) {
    return concat("who connects as ", peer.name, " has no member's certificate.");
  }
  if (member != wanted) {
    return concat(peer.name, " is member ", wanted, " by the plan, and who connects is member ",
                  member, ".");
  }
  return std::nullopt;
}

}  // namespace ravnest::transport
