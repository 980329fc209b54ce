#include "ravnest/reduce/leader.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "ravnest/base/error.h"

namespace ravnest::reduce {

using transport::after;

namespace {

// Last rounds that fail because of one member, until it is left out.
constexpr int kMostLastTries = 8;

}  // namespace

bool is_behind(const History& history, const Commit& latest, bool needs_base) {
  if (latest == Commit{}) {
    return false;
  }
  return history.empty() || (needs_base && latest_of(history) < latest);
}

Milliseconds beat_of(const RingOptions& options) {
  return std::max(Milliseconds(1), options.silence / 4);
}

Leader::Leader(const RingOptions& options, const Start& start, Text text)
    : options_(options),
      text_(std::move(text)),
      peers_(options.members.size()),
      word_{.epoch = start.epoch, .incarnation = start.incarnation, .terms = options.terms},
      began_(start.now),
      newest_(start.now) {
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    peers_[rank].heard = start.now;
    peers_[rank].is_seen = start.seen[rank];
  }
}

void Leader::hear(std::size_t rank, const MemberWord& word, TimePoint now) {
  Peer& peer = peers_[rank];
  if (!std::exchange(peer.is_seen, true)) {
    newest_ = now;
  }
  peer.heard = now;
  peer.word = word;
  peer.is_known = word.epoch == word_.epoch && word.leader == word_.incarnation;
  seen_ = std::max(seen_, word.seen);
}

void Leader::set_link(std::size_t rank, const Link& link, TimePoint now) {
  Peer& peer = peers_[rank];
  if (link.was_open && !std::exchange(peer.is_seen, true)) {
    newest_ = now;
    peer.heard = now;
  }
  peer.is_down = link.is_down;
}

bool Leader::is_in_round(const Peer& peer) const {
  return peer.is_known && peer.word.round == word_.round;
}

bool Leader::is_gone(const Peer& peer) const {
  return peer.is_lost || peer.word.incarnation != peer.incarnation;
}

void Leader::update_lost(TimePoint now) {
  std::vector<std::size_t> lost;
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    Peer& peer = peers_[rank];
    const bool is_silent = now - peer.heard > options_.silence;
    peer.is_lost = !is_unseen(peer) && rank != options_.rank && (peer.is_down || is_silent);
    if (peer.is_lost) {
      lost.push_back(rank);
    }
  }
  word_.lost = std::move(lost);
}

void Leader::update_latest() {
  word_.latest = {};
  word_.are_final = true;
  for (const Peer& peer : peers_) {
    if (is_live(peer)) {
      word_.latest = std::max(word_.latest, latest_of(peer.word.history));
      word_.are_final &= peer.word.is_final || peer.word.is_finished;
    }
  }
}

// Who was away takes what the others have made meanwhile, or would pull them back. Not who has
// gone on on its own: both have learned then, and the mean has something of both.
void Leader::update_stale() {
  word_.stale.clear();
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    Peer& peer = peers_[rank];
    const Commit own = latest_of(peer.word.history);
    if (peer.is_lost) {
      peer.lost_at = peer.lost_at.value_or(word_.latest);
    } else if (peer.lost_at && peer.is_known && (own > *peer.lost_at || own >= word_.latest)) {
      peer.lost_at.reset();
    }
    if (peer.lost_at && !peer.is_lost) {
      word_.stale.push_back(rank);
    }
  }
}

bool Leader::step(TimePoint now) {
  const auto mark = [this] {
    return std::tuple(word_.phase, word_.round, word_.latest, word_.are_final, word_.lost,
                      word_.awaited, word_.participants, word_.refused, word_.stale);
  };
  const auto before = mark();
  update_lost(now);
  update_latest();
  update_stale();
  while (true) {
    const auto phase = word_.phase;
    const auto round = word_.round;
    switch (phase) {
      case RoundPhase::kCollect:
        collect(now);
        break;
      case RoundPhase::kGather:
        gather(now);
        break;
      case RoundPhase::kContribute:
        take_contributions(now);
        break;
      case RoundPhase::kMove:
        watch_move(now);
        break;
    }
    if (word_.phase == phase && word_.round == round) {
      return mark() != before;
    }
    if (word_.phase == RoundPhase::kGather) {
      return true;  // everyone is to hear how the round ended before the next begins
    }
  }
}

TimePoint Leader::deadline() const {
  switch (word_.phase) {
    case RoundPhase::kGather:
      return first_ready_ ? after(std::max(*first_ready_, newest_), options_.patience)
                          : TimePoint::max();
    case RoundPhase::kContribute:
      return after(began_, options_.patience);
    case RoundPhase::kMove:
      return first_failure_ ? after(*first_failure_, beat_of(options_)) : TimePoint::max();
    case RoundPhase::kCollect:
      break;
  }
  return after(began_, options_.silence);
}

void Leader::enter(RoundPhase phase) {
  word_.phase = phase;
  word_.awaited.clear();
  first_ready_.reset();
  first_failure_.reset();
}

void Leader::collect(TimePoint now) {
  const bool is_late = now - began_ > options_.silence;
  word_.awaited.clear();
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    const Peer& peer = peers_[rank];
    if (!peer.is_known && !peer.is_lost && !(is_late && is_unseen(peer))) {
      word_.awaited.push_back(rank);
    }
  }
  if (!word_.awaited.empty()) {
    return;
  }
  for (const Peer& peer : peers_) {
    if (is_live(peer)) {
      merge(word_.history, peer.word.history);
    }
  }
  word_.text = "its leader was lost";
  enter(RoundPhase::kGather);
}

void Leader::gather(TimePoint now) {
  word_.awaited.clear();
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    if (is_unseen(peers_[rank])) {
      word_.awaited.push_back(rank);
    }
  }
  // A round's end must have reached a member before it can be asked to begin another.
  const bool are_settled = std::ranges::none_of(
      peers_, [&](const Peer& peer) { return is_live(peer) && peer.word.stage > Stage::kReady; });
  if (!word_.are_final) {
    gather_ready(now);
  } else if (are_settled) {
    gather_final(now);
  }
}

// It may have said so before it heard of a round that has just been committed without it.
bool Leader::is_ready(const Peer& peer) const {
  const Commit latest = std::max(word_.latest, latest_of(word_.history));
  return peer.word.stage == Stage::kReady && !peer.lost_at &&
         !is_behind(peer.word.history, latest, options_.needs_base);
}

void Leader::gather_final(TimePoint now) {
  std::vector<std::size_t> ready;
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    const Peer& peer = peers_[rank];
    // Who is but slow is waited for: without it clusters would end apart. Not who can be heard, but
    // never gives or takes a value: it would end none.
    if (!is_live(peer) || peer.is_spoiling || peer.strikes > kMostLastTries ||
        peer.word.is_finished || peer.word.is_refused) {
      continue;
    }
    if (is_ready(peer)) {
      ready.push_back(rank);
    } else {
      word_.awaited.push_back(rank);
    }
  }
  // Whoever was silent for a moment may be on its way to the last round as well.
  const bool are_sure = std::ranges::all_of(
      peers_, [&](const Peer& peer) { return peer.is_known || peer.is_lost || is_unseen(peer); });
  std::ranges::sort(word_.awaited);
  if (ready.empty() && word_.awaited.empty()) {
    forgive();
  } else if (word_.awaited.empty() && are_sure) {
    begin(std::move(ready), true, now);
  }
}

void Leader::forgive() {
  for (Peer& peer : peers_) {
    peer.is_spoiling = false;
    peer.strikes = 0;
  }
}

void Leader::gather_ready(TimePoint now) {
  std::vector<std::size_t> ready;
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    const Peer& peer = peers_[rank];
    const bool is_needed =
        !peer.is_lost && !is_unseen(peer) && !peer.word.is_final && !peer.word.is_finished;
    if (!is_needed || is_banned(peer)) {
      continue;
    }
    if (is_live(peer) && is_ready(peer)) {
      ready.push_back(rank);
    } else {
      word_.awaited.push_back(rank);
    }
  }
  std::ranges::sort(word_.awaited);
  if (ready.empty()) {
    first_ready_.reset();
    if (word_.awaited.empty()) {  // nobody else is left to go on
      forgive();
    }
    return;
  }
  first_ready_ = first_ready_.value_or(now);
  const bool has_unseen = std::ranges::any_of(peers_, [&](const Peer& p) { return is_unseen(p); });
  const bool is_late = now >= deadline() && ready.size() >= 2;
  if (!has_unseen && (word_.awaited.empty() || is_late)) {
    begin(std::move(ready), false, now);
  }
}

void Leader::begin(std::vector<std::size_t> participants, bool is_final, TimePoint now) {
  for (const std::size_t rank : participants) {
    peers_[rank].incarnation = peers_[rank].word.incarnation;
  }
  enter(RoundPhase::kContribute);
  word_.participants = std::move(participants);
  word_.refused.clear();
  word_.is_final = is_final;
  word_.round = ++seen_;
  word_.text.clear();
  began_ = now;
}

void Leader::drop_unready(std::vector<std::size_t>& participants, TimePoint now) {
  const bool is_late = now >= deadline();
  std::erase_if(participants, [&](std::size_t rank) {
    const Peer& peer = peers_[rank];
    const bool is_refused = is_in_round(peer) && peer.word.is_refused;
    const bool is_other =
        is_in_round(peer) && (peer.word.values != static_cast<std::int64_t>(options_.values) ||
                              peer.word.maxima != static_cast<std::int64_t>(options_.maxima));
    if (is_refused || is_other) {
      word_.refused.push_back(rank);
    }
    const bool is_ready = is_in_round(peer) && peer.word.stage == Stage::kContributed;
    return is_refused || is_other || is_gone(peer) || (is_late && !is_ready);
  });
  std::ranges::sort(word_.refused);
}

void Leader::take_contributions(TimePoint now) {
  drop_unready(word_.participants, now);
  word_.awaited.clear();
  for (const std::size_t rank : word_.participants) {
    const Peer& peer = peers_[rank];
    if (!is_in_round(peer) || peer.word.stage != Stage::kContributed) {
      word_.awaited.push_back(rank);
    }
  }
  if (word_.participants.empty()) {
    abandon("nobody had values to give");
  } else if (word_.awaited.empty()) {
    word_.text = text_(word_.round);
    enter(RoundPhase::kMove);
  }
}

const Leader::Peer* Leader::find_accuser(TimePoint now) {
  const Peer* accuser = nullptr;
  bool is_certain = true;
  for (const std::size_t rank : word_.participants) {
    const Peer& peer = peers_[rank];
    if (!is_in_round(peer) || peer.word.stage != Stage::kFailed) {
      is_certain &= is_in_round(peer) && peer.word.stage == Stage::kDone;
    } else if (peer.word.is_proven || peer.word.suspect == static_cast<std::int64_t>(rank)) {
      return &peer;  // and who accuses itself is right
    } else if (accuser == nullptr || peer.word.progress < accuser->word.progress) {
      // Who stands behind the culprit starves first; those further on have had more.
      accuser = &peer;
    }
  }
  if (accuser != nullptr) {
    first_failure_ = first_failure_.value_or(now);
  }
  return is_certain || now >= deadline() ? accuser : nullptr;  // others may know better
}

void Leader::strike(const MemberWord& accusation) {
  const auto rank = static_cast<std::size_t>(std::max<std::int64_t>(0, accusation.suspect));
  Peer& suspect = peers_[rank];
  suspect.is_spoiling |= accusation.is_proven;
  ++suspect.strikes;
  abandon(concat(name(rank), " ", accusation.text));
}

void Leader::watch_move(TimePoint now) {
  bool are_done = true;
  for (const std::size_t rank : word_.participants) {
    const Peer& peer = peers_[rank];
    if (is_gone(peer)) {
      abandon(name(rank) + " was lost");
      return;
    }
    are_done &= is_in_round(peer) && peer.word.stage == Stage::kDone;
  }
  if (are_done) {
    commit();
  } else if (const Peer* accuser = find_accuser(now)) {
    strike(accuser->word);
  }
}

void Leader::commit() {
  merge(word_.history, {{.epoch = word_.epoch, .round = word_.round}});
  forgive();
  word_.text.clear();
  enter(RoundPhase::kGather);
}

void Leader::abandon(const std::string& why) {
  word_.text = why;
  enter(RoundPhase::kGather);
}

}  // namespace ravnest::reduce
