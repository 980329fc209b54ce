#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ravnest/reduce/all_reduce.h"
#include "ravnest/reduce/ring.h"
#include "ravnest/reduce/words.h"
#include "tests/transport/world.h"

namespace ravnest::reduce {

using transport::GrpcWorld;
using transport::kPatience;
using transport::LoopbackWorld;
using transport::Message;

// A transport that shows every message before it is sent, and can fall silent.
class Wiretap : public transport::Transport {
 public:
  // False: the message is lost.
  using OnSend = std::function<bool(const std::string& to, const Message& message)>;

  Wiretap(transport::Transport& inner, OnSend on_send)
      : inner_(inner), state_(std::make_shared<State>()) {
    state_->on_send = std::move(on_send);
  }

  // Nothing leaves and nothing comes any more.
  void mute(bool is_mute = true) { state_->is_mute = is_mute; }
  bool is_mute() const { return state_->is_mute; }

  std::unique_ptr<transport::Sender> open(const transport::Peer& to,
                                          const std::string& channel) override {
    return std::make_unique<TappedSender>(inner_.open(to, channel), state_, to.name);
  }
  std::unique_ptr<transport::Receiver> receive(const transport::Peer& from,
                                               const std::string& channel,
                                               transport::Handler handler) override {
    handler.on_message = [state = state_,
                          inner = std::move(handler.on_message)](transport::Delivery delivery) {
      if (!state->is_mute) {
        inner(std::move(delivery));
      }
    };
    return inner_.receive(from, channel, std::move(handler));
  }
  void set_members(transport::Members members) override { inner_.set_members(std::move(members)); }
  std::string address() const override { return inner_.address(); }
  void close(Milliseconds timeout) override { inner_.close(timeout); }

 private:
  struct State {
    OnSend on_send;
    std::atomic<bool> is_mute = false;
  };
  class TappedSender : public transport::Sender {
   public:
    TappedSender(std::unique_ptr<transport::Sender> inner, std::shared_ptr<State> state,
                 std::string to)
        : inner_(std::move(inner)), state_(std::move(state)), to_(std::move(to)) {}
    void send(const Message& message, Milliseconds timeout) override {
      const bool may_go = !state_->is_mute && (!state_->on_send || state_->on_send(to_, message));
      if (may_go && !state_->is_mute) {
        inner_->send(message, timeout);
      }
    }
    void flush(Milliseconds timeout) override { inner_->flush(timeout); }
    void close(Milliseconds timeout) override { inner_->close(timeout); }
    void break_off() override { inner_->break_off(); }
    transport::ChannelState state() const override { return inner_->state(); }

   private:
    const std::unique_ptr<transport::Sender> inner_;
    const std::shared_ptr<State> state_;
    const std::string to_;
  };

  transport::Transport& inner_;
  const std::shared_ptr<State> state_;
};

// What a member brings to a round.
inline Contribution contribution_of(std::size_t rank, std::int64_t round,
                                    const RingOptions& options) {
  Contribution own{.values = std::vector<float>(options.values),
                   .maxima = std::vector<std::int64_t>(options.maxima)};
  auto state = static_cast<std::uint32_t>(rank * 7919 + static_cast<std::size_t>(round) * 104729);
  for (float& value : own.values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31F;
  }
  for (std::size_t i = 0; i < own.maxima.size(); ++i) {
    own.maxima[i] = static_cast<std::int64_t>(1) << 53 | static_cast<std::int64_t>((rank + i) % 4);
  }
  return own;
}

inline Contribution mean_of(const std::vector<std::size_t>& ranks, std::int64_t round,
                            const RingOptions& options) {
  std::vector<double> sums(options.values);
  Contribution mean{.values = std::vector<float>(options.values),
                    .maxima = std::vector<std::int64_t>(options.maxima, INT64_MIN)};
  for (const std::size_t rank : ranks) {
    const Contribution own = contribution_of(rank, round, options);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i] += own.values[i];
    }
    for (std::size_t i = 0; i < options.maxima; ++i) {
      mean.maxima[i] = std::max(mean.maxima[i], own.maxima[i]);
    }
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    mean.values[i] = static_cast<float>(sums[i] / static_cast<double>(ranks.size()));
  }
  return mean;
}

// A member of a test: its transport, its ring, and all that it was told.
class TestMember : public RingListener {
 public:
  template <typename World>
  TestMember(World& world, const RingOptions& options, Wiretap::OnSend on_send = {},
             const transport::TransportOptions& transport_options = {},
             const MakeEngine& make_engine = make_wire_engine)
      : options_(options),
        node_(world, options.members[options.rank].name, options.members[options.rank].address,
              transport_options),
        tap_(*node_.transport, std::move(on_send)),
        ring_(options, tap_, *this, make_engine) {}
  ~TestMember() override { ring_.stop(); }
  TestMember(const TestMember&) = delete;
  TestMember& operator=(const TestMember&) = delete;

  Ring& ring() { return ring_; }
  Wiretap& tap() { return tap_; }
  const std::string& name() const { return options_.members[options_.rank].name; }

  void on_begin(std::int64_t round) override {
    begins.add(round);
    if (is_slow) {
      return;
    }
    Contribution own = contribution_of(options_.rank, round, options_);
    own.may_be_rounded = !is_exact;
    if (adjust) {
      adjust(own.values);
    }
    if (carries_on && count_ > 0) {
      const Average last = averages.entries().back();
      for (std::size_t i = 0; i < last.left_out.size(); ++i) {
        own.values[i] += last.left_out[i];
      }
    }
    if (is_spoilt && !own.values.empty()) {
      own.values[own.values.size() / 2] = NAN;
    }
    ring_.contribute(round, std::move(own));
  }
  void on_average(Average average) override {
    averages.add(std::move(average));
    rounds.add(++count_);
    if (is_eager) {
      ring_.offer();
    }
  }
  void on_abandoned(std::int64_t, const std::string& why, bool is_offered) override {
    withdrawn.add(!is_offered);
    abandoned.add(why);
  }
  void on_latest(Contribution values, std::int64_t round) override {
    latest.add({.round = round, .result = std::move(values)});
  }
  void on_wanted(std::int64_t ticket) override {
    wanted.add(ticket);
    if (latest.entries().empty()) {
      wanted_first.add(ticket);
    }
    const auto all = averages.entries();
    if (all.empty()) {
      ring_.give_latest(ticket, contribution_of(options_.rank, 0, options_), 0);
    } else {
      ring_.give_latest(ticket, all.back().result, all.back().round);
    }
  }
  void on_notice(const std::string& sentence) override { notices.add(sentence); }

  bool wait_for_notice(const std::string& part) {
    return notices.wait_for(
        [&](const std::string& sentence) { return sentence.find(part) != std::string::npos; });
  }
  bool wait_for_averages(std::size_t count) {
    return rounds.wait_for([&](std::size_t number) { return number >= count; });
  }
  // An average of exactly these members, at or after the round.
  bool wait_for_members(const std::vector<std::string>& members, std::int64_t round = 0) {
    return averages.wait_for([&](const Average& average) {
      return average.members == members && average.round >= round;
    });
  }

  transport::Log<std::int64_t> begins;
  transport::Log<Average> averages;
  transport::Log<std::size_t> rounds;  // 1, 2, …: so many averages
  transport::Log<std::string> abandoned;
  transport::Log<bool> withdrawn;  // with each of those: the offer is taken back
  transport::Log<Average> latest;
  transport::Log<std::int64_t> wanted;
  transport::Log<std::int64_t> wanted_first;  // of those, before it was given values itself
  transport::Log<std::string> notices;
  std::atomic<bool> is_slow = false;
  std::atomic<bool> is_spoilt = false;
  std::atomic<bool> is_eager = false;
  std::function<void(std::vector<float>&)> adjust;  // its contributions
  std::atomic<bool> is_exact = false;               // they
  std::atomic<bool> carries_on = false;             // what the codec left out of the round before

 private:
  const RingOptions options_;
  std::size_t count_ = 0;  // owned by the ring's thread
  transport::TestNode node_;
  Wiretap tap_;
  Ring ring_;
};

// A ring of members of one process.
template <typename World>
class TestRing {
 public:
  TestRing(std::size_t members, RingOptions options, MakeEngine make_engine = make_wire_engine)
      : options_(std::move(options)), make_engine_(std::move(make_engine)) {
    for (std::size_t rank = 0; rank < members; ++rank) {
      const std::string name = "node_" + std::to_string(rank);
      options_.members.push_back({.name = name, .address = world_.reserve(name)});
    }
    members_.resize(members);
  }

  void make(std::size_t rank, Wiretap::OnSend on_send = {}) {
    RingOptions options = options_;
    options.rank = rank;
    members_[rank] = std::make_unique<TestMember>(world_, options, std::move(on_send),
                                                  transport::TransportOptions{}, make_engine_);
  }
  void make_all() {
    for (std::size_t rank = 0; rank < members_.size(); ++rank) {
      make(rank);
    }
  }
  void start_all() {
    for (const auto& member : members_) {
      if (member) {
        member->ring().start();
      }
    }
  }
  void offer_all(bool is_final = false) {
    for (const auto& member : members_) {
      if (member) {
        is_final ? member->ring().offer_final() : member->ring().offer();
      }
    }
  }
  void kill(std::size_t rank) { members_[rank].reset(); }

  TestMember& operator[](std::size_t rank) { return *members_[rank]; }
  std::size_t size() const { return members_.size(); }
  const RingOptions& options() const { return options_; }
  std::vector<std::string> names(const std::vector<std::size_t>& ranks) const {
    std::vector<std::string> names;
    for (const std::size_t rank : ranks) {
      names.push_back(options_.members[rank].name);
    }
    return names;
  }

 private:
  World world_;
  RingOptions options_;
  const MakeEngine make_engine_;
  std::vector<std::unique_ptr<TestMember>> members_;
};

inline std::vector<std::size_t> ranks_to(std::size_t count) {
  std::vector<std::size_t> ranks;
  for (std::size_t rank = 0; rank < count; ++rank) {
    ranks.push_back(rank);
  }
  return ranks;
}

inline float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  float largest = 0.0F;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const float difference = std::abs(a[i] - b[i]);
    largest = std::isnan(difference) ? INFINITY : std::max(largest, difference);
  }
  return largest;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

}  // namespace ravnest::reduce
