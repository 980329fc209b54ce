#include "ravnest/provider/request_log.h"

#include <algorithm>

#include "ravnest/base/error.h"

namespace ravnest::provider {

void RequestLog::start_at(std::int64_t first) {
  submitted_ = first;
  forgotten_ = first;
}

void RequestLog::start_with_root(std::int64_t first) {
  start_at(first);
  starts_with_root_ = true;
}

void RequestLog::add(const PassHeader& header, transport::Message message) {
  const bool is_training = header.is_training();
  const std::int64_t pass = is_training ? submitted_++ : evaluated_++;
  const bool is_behind = is_training && behind_ && pass < *behind_;
  if (is_behind && (!keeps_learned_ || pass < forgotten_)) {
    forgotten_ = std::max(forgotten_, pass + 1);
    return;
  }
  message.pass = pass;
  Entry entry{.key = {is_training ? Kind::kTraining : Kind::kEvaluation, pass},
              .message = std::move(message),
              .round = validated_ + 1,
              .is_validation = header.purpose == Purpose::kValidate,
              .is_told = is_behind};
  if (entry.is_validation) {
    ++validations_[entry.round].left;
  }
  add(std::move(entry));
  if (is_behind) {  // kept for a root that begins earlier
    Entry& kept = entries_.rbegin()->second;
    set_finished(kept, true);
    set_sent(kept, true);
  }
}

void RequestLog::end_training() {
  ++trainings_;
  add({.key = {Kind::kTrainingEnd, trainings_},
       .message = to_message(Control{.word = Word::kTrainingEnd, .numbers = {trainings_}})});
}

void RequestLog::end_validation() {
  ++validated_;
  add({.key = {Kind::kValidationEnd, validated_}, .message = {}, .round = validated_});
}

void RequestLog::add(Entry entry) {
  entry.passes = submitted_;
  ++unfinished(entry.key.first);
  ++unsent_;
  places_.emplace(entry.key, added_);
  entries_.emplace(added_++, std::move(entry));
}

std::int64_t& RequestLog::unfinished(Kind kind) {
  switch (kind) {
    case Kind::kTrainingEnd:
      return unfinished_trainings_;
    case Kind::kValidationEnd:
      return unfinished_validations_;
    default:
      return unfinished_passes_;
  }
}

void RequestLog::set_sent(Entry& entry, bool is_sent) {
  if (std::exchange(entry.is_sent, is_sent) != is_sent) {
    is_sent ? --unsent_ : ++unsent_;
  }
}

void RequestLog::set_finished(Entry& entry, bool is_finished) {
  if (std::exchange(entry.is_finished, is_finished) != is_finished) {
    unfinished(entry.key.first) += is_finished ? -1 : 1;
  }
}

// No root can need it again.
bool RequestLog::is_safe(const Entry& entry) const {
  switch (entry.key.first) {
    case Kind::kTraining:
      return entry.is_finished && (!keeps_learned_ || entry.key.second < forgotten_);
    case Kind::kTrainingEnd:
      return entry.is_finished && (!keeps_learned_ || entry.passes < forgotten_);
    default:
      return entry.is_finished;
  }
}

RequestLog::Entries::iterator RequestLog::drop_if_safe(Entries::iterator place) {
  Entry& entry = place->second;
  if (!is_safe(entry)) {
    return std::next(place);
  }
  if (entry.key.first == Kind::kTraining) {
    forgotten_ = std::max(forgotten_, entry.key.second + 1);
  }
  set_sent(entry, true);
  places_.erase(entry.key);
  return entries_.erase(place);
}

void RequestLog::restart(std::optional<std::int64_t> learned, bool is_restored) {
  if (!learned && is_restored && !lacks_.empty()) {
    learned = lacks_.rbegin()->first;  // the root has others' weights, its mates have those
  }
  if (const auto lack = learned ? find_lack(*learned, is_restored) : std::nullopt) {
    forgotten_ = std::max(forgotten_, *lack);
    begin_at(forgotten_);
    return renumber(*learned - forgotten_);
  }
  if (learned && *learned < forgotten_ && may_skip_) {
    learned.reset();
  }
  if (learned && *learned < forgotten_) {
    throw Error(ErrorKind::kPeerLost,
                concat("[requester] the root begins at pass ", *learned, ", expected ", forgotten_,
                       " or later: those before are not kept any more."));
  }
  if (!learned) {
    const auto first = std::ranges::find_if(entries_, [](const auto& item) {
      return item.second.key.first == Kind::kTraining && !item.second.is_finished;
    });
    learned = first == entries_.end() ? submitted_ : first->second.key.second;
  }
  begin_at(*learned);
}

// Where those weights count otherwise than we do: the first of our passes that they lack.
std::optional<std::int64_t> RequestLog::find_lack(std::int64_t learned, bool is_restored) const {
  if (!behind_) {
    return starts_with_root_ ? std::optional(forgotten_) : std::nullopt;
  }
  if (const auto found = lacks_.find(learned); is_restored && found != lacks_.end()) {
    return found->second.pass;
  }
  // Nobody told of it; but what has more than can have been learned from here is another's.
  const std::int64_t first = first_unlearned();
  const std::int64_t most = is_restored ? first : std::max(submitted_, *behind_);
  return learned > most ? std::optional(first) : std::nullopt;
}

void RequestLog::begin_at(std::int64_t pass) {
  behind_ = pass;
  for (auto place = entries_.begin(); place != entries_.end();) {
    Entry& entry = place->second;
    if (entry.key.first == Kind::kTraining) {
      set_finished(entry, entry.key.second < pass);
    } else if (entry.key.first == Kind::kTrainingEnd && entry.passes >= pass) {
      set_finished(entry, false);
    }
    set_sent(entry, entry.is_finished);
    place = drop_if_safe(place);
  }
  next_ = 0;
}

// So that our passes go on where those behind the root's weights end.
void RequestLog::renumber(std::int64_t by) {
  places_.clear();
  for (auto& [place, entry] : entries_) {
    entry.passes += by;
    if (entry.key.first == Kind::kTraining) {
      entry.message.pass = entry.key.second += by;
    }
    places_.emplace(entry.key, place);
  }
  for (auto& [restored, lack] : lacks_) {
    lack.pass += lack.is_own ? 0 : by;
  }
  submitted_ += by;
  forgotten_ += by;
  *behind_ += by;
}

RequestLog::Entries::const_iterator RequestLog::find_next() const {
  return std::find_if(entries_.lower_bound(next_), entries_.end(),
                      [](const auto& item) { return !item.second.is_sent; });
}

bool RequestLog::has_next() const {
  const auto next = find_next();
  if (!behind_ || next == entries_.end()) {
    return false;
  }
  const Entry& entry = next->second;
  const auto open = validations_.find(entry.round);
  return entry.key.first != Kind::kValidationEnd || open == validations_.end() ||
         open->second.left == 0;
}

transport::Message RequestLog::take_next() {
  const auto next = find_next();
  RAVNEST_CHECK(next != entries_.end());
  Entry& entry = entries_.at(next->first);
  next_ = next->first + 1;
  set_sent(entry, true);
  if (entry.key.first == Kind::kValidationEnd) {
    const PassResult& sums = validations_[entry.round].sums;
    return to_message(
        Control{.word = Word::kValidationEnd,
                .numbers = {entry.round, bits_of(sums.loss), sums.correct, sums.counted}});
  }
  return entry.message;
}

RequestLog::Key RequestLog::key_of(const PassHeader& header) {
  return {header.is_training() ? Kind::kTraining : Kind::kEvaluation, header.pass};
}

bool RequestLog::is_news(const PassHeader& header) const {
  const auto place = places_.find(key_of(header));
  return place != places_.end() && !entries_.at(place->second).is_told;
}

void RequestLog::finish(const PassHeader& header, const PassResult& result) {
  const auto place = places_.find(key_of(header));
  if (place == places_.end()) {
    return;
  }
  const auto found = entries_.find(place->second);
  Entry& entry = found->second;
  if (!std::exchange(entry.is_told, true) && entry.is_validation) {
    Validation& validation = validations_[entry.round];
    validation.sums.loss += result.loss * static_cast<double>(header.samples);
    validation.sums.correct += result.correct;
    validation.sums.counted += result.counted;
    --validation.left;
  }
  set_finished(entry, true);
  drop_if_safe(found);
}

void RequestLog::finish(const Control& word) {
  const bool is_training = word.word == Word::kTrainingEnd;
  const auto place =
      places_.find({is_training ? Kind::kTrainingEnd : Kind::kValidationEnd, round_of(word)});
  if (place == places_.end()) {
    return;
  }
  const auto found = entries_.find(place->second);
  if (!is_training) {
    last_validation_ = validations_[found->second.round].sums;
    validations_.erase(found->second.round);
  }
  set_finished(found->second, true);
  drop_if_safe(found);
}

void RequestLog::note_restore(std::int64_t passes, bool is_own) {
  may_skip_ |= !is_own;
  lacks_.insert_or_assign(passes,
                          Lack{.pass = is_own ? passes : first_unlearned(), .is_own = is_own});
}

// A batch of several passes is learned from as a whole, or not at all.
std::int64_t RequestLog::first_unlearned() const {
  const Entry* last = nullptr;
  for (const auto& [place, entry] : entries_) {
    if (entry.key.first == Kind::kTraining) {
      last = &entry;
      if (!entry.is_finished) {
        break;
      }
    }
  }
  if (last == nullptr) {
    return submitted_;
  }
  const PassHeader header = read_header(last->message);
  const bool is_learned = last->is_finished && header.part + 1 == header.parts;
  return is_learned ? submitted_ : last->key.second - header.part;
}

void RequestLog::forget_restored() {
  if (!lacks_.empty()) {
    lacks_.erase(lacks_.begin(), std::prev(lacks_.end()));
    forget_before(lacks_.begin()->second.pass);
  }
}

void RequestLog::forget_learned() {
  may_skip_ = true;
  forget_before(first_unlearned());
}

void RequestLog::forget_before(std::int64_t passes) {
  forgotten_ = std::max(forgotten_, passes);
  for (auto place = entries_.begin(); place != entries_.end();) {
    place = drop_if_safe(place);
  }
}

RequestLog::Rest RequestLog::take_rest() {
  Rest rest;
  if (!validations_.empty()) {
    rest.sums = validations_.rbegin()->second.sums;
    rest.is_validation_ended =
        places_.contains({Kind::kValidationEnd, validations_.rbegin()->first});
    validations_.clear();
  }
  for (auto place = entries_.begin(); place != entries_.end();) {
    Entry& entry = place->second;
    const Kind kind = entry.key.first;
    if (kind == Kind::kTrainingEnd || (kind == Kind::kTraining && entry.is_told)) {
      ++place;
      continue;
    }
    if (kind != Kind::kValidationEnd) {
      rest.training += kind == Kind::kTraining ? 1 : 0;
      rest.messages.push_back(std::move(entry.message));
    }
    set_finished(entry, true);
    set_sent(entry, true);
    places_.erase(entry.key);
    place = entries_.erase(place);
  }
  return rest;
}

void RequestLog::take_over(Rest rest) {
  for (transport::Message& message : rest.messages) {
    const PassHeader header = read_header(message);
    add(header, std::move(message));
  }
  if (rest.sums) {
    PassResult& sums = validations_[validated_ + 1].sums;
    sums.loss += rest.sums->loss;
    sums.correct += rest.sums->correct;
    sums.counted += rest.sums->counted;
  }
  if (rest.is_validation_ended) {
    end_validation();
  }
}

}  // namespace ravnest::provider
