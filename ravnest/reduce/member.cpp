#include "ravnest/reduce/member.h"

#include <algorithm>
#include <utility>

#include "ravnest/base/error.h"
#include "ravnest/base/table.h"

namespace ravnest::reduce {

using transport::after;

namespace {

bool contains(const auto& range, const auto& wanted) {
  return std::ranges::find(range, wanted) != range.end();
}

}  // namespace

Member::Member(const RingOptions& options, std::int64_t incarnation, MemberActions& actions)
    : options_(options),
      incarnation_(incarnation),
      actions_(actions),
      suspected_(options.members.size()),
      links_(options.members.size()) {}

void Member::start(TimePoint now) {
  leader_heard_ = next_beat_ = last_tick_ = now;
  if (options_.rank == 0) {
    elect(now);
  }
}

bool Member::is_behind() const {
  return reduce::is_behind(history_, latest_, options_.needs_base || is_stale_);
}

MemberWord Member::word() const {
  const bool is_ready = is_offered_ && !is_behind();
  MemberWord word{.epoch = epoch_,
                  .leader = leader_incarnation_,
                  .incarnation = incarnation_,
                  .stage = round_ != 0 ? stage_
                           : is_ready  ? Stage::kReady
                                       : Stage::kIdle,
                  .round = round_ != 0 ? round_ : last_round_,
                  .seen = seen_,
                  .is_final = is_final_,
                  .is_finished = is_finished_,
                  .is_refused = is_refused_,
                  .values = static_cast<std::int64_t>(options_.values),
                  .maxima = static_cast<std::int64_t>(options_.maxima),
                  .terms = options_.terms,
                  .history = history_};
  if (round_ != 0 && stage_ == Stage::kFailed) {
    word.suspect = static_cast<std::int64_t>(failure_.suspect);
    word.progress = static_cast<std::int64_t>(failure_.progress);
    word.is_proven = failure_.is_proven;
    word.text = failure_.why;
  }
  return word;
}

void Member::tell(TimePoint now) {
  if (leading_) {
    lead_on(now);
  } else {
    actions_.say(leader_rank_, word());
  }
}

void Member::lead_on(TimePoint now) {
  bool is_changed = true;
  while (leading_ && is_changed) {
    leading_->hear(options_.rank, word(), now);
    is_changed = leading_->step(now);
    if (is_changed) {
      broadcast(now);
      follow(leading_->word(), now);
    }
  }
}

void Member::broadcast(TimePoint now) {
  for (std::size_t rank = 0; rank < options_.members.size(); ++rank) {
    if (rank != options_.rank) {
      actions_.say(rank, leading_->word());
    }
  }
  next_beat_ = after(now, beat_of(options_));
}

void Member::offer(bool is_final, TimePoint now) {
  if (is_finished_) {
    return;
  }
  is_refused_ = false;
  is_final_ = is_final_ || is_final;
  (round_ != 0 ? is_offered_next_ : is_offered_) = true;
  if (!waiting_since_) {
    waiting_since_ = now;
    next_notice_ = after(now, options_.progress);
  }
  tell(now);
}

void Member::contributed(std::int64_t round, bool is_accepted, TimePoint now) {
  if (round != round_ || stage_ != Stage::kBegun) {
    return;
  }
  if (is_accepted) {
    stage_ = Stage::kContributed;
  } else {
    is_refused_ = true;
    is_offered_ = false;
  }
  tell(now);
}

void Member::moved(std::int64_t round, TimePoint now) {
  if (round == round_ && stage_ == Stage::kMoving) {
    stage_ = Stage::kDone;
    tell(now);
  }
}

void Member::failed(std::int64_t round, const Failure& failure, TimePoint now) {
  if (round != round_ || stage_ != Stage::kMoving) {
    return;
  }
  stage_ = Stage::kFailed;
  failure_ = failure;
  if (failure.suspect == options_.rank && failure.is_proven) {
    is_refused_ = true;
    is_offered_ = false;
  }
  tell(now);
}

void Member::caught_up(const Commit& commit, TimePoint now) {
  if (commit > latest_of(history_)) {
    merge(history_, {commit});
    seen_ = std::max(seen_, commit.round);
    keep_up();  // others may have gone on meanwhile
  }
  tell(now);
}

void Member::refuse_terms(std::size_t from) {
  actions_.say(from, word());  // it is to know as well
  actions_.refuse_terms(from);
}

void Member::hear(std::size_t from, const MemberWord& word, TimePoint now) {
  if (word.terms != options_.terms) {
    return refuse_terms(from);
  }
  links_[from].was_open = true;
  if (!leading_) {
    return;  // it will hear who leads
  }
  const bool is_taken =
      word.epoch == epoch_ && word.leader != 0 && word.leader != leader_incarnation_;
  if (word.epoch > epoch_ || is_taken) {
    seen_ = std::max(seen_, word.seen);
    if (word.epoch % size() == static_cast<std::int64_t>(options_.rank)) {
      epoch_ = word.epoch;  // ours, before we were started anew
      elect(now);
    } else {
      adopt(word.epoch, 0, now);
    }
    return;
  }
  leading_->hear(from, word, now);
  lead_on(now);
}

void Member::hear(std::size_t from, const LeaderWord& word, TimePoint now) {
  if (word.epoch % size() != static_cast<std::int64_t>(from)) {
    throw_invalid("[reduce] expected the word of a leader from member ", word.epoch % size(),
                  ", got it from ", from, ".");
  }
  if (word.terms != options_.terms) {
    return refuse_terms(from);
  }
  links_[from].was_open = true;
  const bool is_other =
      leader_incarnation_ != 0 && word.epoch == epoch_ && word.incarnation != leader_incarnation_;
  if (word.epoch < epoch_ || is_other) {
    actions_.say(from, leading_ ? Word(leading_->word()) : Word(this->word()));
    return;
  }
  if (word.epoch > epoch_ || leader_incarnation_ == 0) {
    adopt(word.epoch, word.incarnation, now);
  }
  leader_rank_ = from;
  leader_heard_ = now;
  suspected_[from] = false;
  follow(word, now);
  actions_.say(from, this->word());
}

void Member::adopt(std::int64_t epoch, std::int64_t incarnation, TimePoint now) {
  leading_.reset();
  epoch_ = epoch;
  leader_rank_ = static_cast<std::size_t>(epoch % size());
  leader_incarnation_ = incarnation;
  leader_heard_ = now;
  links_[leader_rank_].was_open = true;
  suspected_[leader_rank_] = false;
  if (round_ != 0 && stage_ != Stage::kDone) {
    drop_round("its leader was lost");
  }
}

void Member::elect(TimePoint now) {
  const auto rank = static_cast<std::int64_t>(options_.rank);
  adopt((epoch_ / size() + 1) * size() + rank, incarnation_, now);
  Leader::Start start{.epoch = epoch_, .incarnation = incarnation_, .now = now};
  for (const Link& link : links_) {
    start.seen.push_back(link.was_open);
  }
  leading_.emplace(options_, start,
                   [this](std::int64_t round) { return actions_.engine_text(round); });
  for (std::size_t other = 0; other < links_.size(); ++other) {
    leading_->set_link(other, links_[other], now);
  }
  broadcast(now);
  lead_on(now);
}

void Member::follow(const LeaderWord& word, TimePoint now) {
  seen_ = std::max(seen_, word.round);
  latest_ = word.latest;
  is_stale_ = contains(word.stale, options_.rank);
  awaited_ = word.awaited;
  note_changes(word);
  settle(word);
  take_part(word);
  is_time_to_keep_up_ =
      word.phase != RoundPhase::kCollect && (!is_final_ || word.are_final || history_.empty());
  keep_up();
  if (!is_offered_ || round_ != 0) {
    waiting_since_.reset();
  } else if (!waiting_since_) {
    waiting_since_ = now;
    next_notice_ = after(now, options_.progress);
  }
}

void Member::keep_up() {
  if (is_behind() && round_ == 0 && !is_finished_ && is_time_to_keep_up_) {
    actions_.catch_up(latest_);
  }
}

void Member::settle(const LeaderWord& word) {
  if (round_ == 0) {
    return;
  }
  const bool is_current = word.epoch == task_.epoch && word.round == round_ &&
                          word.phase >= RoundPhase::kContribute &&
                          contains(word.participants, options_.rank);
  if (stage_ == Stage::kDone &&
      contains(word.history, Commit{.epoch = task_.epoch, .round = round_})) {
    finish();
  } else if (word.phase != RoundPhase::kCollect && !is_current) {
    const bool is_told = word.phase == RoundPhase::kGather && !word.text.empty();
    drop_round(is_refused_ ? "our values are not finite"
               : is_told   ? printable(word.text)
                           : "it went on without us");
  }
}

void Member::take_part(const LeaderWord& word) {
  if (!contains(word.participants, options_.rank)) {
    return;
  }
  if (word.phase == RoundPhase::kContribute && round_ == 0 && is_offered_ &&
      word.round > last_round_) {
    round_ = last_round_ = word.round;
    stage_ = Stage::kBegun;
    task_ = {.epoch = word.epoch, .round = word.round};
    is_final_round_ = word.is_final;
    actions_.begin(round_);
  } else if (word.phase == RoundPhase::kMove && round_ == word.round &&
             stage_ == Stage::kContributed) {
    stage_ = Stage::kMoving;
    task_.participants = word.participants;
    const auto place = std::ranges::find(word.participants, options_.rank);
    task_.place = static_cast<std::size_t>(place - word.participants.begin());
    task_.text = word.text;
    actions_.move(task_);
  }
}

void Member::finish() {
  merge(history_, {{.epoch = task_.epoch, .round = round_}});
  latest_ = std::max(latest_, latest_of(history_));
  round_ = 0;
  is_finished_ = is_final_round_;
  // The offer for the last round stands, though it came when another had begun elsewhere.
  is_offered_ = std::exchange(is_offered_next_, false) || (is_final_ && !is_finished_);
  actions_.commit(task_, is_final_round_);
}

void Member::drop_round(const std::string& why) {
  if (stage_ >= Stage::kMoving) {
    actions_.stop_moving();
  }
  const std::int64_t round = std::exchange(round_, 0);
  is_offered_ = is_offered_ || is_offered_next_;
  is_offered_next_ = false;
  actions_.abandon(round, why);
}

void Member::set_link(std::size_t rank, const Link& link, TimePoint now) {
  links_[rank].was_open |= link.was_open;
  links_[rank].is_down = link.is_down;
  if (leading_) {
    leading_->set_link(rank, links_[rank], now);
  }
}

bool Member::is_leader_suspect(TimePoint now) const {
  const Link& link = links_[leader_rank_];
  const bool is_silent = now - leader_heard_ > options_.silence + beat_of(options_);
  if (!link.was_open && epoch_ == 0) {  // it has not started yet, or may have ended
    return is_silent && !options_.waits_for_all;
  }
  return is_silent || link.is_down;
}

void Member::suspect_leader(TimePoint now) {
  suspected_[leader_rank_] = true;
  for (const std::size_t rank : lost_) {
    suspected_[rank] = true;
  }
  suspected_[options_.rank] = false;
  const auto next = std::ranges::find(suspected_, false);
  leader_rank_ = static_cast<std::size_t>(next - suspected_.begin());
  leader_heard_ = now;
  if (leader_rank_ == options_.rank) {
    elect(now);
  }
}

TimePoint Member::tick(TimePoint now) {
  const Milliseconds beat = beat_of(options_);
  // We were stopped: what others said meanwhile comes first.
  const bool was_stopped = now - std::exchange(last_tick_, now) > options_.silence;
  if (was_stopped && leading_) {
    elect(now);
  } else if (was_stopped) {
    leader_heard_ = now;
  }
  TimePoint next = after(now, beat);
  if (leading_) {
    if (now >= next_beat_) {
      broadcast(now);
      keep_up();  // as others do when they hear it
    }
    lead_on(now);
    next = std::min(next, next_beat_);
    if (leading_ && leading_->deadline() > now) {
      next = std::min(next, leading_->deadline());
    }
  } else if (is_leader_suspect(now)) {
    suspect_leader(now);
  }
  note_waiting(now);
  return waiting_since_ ? std::min(next, next_notice_) : next;
}

void Member::note_changes(const LeaderWord& word) {
  for (const std::size_t rank : word.lost) {
    if (!contains(lost_, rank) && rank != options_.rank) {
      actions_.warn(name(rank) + " is lost; averaging goes on without it");
    }
  }
  for (const std::size_t rank : lost_) {
    if (!contains(word.lost, rank)) {
      actions_.notice(name(rank) + " is back");
    }
  }
  lost_ = word.lost;
  if (refused_round_ != word.round) {
    refused_.clear();
    refused_round_ = word.round;
  }
  for (const std::size_t rank : word.refused) {
    if (!contains(refused_, rank)) {
      actions_.warn(concat(name(rank), " has values that are not finite, or not as many; round ",
                           word.round, " goes on without them"));
    }
  }
  refused_ = word.refused;
}

void Member::note_waiting(TimePoint now) {
  if (!waiting_since_ || now < next_notice_) {
    return;
  }
  next_notice_ = after(now, options_.progress);
  std::string names;
  const auto add = [&](std::size_t rank) {
    if (rank != options_.rank) {
      names += (names.empty() ? "" : ", ") + name(rank);
    }
  };
  if (leader_incarnation_ == 0) {
    add(leader_rank_);
  } else {
    std::ranges::for_each(awaited_, add);
  }
  if (!names.empty()) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - *waiting_since_);
    actions_.waiting(
        concat(name(options_.rank), " waits for ", names, " to average (", seconds.count(), " s)"));
  }
}

}  // namespace ravnest::reduce
