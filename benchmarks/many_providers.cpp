// A thousand providers in one process: each enrols, has its own connection over TLS, and beats
// every second. Says what it has come to, a line each, so that who started it can look at the
// server:
//
//   joined SECONDS      all of them are greeted
//   beaten              they have beaten for as long as told
//
//   many_providers SERVER TOKEN COUNT SECONDS

#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "ravnest/base/error.h"
#include "ravnest/base/version.h"
#include "ravnest/control/client.h"
#include "ravnest/transport/grpc/enrolment_client.h"

namespace {

using namespace ravnest;
using namespace ravnest::coordinator;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kEnrolling = 8;  // at a time
constexpr std::chrono::minutes kPatience{5};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// How often something has happened, for somebody who waits for it.
class Count {
 public:
  void add() {
    const std::lock_guard lock(mutex_);
    ++count_;
    changed_.notify_all();
  }
  void wait_for(std::size_t wanted, const char* what) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kPatience, [&] { return count_ >= wanted; })) {
      throw Error(ErrorKind::kTimeout, concat("[benchmarks] expected that all ", what, ", ", count_,
                                              " of ", wanted, " have."));
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t count_ = 0;
};

struct Counts {
  Count greeted;
  std::atomic<std::size_t> ended = 0;
};

class Provider {
 public:
  Provider(const std::string& server, const trust::Identity& identity, Measurements measured,
           Counts& counts)
      : client_(server, identity) {
    stream_ = client_.attend({.on_word =
                                  [&counts](const std::string& text) {
                                    const ServerWord word = read_server_word(text);
                                    if (std::holds_alternative<Greeting>(word)) {
                                      counts.greeted.add();
                                    }
                                  },
                              .on_end = [&counts](const std::exception_ptr&) { ++counts.ended; }});
    stream_->say(to_text(
        ProviderWord(Hello{.program = std::string(version()),
                           .reach = {.host = "", .port = 9000, .nonce = "", .was_reached = true},
                           .measured = std::move(measured)})));
  }
  void beat() { stream_->say(to_text(ProviderWord(StillHere{}))); }

 private:
  const control::Client client_;
  std::unique_ptr<control::Stream> stream_;
};

Measurements random_machine(std::mt19937& random) {
  const auto between = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  return {
      .ram_gb = between(2, 64), .threads = 4, .gflops = between(10, 900), .mbps = between(5, 1000)};
}

std::vector<std::optional<trust::Identity>> enrol_all(const std::string& server,
                                                      const trust::Token& token,
                                                      std::size_t count) {
  std::vector<std::optional<trust::Identity>> identities(count);
  std::atomic<std::size_t> next = 0;
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < kEnrolling; ++i) {
    threads.emplace_back([&] {
      for (std::size_t k = next++; k < count; k = next++) {
        identities[k] = transport::enrol(
            token, {.server = server, .name = concat("box-", k), .timeout = kPatience});
      }
    });
  }
  threads.clear();
  return identities;
}

// Those who have joined so far; each beats once a second, at a moment of its own.
class Pool {
 public:
  explicit Pool(std::size_t count)
      : providers_(count), thread_([this](const std::stop_token& stop) { beat(stop); }) {}

  void add(std::unique_ptr<Provider> provider) { providers_[size_++] = std::move(provider); }

 private:
  void beat(const std::stop_token& stop) {
    const auto each = std::chrono::nanoseconds(std::chrono::seconds(1)) / providers_.size();
    for (auto next = Clock::now(); !stop.stop_requested();) {
      for (std::size_t i = 0; i < providers_.size() && !stop.stop_requested(); ++i) {
        if (i < size_) {
          providers_[i]->beat();
        }
        std::this_thread::sleep_until(next += each);
      }
    }
  }

  std::vector<std::unique_ptr<Provider>> providers_;
  std::atomic<std::size_t> size_ = 0;
  std::jthread thread_;
};

void run(const std::vector<std::string>& words) {
  const std::string& server = words.at(0);
  const auto count = static_cast<std::size_t>(std::stoul(words.at(2)));
  const std::chrono::seconds seconds(std::stol(words.at(3)));
  const auto identities = enrol_all(server, trust::parse_token(words.at(1)), count);
  const auto start = Clock::now();
  Counts counts;  // outlives the pool
  std::mt19937 random(1);
  Pool pool(count);
  for (const auto& identity : identities) {
    pool.add(std::make_unique<Provider>(server, *identity, random_machine(random), counts));
  }
  counts.greeted.wait_for(count, "are greeted");
  std::cout << "joined " << seconds_since(start) << std::endl;
  std::this_thread::sleep_for(seconds);
  std::cout << "beaten" << std::endl;
  if (counts.ended > 0) {
    throw Error(ErrorKind::kPeerLost,
                concat("[benchmarks] ", counts.ended.load(), " of ", count, " sessions ended."));
  }
}

}  // namespace

int main(int count, char** words) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  try {
    run({words + 1, words + count});
  } catch (const std::exception& error) {
    std::cerr << "many_providers: " << error.what() << "\n";
    return 1;
  }
}
