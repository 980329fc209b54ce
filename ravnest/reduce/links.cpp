#include "ravnest/reduce/links.h"

#include <algorithm>
#include <utility>

#include "ravnest/base/error.h"

namespace ravnest::reduce {

namespace {

using transport::Phase;

constexpr Milliseconds kAgain{10};

}  // namespace

Links::Links(const RingOptions& options, transport::Transport& transport, OnWord on_word,
             OnNonsense on_nonsense)
    : options_(options),
      transport_(transport),
      channel_(concat("reduce.", options.ring)),
      on_word_(std::move(on_word)),
      on_nonsense_(std::move(on_nonsense)),
      lines_(options.members.size()) {
  for (std::size_t rank = 0; rank < lines_.size(); ++rank) {
    if (rank != options.rank) {
      receive(rank);
      open(rank);
    }
  }
}

void Links::open(std::size_t rank) {
  lines_[rank].sender.reset();
  lines_[rank].sender = transport_.open(options_.members[rank], channel_);
}

void Links::receive(std::size_t rank) {
  lines_[rank].receiver.reset();
  const auto take = [this, rank](const transport::Delivery& delivery) {
    try {
      on_word_(rank, read_word(delivery.message, options_.members.size()));
    } catch (const std::invalid_argument& error) {
      on_nonsense_(rank, error.what());
    }
  };
  lines_[rank].receiver =
      transport_.receive(options_.members[rank], channel_, {.on_message = take});
}

void Links::say(std::size_t rank, const Word& word) {
  Line& line = lines_[rank];
  try {
    line.sender->send(to_message(word), Milliseconds(0));
    line.unsaid.reset();
  } catch (const Error&) {
    line.unsaid = word;  // no room, or nobody there
  } catch (const std::invalid_argument&) {
    line.unsaid.reset();  // it refuses us; it is looked at again in a while
  }
}

TimePoint Links::tick(TimePoint now) {
  TimePoint next = TimePoint::max();
  for (std::size_t rank = 0; rank < lines_.size(); ++rank) {
    Line& line = lines_[rank];
    if (rank == options_.rank) {
      continue;
    }
    if (is_over(line.receiver->state().phase)) {
      receive(rank);
    }
    const Phase phase = line.sender->state().phase;
    if (is_over(phase)) {
      open(rank);
    } else if (line.unsaid && phase == Phase::kOpen) {
      say(rank, Word(*line.unsaid));
      if (line.unsaid) {
        next = transport::after(now, kAgain);
      }
    }
  }
  return next;
}

Link Links::link(std::size_t rank, TimePoint now) {
  Line& line = lines_[rank];
  const transport::ChannelState state = line.sender->state();
  const Phase in = line.receiver->state().phase;
  line.was_open = line.was_open || (in != Phase::kWaiting && in != Phase::kFailed);
  if (state.phase == Phase::kOpen) {
    line.was_open = true;
    line.has_left = false;
    line.open_at = now;
  } else if (is_over(state.phase)) {
    line.was_open = line.was_open || state.phase == Phase::kClosed;  // it said goodbye
    line.has_left = line.was_open;
  } else if (state.phase == Phase::kLost) {
    line.was_open = true;
    line.open_at = line.open_at.value_or(now);
  }
  const bool is_away = line.open_at && now - *line.open_at > beat_of(options_);
  return {.was_open = line.was_open, .is_down = line.has_left || is_away};
}

void Links::close(Milliseconds timeout) {
  const TimePoint deadline = transport::deadline_in(timeout);
  const auto close_one = [&](auto& end) {
    if (!end || end->state().phase != Phase::kOpen) {
      return;
    }
    const auto left = deadline - std::chrono::steady_clock::now();
    try {
      end->close(std::chrono::duration_cast<Milliseconds>(std::max(left, left.zero())));
    } catch (const std::exception&) {  // it does not matter any more
    }
  };
  for (Line& line : lines_) {
    close_one(line.sender);
  }
  for (Line& line : lines_) {
    close_one(line.receiver);
  }
  lines_.clear();
}

}  // namespace ravnest::reduce
