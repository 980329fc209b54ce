#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "ravnest/reduce/all_reduce.h"
#include "ravnest/reduce/latest.h"
#include "ravnest/reduce/member.h"

namespace ravnest::reduce {

// Members of a ring on a network in which time passes only when nobody has anything to do. Every
// message is counted, so that a fault can be placed at each of them.
class Simulation {
 public:
  enum class Fault : std::uint8_t {
    kKillSender,    // before the message leaves
    kKillReceiver,  // when the message arrives
    kMuteSender,    // it and all later ones are lost; it still hears
    kDrop,          // a word alone; of values also what follows on that way in that round
    kRestartSender,
  };
  struct Order {
    std::size_t message = 0;
    Fault fault = Fault::kDrop;
  };
  struct Outcome {
    std::int64_t round = 0;
    std::vector<float> values;
    std::vector<std::int64_t> maxima;
    std::vector<std::size_t> members;
    bool is_final = false;
    bool operator==(const Outcome&) const = default;
  };

  explicit Simulation(RingOptions options, unsigned seed = 0)
      : options_(std::move(options)), random_(seed), is_shuffled_(seed != 0) {
    for (std::size_t rank = 0; rank < options_.members.size(); ++rank) {
      nodes_.push_back(make_node(rank));
    }
  }

  void start(std::size_t rank) {
    nodes_[rank]->has_started = true;
    nodes_[rank]->member->start(now_);
  }
  void start_all() {
    for (std::size_t rank = 0; rank < nodes_.size(); ++rank) {
      start(rank);
    }
  }
  void order(const Order& order) { orders_.push_back(order); }
  void offer(std::size_t rank, bool is_final = false) {
    if (nodes_[rank]->is_alive) {
      nodes_[rank]->member->offer(is_final, now_);
    }
  }
  void offer_all(bool is_final = false) {
    for (std::size_t rank = 0; rank < nodes_.size(); ++rank) {
      offer(rank, is_final);
    }
  }
  void kill(std::size_t rank) { nodes_[rank]->is_alive = false; }
  void mute(std::size_t rank, bool is_mute = true) { nodes_[rank]->is_mute = is_mute; }
  void restart(std::size_t rank) {
    nodes_[rank] = make_node(rank);
    nodes_[rank]->is_new = true;
    if (is_eager) {
      nodes_[rank]->next_offer = now_ + Milliseconds(50);
    }
    start(rank);
  }
  // As by SIGSTOP, and on again: what came meanwhile is heard then.
  void stop(std::size_t rank, bool is_stopped = true) { nodes_[rank]->is_stopped = is_stopped; }
  // Nothing passes between these and the others.
  void divide(std::set<std::size_t> half) { half_ = std::move(half); }
  // None of its values arrive; its words do.
  void choke(std::size_t rank, bool is_choked = true) { nodes_[rank]->is_choked = is_choked; }
  // Its contributions are not finite.
  void spoil(std::size_t rank, bool is_spoilt = true) { nodes_[rank]->is_spoilt = is_spoilt; }
  // It never contributes.
  void stall(std::size_t rank, bool is_stalled = true) { nodes_[rank]->is_stalled = is_stalled; }

  // Until it is so; false where it is not within so much simulated time.
  bool run_until(const std::function<bool()>& is_so,
                 Milliseconds most = std::chrono::seconds(120)) {
    const TimePoint end = now_ + most;
    while (!is_so()) {
      if (now_ > end) {
        return false;
      }
      step();
    }
    return true;
  }
  void run_for(Milliseconds time) {
    static_cast<void>(run_until([end = now_ + time, this] { return now_ >= end; }));
  }

  std::size_t size() const { return nodes_.size(); }
  bool is_alive(std::size_t rank) const { return nodes_[rank]->is_alive; }
  bool is_new(std::size_t rank) const { return nodes_[rank]->is_new; }
  bool is_mute(std::size_t rank) const { return nodes_[rank]->is_mute; }
  const std::vector<Outcome>& outcomes(std::size_t rank) const { return nodes_[rank]->outcomes; }
  const std::vector<std::string>& abandoned(std::size_t rank) const {
    return nodes_[rank]->abandoned;
  }
  const std::vector<std::string>& notices(std::size_t rank) const { return nodes_[rank]->notices; }
  std::size_t fetches(std::size_t rank) const { return nodes_[rank]->fetches; }
  std::int64_t round(std::size_t rank) const { return nodes_[rank]->member->round(); }
  std::size_t messages() const { return messages_; }
  std::size_t faults() const { return faults_; }
  Milliseconds elapsed() const {
    return std::chrono::duration_cast<Milliseconds>(now_ - TimePoint{});
  }

 private:
  struct Node final : MemberActions {
    Simulation* world = nullptr;
    std::size_t rank = 0;
    RingOptions options;
    std::unique_ptr<Member> member;
    std::optional<AllReduce> moving;
    TimePoint heard;
    TimePoint deadline{};
    std::optional<TimePoint> next_offer;
    bool is_moving = false;
    bool has_started = false;
    bool is_new = false;  // started anew: what it applied before is forgotten
    bool is_alive = true;
    bool is_mute = false;
    bool is_stopped = false;
    bool is_choked = false;
    bool is_spoilt = false;
    bool is_stalled = false;
    std::deque<std::function<void()>> tasks;
    std::vector<std::pair<std::size_t, transport::Message>> early;
    std::vector<Outcome> outcomes;
    std::vector<std::string> abandoned;
    std::vector<std::string> notices;
    std::size_t fetches = 0;
    std::vector<float> base;  // what all went on from, where that is needed
    Commit committed;         // that the base has in it
    std::map<std::string, std::function<void(transport::Delivery)>> receivers;  // by channel
    std::unique_ptr<transport::Transport> transport;
    std::unique_ptr<Latest> latest;  // after what it uses

    void say(std::size_t to, const Word& word) override { world->send(rank, to, to_message(word)); }
    void begin(std::int64_t round) override {
      if (!is_stalled) {
        tasks.emplace_back([this, round] { member->contributed(round, true, world->now_); });
      }
    }
    std::string engine_text(std::int64_t round) override { return std::to_string(round); }
    void move(const Task& task) override {
      Contribution own{.values = std::vector<float>(options.values),
                       .maxima = std::vector<std::int64_t>(options.maxima)};
      for (std::size_t i = 0; i < own.values.size(); ++i) {
        own.values[i] = static_cast<float>(rank * 1000 + i) + static_cast<float>(task.round);
      }
      for (std::size_t i = 0; i < own.maxima.size(); ++i) {
        own.maxima[i] = static_cast<std::int64_t>((rank * 7 + i) % 5);
      }
      if (is_spoilt && !own.values.empty()) {
        own.values.back() = NAN;
      }
      moving.emplace(options, task, std::move(own),
                     [this](std::size_t to, const transport::Message& message) {
                       world->send(rank, to, message);
                     });
      is_moving = true;
      heard = world->now_;
      work([&] { moving->start(); });
      auto waiting = std::exchange(early, {});
      for (const auto& [from, message] : waiting) {
        on_chunk(from, message);
      }
    }
    void work(const std::function<void()>& step) {
      const std::int64_t round = moving->task().round;
      try {
        step();
        if (is_moving && moving->is_done()) {
          is_moving = false;
          tasks.emplace_back([this, round] { member->moved(round, world->now_); });
        }
      } catch (const Suspicion& suspicion) {
        fail({.suspect = suspicion.rank(),
              .progress = moving->received(),
              .why = suspicion.what(),
              .is_proven = true});
      }
    }
    void fail(const Failure& failure) {
      is_moving = false;
      const std::int64_t round = moving->task().round;
      tasks.emplace_back([this, round, failure] { member->failed(round, failure, world->now_); });
    }
    void on_chunk(std::size_t from, const transport::Message& message) {
      if (is_moving && moving->task().round == message.pass &&
          moving->task().epoch == message.epoch) {
        heard = world->now_;
        work([&] { moving->take(from, message); });
      } else if (!moving || std::pair(message.epoch, message.pass) >
                                std::pair(moving->task().epoch, moving->task().round)) {
        early.emplace_back(from, message);
      }
    }
    void stop_moving() override { is_moving = false; }
    void commit(const Task& task, bool is_final) override {
      Contribution result = moving->result().contribution;
      if (options.needs_base) {
        for (std::size_t i = 0; i < base.size(); ++i) {
          result.values[i] += base[i];
        }
        base = result.values;
      }
      committed = {.epoch = task.epoch, .round = task.round};
      if (world->is_eager) {
        next_offer = world->now_ + Milliseconds(50);
      }
      outcomes.push_back({task.round, std::move(result.values), std::move(result.maxima),
                          task.participants, is_final});
    }
    void abandon(std::int64_t, const std::string& why) override { abandoned.push_back(why); }
    void catch_up(const Commit& commit) override { latest->want(commit, world->now_); }
    void give(std::int64_t ticket) {
      latest->give(ticket, {.values = base, .maxima = std::vector<std::int64_t>(options.maxima)},
                   committed);
    }
    void take(Contribution values, const Commit& commit) {
      ++fetches;
      base = std::move(values.values);
      committed = commit;
      member->caught_up(commit, world->now_);
    }
    void notice(const std::string& sentence) override { notices.push_back(sentence); }
  };
  // The channels of those who were away, on the same network.
  class Channels final : public transport::Transport {
   public:
    explicit Channels(Node& node) : node_(node) {}
    std::unique_ptr<transport::Sender> open(const transport::Peer& to,
                                            const std::string& channel) override {
      const auto& members = node_.options.members;
      const auto found = std::ranges::find(members, to.name, &transport::Peer::name);
      return std::make_unique<Sender>(node_, static_cast<std::size_t>(found - members.begin()),
                                      channel);
    }
    std::unique_ptr<transport::Receiver> receive(const transport::Peer&, const std::string& channel,
                                                 transport::Handler handler) override {
      node_.receivers[channel] = std::move(handler.on_message);
      return std::make_unique<Receiver>(node_, channel);
    }
    void set_members(transport::Members) override {}
    std::string address() const override { return {}; }
    void close(Milliseconds) override {}

   private:
    class Sender final : public transport::Sender {
     public:
      Sender(Node& node, std::size_t to, std::string channel)
          : node_(node), to_(to), channel_(std::move(channel)) {}
      void send(const transport::Message& message, Milliseconds) override {
        node_.world->send(node_.rank, to_, message, channel_);
      }
      void flush(Milliseconds) override {}
      void close(Milliseconds) override {}
      void break_off() override {}
      transport::ChannelState state() const override { return {}; }

     private:
      Node& node_;
      const std::size_t to_;
      const std::string channel_;
    };
    class Receiver final : public transport::Receiver {
     public:
      Receiver(Node& node, std::string channel) : node_(node), channel_(std::move(channel)) {}
      ~Receiver() override { node_.receivers.erase(channel_); }
      Receiver(const Receiver&) = delete;
      Receiver& operator=(const Receiver&) = delete;
      void close(Milliseconds) override {}
      transport::ChannelState state() const override { return {}; }

     private:
      Node& node_;
      const std::string channel_;
    };
    Node& node_;
  };
  struct Parcel {
    std::size_t from = 0;
    std::size_t to = 0;
    transport::Message message;
    std::string channel;  // empty: words, and values of a round
    std::size_t number = 0;
    const Node* receiver = nullptr;  // as it was when this was sent
  };

  std::unique_ptr<Node> make_node(std::size_t rank) {
    auto node = std::make_unique<Node>();
    node->world = this;
    node->rank = rank;
    node->options = options_;
    node->options.rank = rank;
    node->member = std::make_unique<Member>(node->options, ++incarnations_, *node);
    node->base.resize(options_.values);
    node->transport = std::make_unique<Channels>(*node);
    Node* own = node.get();
    node->latest = std::make_unique<Latest>(
        own->options, *own->transport,
        Latest::Hooks{
            .say = [own](std::size_t to, const FetchWord& word) { own->say(to, word); },
            .post = [own](std::function<void()> task) { own->tasks.push_back(std::move(task)); },
            .on_latest = [own](Contribution values,
                               const Commit& commit) { own->take(std::move(values), commit); },
            .on_wanted =
                [own](std::int64_t ticket) {
                  own->tasks.emplace_back([own, ticket] { own->give(ticket); });
                }});
    return node;
  }

  void send(std::size_t from, std::size_t to, const transport::Message& message,
            const std::string& channel = {}) {
    Node& sender = *nodes_[from];
    if (!sender.is_alive) {
      return;
    }
    const std::size_t number = messages_++;
    const bool is_values = message.fields.size() == 5;
    if (is_values &&
        (sender.is_choked || stalled_.contains({from, to, message.epoch, message.pass}))) {
      return;
    }
    for (const Order& order : orders_) {
      if (order.message != number || order.fault == Fault::kKillReceiver) {
        continue;
      }
      ++faults_;
      if (order.fault == Fault::kKillSender) {
        sender.is_alive = false;
      } else if (order.fault == Fault::kMuteSender) {
        sender.is_mute = true;
      } else if (order.fault == Fault::kRestartSender) {
        sender.is_alive = false;
        restarts_.push_back(from);
      } else if (is_values) {
        stalled_.insert({from, to, message.epoch, message.pass});
      }
      return;
    }
    const bool is_divided = !half_.empty() && half_.contains(from) != half_.contains(to);
    if (!sender.is_mute && !is_divided) {
      channels_[{from, to, channel}].push_back(
          {from, to, message, channel, number, nodes_[to].get()});
    }
  }

  void step() {
    for (const std::size_t rank : std::exchange(restarts_, {})) {
      restart(rank);
    }
    for (const auto& node : nodes_) {
      if (node->is_alive && !node->is_stopped && !node->tasks.empty()) {
        const auto task = std::move(node->tasks.front());
        node->tasks.pop_front();
        task();
        node->deadline = now_;
        return;
      }
    }
    if (deliver()) {
      return;
    }
    TimePoint next = TimePoint::max();
    for (const auto& node : nodes_) {
      if (node->is_alive && !node->is_stopped && node->has_started) {
        tick(*node);
        next = std::min(next, node->deadline);
      }
    }
    const bool is_idle = std::ranges::all_of(nodes_, [](const auto& node) {
      return !node->is_alive || node->is_stopped || node->tasks.empty();
    });
    if (is_idle && channels_.empty()) {
      now_ = std::max(now_ + Milliseconds(1), std::min(next, now_ + std::chrono::seconds(1)));
    }
  }

  void tick(Node& node) {
    for (std::size_t rank = 0; rank < nodes_.size(); ++rank) {
      if (rank != node.rank && nodes_[rank]->has_started) {
        const bool is_down = is_loss_seen && !nodes_[rank]->is_alive;
        node.member->set_link(rank, {.was_open = true, .is_down = is_down}, now_);
      }
    }
    if (node.next_offer && now_ >= *node.next_offer) {
      node.next_offer.reset();
      node.member->offer(false, now_);
    }
    node.deadline = std::min({node.member->tick(now_), node.latest->tick(now_),
                              node.next_offer.value_or(TimePoint::max())});
    if (node.is_moving) {
      const TimePoint end = node.heard + options_.silence;
      if (now_ >= end) {
        node.fail({.suspect = node.moving->awaited(),
                   .progress = node.moving->received(),
                   .why = "sent nothing"});
      } else {
        node.deadline = std::min(node.deadline, end);
      }
    }
  }

  bool deliver() {
    while (!channels_.empty()) {
      auto chosen = channels_.begin();
      if (is_shuffled_) {
        std::advance(chosen, random_() % channels_.size());
      } else {
        chosen = std::ranges::min_element(
            channels_, {}, [](const auto& channel) { return channel.second.front().number; });
      }
      Parcel parcel = std::move(chosen->second.front());
      chosen->second.pop_front();
      if (chosen->second.empty()) {
        channels_.erase(chosen);
      }
      Node& receiver = *nodes_[parcel.to];
      for (const Order& order : orders_) {
        if (order.message == parcel.number && order.fault == Fault::kKillReceiver) {
          ++faults_;
          receiver.is_alive = false;
        }
      }
      if (receiver.is_alive && receiver.has_started && &receiver == parcel.receiver) {
        now_ += std::chrono::microseconds(100);
        if (receiver.is_stopped) {
          receiver.tasks.emplace_back([this, &receiver, parcel] { hear(receiver, parcel); });
        } else {
          hear(receiver, parcel);
        }
        return true;
      }
    }
    return false;
  }

  void hear(Node& node, const Parcel& parcel) {
    if (!parcel.channel.empty()) {
      if (const auto found = node.receivers.find(parcel.channel); found != node.receivers.end()) {
        found->second({.message = parcel.message});
      }
      return;
    }
    if (parcel.message.fields.size() == 5) {
      node.on_chunk(parcel.from, parcel.message);
      return;
    }
    const Word word = read_word(parcel.message, nodes_.size());
    if (const auto* leader = std::get_if<LeaderWord>(&word)) {
      node.member->hear(parcel.from, *leader, now_);
    } else if (const auto* member = std::get_if<MemberWord>(&word)) {
      node.member->hear(parcel.from, *member, now_);
    } else {
      node.latest->hear(parcel.from, std::get<FetchWord>(word), node.member->history(), now_);
    }
  }

 public:
  // Whether members learn from their transport that another is gone; else by silence alone.
  bool is_loss_seen = false;
  // Whether members offer again a while after every round.
  bool is_eager = false;

 private:
  const RingOptions options_;
  std::mt19937 random_;
  const bool is_shuffled_;
  TimePoint now_{};
  std::vector<std::unique_ptr<Node>> nodes_;
  // Each keeps its order, and may overtake the others.
  std::map<std::tuple<std::size_t, std::size_t, std::string>, std::deque<Parcel>> channels_;
  std::vector<Order> orders_;
  std::vector<std::size_t> restarts_;
  std::set<std::size_t> half_;
  std::set<std::tuple<std::size_t, std::size_t, std::int64_t, std::int64_t>> stalled_;
  std::size_t messages_ = 0;
  std::size_t faults_ = 0;
  std::int64_t incarnations_ = 0;
};

}  // namespace ravnest::reduce
