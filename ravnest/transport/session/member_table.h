#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "ravnest/transport/peer.h"

namespace ravnest::transport {

// Whom a transport believes: the members of the current plan. Where the carrier proves nobody
// (no credentials), names are believed as they are said. Any thread may call.
class MemberTable {
 public:
  MemberTable(bool is_proof_needed, Members members)
      : is_proof_needed_(is_proof_needed), members_(std::move(members)) {}

  bool is_proof_needed() const { return is_proof_needed_; }
  // Of a later plan.
  void set(Members members);
  // The id that a peer must prove; empty where the plan has no such node.
  std::string expected(const Peer& peer) const;
  // Why somebody who has proved to be `member` may not speak as this peer, in a sentence; nothing
  // if it may.
  std::optional<std::string> find_stranger(const Peer& peer, const std::string& member) const;

 private:
  const bool is_proof_needed_;

  mutable std::mutex mutex_;  // guards what follows
  Members members_;
};

}  // namespace ravnest::transport
