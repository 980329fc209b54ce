// One member of a ring that averages over gRPC, or through c10d's Gloo: run one process for each.
//
//   reduce_bench --rank I --members HOST:PORT,HOST:PORT,... [--size FLOATS] [--rounds N]
//                [--codec NAME] [--chunk BYTES] [--frame BYTES] [--window MESSAGES] [--step]
//                [--gloo] [--trusted]
//
// Prints a line of JSON for every round: the seconds from the offer to the average, and the bytes
// sent. With --step a round begins with every line of standard input, so that a script can run it
// in turns with something else (benchmarks/reducing.py). --trusted lets values leave the machine.

#include <sys/prctl.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "ravnest/base/error.h"
#include "ravnest/provider/gloo/gloo_engine.h"
#include "ravnest/reduce/ring.h"
#include "ravnest/transport/grpc/grpc_transport.h"

namespace ravnest::reduce {
namespace {

struct Settings {
  std::size_t rank = 0;
  std::vector<std::string> members;
  std::size_t size = 1'000'000;
  int rounds = 10;
  transport::Codec codec;
  std::size_t chunk = RingOptions().largest_chunk;
  std::size_t window = transport::Window().messages;
  std::size_t frame = transport::TransportOptions().largest_chunk;
  bool is_stepped = false;
  bool is_gloo = false;
  bool is_trusted = false;
};

using Clock = std::chrono::steady_clock;

// Contributes the same memory again and again, and lets the main thread wait for averages.
class Bench : public RingListener {
 public:
  explicit Bench(const Settings& settings) : settings_(settings) {
    values_.resize(settings.size);
    for (std::size_t i = 0; i < values_.size(); ++i) {
      values_[i] = static_cast<float>((i * 31 + settings.rank * 17) % 1000) * 0.001F;
    }
    transport::TransportOptions options{.name = name_of(settings.rank), .plan = "bench"};
    options.window.messages = settings.window;
    options.largest_chunk = settings.frame;
    transport_ = transport::make_grpc_transport(
        {.listen = settings.members[settings.rank], .is_network_trusted = settings.is_trusted},
        options);
    RingOptions ring{.rank = settings.rank, .values = settings.size, .codec = settings.codec};
    ring.largest_chunk = settings.chunk;
    for (std::size_t rank = 0; rank < settings.members.size(); ++rank) {
      ring.members.push_back({.name = name_of(rank), .address = settings.members[rank]});
    }
    ring_.emplace(ring, *transport_, *this,
                  settings.is_gloo ? provider::gloo_engine(settings.is_trusted)
                                   : MakeEngine(make_wire_engine));
    ring_->start();
  }

  Average run_round(double& seconds) {
    const auto start = Clock::now();
    ring_->offer();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return average_.has_value(); });
    seconds = std::chrono::duration<double>(Clock::now() - start).count();
    Average average = std::move(*average_);
    average_.reset();
    return average;
  }

  void on_begin(std::int64_t round) override {
    ring_->contribute(round, Contribution{.values = std::move(values_)});
  }
  void on_average(Average average) override {
    values_ = std::move(average.result.values);
    const std::lock_guard lock(mutex_);
    average_ = std::move(average);
    changed_.notify_all();
  }
  void on_abandoned(std::int64_t, const std::string& why, bool) override {
    std::fprintf(stderr, "abandoned: %s\n", why.c_str());
    values_.assign(settings_.size, 1.0F);
  }
  void on_latest(Contribution, std::int64_t) override {}
  void on_wanted(std::int64_t) override {}
  void on_notice(const std::string& sentence) override {
    std::fprintf(stderr, "%s\n", sentence.c_str());
  }

 private:
  static std::string name_of(std::size_t rank) { return "node_" + std::to_string(rank); }

  const Settings settings_;
  std::vector<float> values_;  // with the ring during a round
  std::unique_ptr<transport::Transport> transport_;
  std::optional<Ring> ring_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Average> average_;
};

int run(const Settings& settings) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  Bench bench(settings);
  std::string line;
  for (int round = 0; settings.is_stepped || round < settings.rounds; ++round) {
    if (settings.is_stepped && !std::getline(std::cin, line)) {
      break;
    }
    double seconds = 0.0;
    const Average average = bench.run_round(seconds);
    std::printf("{\"seconds\": %.6f, \"nbytes_sent\": %zu, \"members\": %zu}\n", seconds,
                average.nbytes_sent, average.members.size());
    std::fflush(stdout);
  }
  return 0;
}

bool parse(int count, char** words, Settings& settings) {
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--step") {
      settings.is_stepped = true;
      continue;
    }
    if (word == "--gloo") {
      settings.is_gloo = true;
      continue;
    }
    if (word == "--trusted") {
      settings.is_trusted = true;
      continue;
    }
    if (i + 1 == count) {
      return false;
    }
    const std::string value = words[++i];
    if (word == "--rank") {
      settings.rank = std::stoul(value);
    } else if (word == "--members") {
      std::istringstream addresses(value);
      for (std::string address; std::getline(addresses, address, ',');) {
        settings.members.push_back(address);
      }
    } else if (word == "--size") {
      settings.size = std::stoul(value);
    } else if (word == "--rounds") {
      settings.rounds = std::stoi(value);
    } else if (word == "--codec") {
      settings.codec = transport::parse_codec(value);
    } else if (word == "--chunk") {
      settings.chunk = std::stoul(value);
    } else if (word == "--frame") {
      settings.frame = std::stoul(value);
    } else if (word == "--window") {
      settings.window = std::stoul(value);
    } else {
      return false;
    }
  }
  return settings.rank < settings.members.size();
}

}  // namespace
}  // namespace ravnest::reduce

int main(int count, char** words) {
  using namespace ravnest::reduce;
  try {
    Settings settings;
    if (!parse(count, words, settings)) {
      std::fprintf(stderr,
                   "reduce_bench --rank I --members HOST:PORT,... [--size FLOATS] [--rounds N]\n"
                   "             [--codec NAME] [--chunk BYTES] [--frame BYTES] [--window "
                   "MESSAGES] [--step] [--gloo] [--trusted]\n");
      return 2;
    }
    return run(settings);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
