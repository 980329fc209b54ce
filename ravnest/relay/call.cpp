#include "ravnest/relay/call.h"

#include <utility>

namespace ravnest::relay {

namespace {

constexpr std::size_t index_of(Side side) { return static_cast<std::size_t>(side); }

constexpr Side other(Side side) { return side == Side::kCaller ? Side::kCalled : Side::kCaller; }

}  // namespace

Call::Call(CallFacts facts, std::shared_ptr<Pipe> caller) : facts_(std::move(facts)) {
  pipes_[index_of(Side::kCaller)] = std::move(caller);
}

bool Call::answer(std::shared_ptr<Pipe> called) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Pipe>& place = pipes_[index_of(Side::kCalled)];
  if (has_ended_ || place) {
    return false;
  }
  place = std::move(called);
  changed_.notify_all();
  return true;
}

bool Call::is_answered() const {
  const std::lock_guard lock(mutex_);
  return pipes_[index_of(Side::kCalled)] != nullptr;
}

bool Call::has_ended() const {
  const std::lock_guard lock(mutex_);
  return has_ended_;
}

void Call::carry(Side from, std::span<const std::byte> bytes) {
  const std::shared_ptr<Pipe> pipe = wait_for(other(from));
  if (!pipe) {
    return;
  }
  if (!pipe->write(bytes)) {
    end();
    return;
  }
  facts_.counters[index_of(from)]->fetch_add(bytes.size(), std::memory_order_relaxed);
}

void Call::end() {
  Pipes pipes;
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    pipes_.swap(pipes);
    changed_.notify_all();
  }
  for (const auto& pipe : pipes) {
    if (pipe) {
      pipe->close();
    }
  }
}

std::shared_ptr<Pipe> Call::wait_for(Side side) {
  std::unique_lock lock(mutex_);
  const std::shared_ptr<Pipe>& pipe = pipes_[index_of(side)];
  changed_.wait(lock, [&] { return has_ended_ || pipe != nullptr; });
  return pipe;
}

PipeEvents events_of(const std::shared_ptr<Call>& call, Side side) {
  return {.on_bytes = [call, side](std::span<const std::byte> bytes) { call->carry(side, bytes); },
          .on_end = [call] { call->end(); }};
}

}  // namespace ravnest::relay
