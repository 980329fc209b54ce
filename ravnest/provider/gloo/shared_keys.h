#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "ravnest/reduce/courier.h"
#include "ravnest/reduce/ring.h"
#include "ravnest/reduce/words.h"
#include "ravnest/transport/transport.h"

namespace ravnest::provider {

// Where the members of a ring learn each other's addresses for Gloo: what one sets, all have, over
// our own transport (channel "reduce.<ring>.keys"), so that no further port stands open. A group's
// keys are apart from those of other groups. Any thread.
class SharedKeys {
 public:
  // Listens to all other members. Borrows both.
  SharedKeys(const reduce::RingOptions& options, transport::Transport& transport);
  ~SharedKeys();
  SharedKeys(const SharedKeys&) = delete;
  SharedKeys& operator=(const SharedKeys&) = delete;

  // What is set from here on goes to these ranks. Keys of earlier groups are forgotten, and whoever
  // waits for them throws. On the ring's thread.
  void begin(const reduce::Commit& group, std::vector<std::size_t> participants);
  // Nobody waits any more.
  void stop();
  c10::intrusive_ptr<c10d::Store> store(const reduce::Commit& group,
                                        std::chrono::milliseconds timeout);

 private:
  class KeyStore;
  using Values = std::map<std::string, std::vector<std::uint8_t>>;

  void open(std::size_t rank);
  void on_message(const transport::Message& message);
  void put(const reduce::Commit& group, const std::string& key, std::vector<std::uint8_t> value);
  void tell(const reduce::Commit& group, const std::string& key,
            const std::vector<std::uint8_t>& value);
  bool has(const reduce::Commit& group, const std::vector<std::string>& keys) const;

  const reduce::RingOptions& options_;
  transport::Transport& transport_;
  const std::string channel_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::map<reduce::Commit, Values> groups_;
  reduce::Commit current_;
  std::vector<std::size_t> participants_;
  bool is_stopped_ = false;

  reduce::Courier courier_;
  std::map<std::size_t, std::unique_ptr<transport::Receiver>> sources_;  // by rank
};

}  // namespace ravnest::provider
