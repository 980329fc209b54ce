#include "ravnest/relay/switchboard.h"

#include <algorithm>

#include "ravnest/base/error.h"
#include "ravnest/relay/call.h"

namespace ravnest::relay {

Switchboard::Switchboard(MayConnect may_connect, const SwitchboardOptions& options)
    : may_connect_(std::move(may_connect)), options_(options) {}

Switchboard::~Switchboard() {
  for (const auto& [id, call] : calls_) {
    call->end();
  }
}

Switchboard::Placed Switchboard::call(const std::string& from, const std::string& to,
                                      std::shared_ptr<Pipe> pipe, TimePoint now) {
  if (!may_connect_(from, to)) {
    throw_invalid("[relay] expected a member that ", from, " works with, got ", to, ".");
  }
  const std::lock_guard lock(mutex_);
  drop_ended();
  const auto of_caller = std::ranges::count_if(
      calls_, [&from](const auto& entry) { return entry.second->facts().from == from; });
  if (calls_.size() >= options_.calls) {
    throw_invalid("[relay] expected at most ", options_.calls,
                  " connections in all, got one more.");
  }
  if (static_cast<std::size_t>(of_caller) >= options_.calls_per_caller) {
    throw_invalid("[relay] expected at most ", options_.calls_per_caller, " connections of ", from,
                  ", got one more.");
  }
  const CallFacts facts{.from = from,
                        .to = to,
                        .answer_by = now + options_.answer_within,
                        .counters = {counter(from, to), counter(to, from)}};
  auto placed = std::make_shared<Call>(facts, std::move(pipe));
  calls_.emplace(++last_id_, placed);
  return {.id = last_id_, .events = events_of(placed, Side::kCaller)};
}

PipeEvents Switchboard::answer(std::uint64_t id, const std::string& member,
                               std::shared_ptr<Pipe> pipe) {
  const std::lock_guard lock(mutex_);
  const auto found = calls_.find(id);
  if (found == calls_.end() || found->second->facts().to != member ||
      !found->second->answer(std::move(pipe))) {
    throw_invalid("[relay] expected a connection that waits for ", member, ", got ", id, ".");
  }
  return events_of(found->second, Side::kCalled);
}

void Switchboard::sweep(TimePoint now) {
  std::vector<std::shared_ptr<Call>> calls;
  {
    const std::lock_guard lock(mutex_);
    drop_ended();
    for (const auto& [id, call] : calls_) {
      calls.push_back(call);
    }
  }
  for (const auto& call : calls) {
    const CallFacts& facts = call->facts();
    const bool is_late = now >= facts.answer_by && !call->is_answered();
    if (is_late || !may_connect_(facts.from, facts.to)) {
      call->end();
    }
  }
}

void Switchboard::forget(const std::string& member) {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, call] : calls_) {
    if (call->facts().from == member || call->facts().to == member) {
      call->end();
    }
  }
  std::erase_if(counters_, [&member](const auto& entry) {
    return entry.first.first == member || entry.first.second == member;
  });
}

std::size_t Switchboard::size() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(
      std::ranges::count_if(calls_, [](const auto& entry) { return !entry.second->has_ended(); }));
}

std::vector<Switchboard::Traffic> Switchboard::traffic() const {
  const std::lock_guard lock(mutex_);
  std::vector<Traffic> all;
  for (const auto& [pair, count] : counters_) {
    all.push_back({.from = pair.first, .to = pair.second, .nbytes = *count});
  }
  return all;
}

// An ended call keeps its place until somebody looks; its pipes it has let go.
void Switchboard::drop_ended() {
  std::erase_if(calls_, [](const auto& entry) { return entry.second->has_ended(); });
}

Switchboard::Counter Switchboard::counter(const std::string& from, const std::string& to) {
  Counter& count = counters_[{from, to}];
  if (!count) {
    count = std::make_shared<std::atomic<std::uint64_t>>(0);
  }
  return count;
}

}  // namespace ravnest::relay
