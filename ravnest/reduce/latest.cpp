#include "ravnest/reduce/latest.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "ravnest/base/error.h"
#include "ravnest/reduce/sums.h"

namespace ravnest::reduce {

namespace {

using transport::Phase;

// So many members may be given values at the same time, each once.
constexpr std::size_t kMostWishes = 64;

template <typename Value>
std::vector<Value> values_of(const transport::Tensor& tensor) {
  std::vector<Value> values(tensor.bytes.size() / sizeof(Value));
  if (!values.empty()) {
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  }
  return values;
}

template <typename Value>
transport::Tensor tensor_of(std::vector<Value> values, graph::DType dtype) {
  const auto kept = std::make_shared<const std::vector<Value>>(std::move(values));
  return {.dtype = dtype,
          .shape = {static_cast<std::int64_t>(kept->size())},
          .bytes = {kept, std::as_bytes(std::span(*kept))}};
}

}  // namespace

Latest::Latest(const RingOptions& options, transport::Transport& transport, Hooks hooks)
    : options_(options),
      transport_(transport),
      hooks_(std::move(hooks)),
      tickets_(static_cast<std::int64_t>(std::random_device()() >> 1) << 16) {}

Latest::~Latest() = default;

std::string Latest::channel(std::int64_t ticket) const {
  return concat("reduce.", options_.ring, ".latest.", ticket);
}

void Latest::want(const Commit& commit, TimePoint now) {
  if (!search_) {
    search_.emplace(Search{.commit = commit});
    ask(now);
  }
}

void Latest::ask(TimePoint now) {
  slow_ = search_->holder;
  search_ = Search{.commit = search_->commit,
                   .ticket = ++tickets_,
                   .deadline = transport::after(now, options_.silence)};
  for (std::size_t rank = 0; rank < options_.members.size(); ++rank) {
    if (rank != options_.rank && rank != slow_) {
      hooks_.say(rank, {.ask = Ask::kWant, .commit = search_->commit, .ticket = search_->ticket});
    }
  }
}

void Latest::hear(std::size_t from, const FetchWord& word, const History& history, TimePoint now) {
  if (word.ask == Ask::kWant) {
    // Two that have just begun would wait for each other.
    const bool has_none = search_ && history.empty();
    if (!has_none && word.commit <= latest_of(history)) {
      hooks_.say(from, {.ask = Ask::kHave, .commit = latest_of(history), .ticket = word.ticket});
    }
  } else if (word.ask == Ask::kGive) {
    if (wishes_.size() < kMostWishes) {
      wishes_[++tickets_] = {.rank = from, .ticket = word.ticket};
      hooks_.on_wanted(tickets_);
    }
  } else if (search_ && search_->ticket == word.ticket && !search_->holder) {
    search_->holder = from;
    search_->deadline = transport::after(now, options_.patience);
    const auto take = [this, ticket = word.ticket](const transport::Delivery& delivery) {
      hooks_.post([this, ticket, message = delivery.message] { on_message(ticket, message); });
    };
    search_->receiver =
        transport_.receive(options_.members[from], channel(word.ticket), {.on_message = take});
    hooks_.say(from, {.ask = Ask::kGive, .commit = search_->commit, .ticket = word.ticket});
  }
}

Contribution Latest::checked(const transport::Message& message) const {
  const auto& tensors = message.tensors;
  const std::size_t values = options_.values + options_.extras;
  const bool is_whole = message.kind == transport::MessageKind::kReduce &&
                        is_count(message.epoch) && is_count(message.pass) && tensors.size() == 2 &&
                        tensors[0].dtype == graph::DType::kFloat32 &&
                        tensors[1].dtype == graph::DType::kInt64 &&
                        tensors[0].bytes.size() == values * sizeof(float) &&
                        tensors[1].bytes.size() == options_.maxima * sizeof(std::int64_t);
  if (!is_whole) {
    throw_invalid("[reduce] expected ", values, " values and ", options_.maxima,
                  " maxima, got something else.");
  }
  Contribution latest{.values = values_of<float>(tensors[0]),
                      .maxima = values_of<std::int64_t>(tensors[1])};
  if (!are_finite(latest.values)) {
    throw_invalid("[reduce] expected finite values, got others.");
  }
  return latest;
}

void Latest::on_message(std::int64_t ticket, const transport::Message& message) {
  if (!search_ || search_->ticket != ticket) {
    return;
  }
  try {
    Contribution latest = checked(message);
    search_.reset();
    slow_.reset();
    hooks_.on_latest(std::move(latest), {.epoch = message.epoch, .round = message.pass});
  } catch (const std::invalid_argument&) {
    ask(std::chrono::steady_clock::now());  // another may do better
  }
}

void Latest::give(std::int64_t ticket, Contribution latest, const Commit& commit) {
  const auto found = wishes_.find(ticket);
  if (found == wishes_.end()) {
    return;
  }
  const Wish wish = found->second;
  wishes_.erase(found);
  if (!are_finite(latest.values)) {
    return;  // it will ask others
  }
  auto sender = transport_.open(options_.members[wish.rank], channel(wish.ticket));
  sender->send({.kind = transport::MessageKind::kReduce,
                .pass = commit.round,
                .epoch = commit.epoch,
                .tensors = {tensor_of(std::move(latest.values), graph::DType::kFloat32),
                            tensor_of(std::move(latest.maxima), graph::DType::kInt64)}},
               Milliseconds(0));
  giving_.push_back(std::move(sender));
}

TimePoint Latest::tick(TimePoint now) {
  std::erase_if(giving_, [](const auto& sender) {
    const Phase phase = sender->state().phase;
    if (phase == Phase::kClosed || phase == Phase::kFailed) {
      return true;
    }
    try {
      sender->flush(Milliseconds(0));
      return true;
    } catch (const std::exception&) {
      return false;
    }
  });
  if (search_ && now >= search_->deadline) {
    const bool is_coming = search_->receiver && search_->receiver->state().phase == Phase::kOpen;
    if (is_coming) {
      search_->deadline = transport::after(now, options_.patience);
    } else {
      ask(now);
    }
  }
  const TimePoint next = search_ ? search_->deadline : TimePoint::max();
  return giving_.empty() ? next : std::min(next, transport::after(now, options_.silence));
}

}  // namespace ravnest::reduce
