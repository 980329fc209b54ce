#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "ravnest/reduce/ring.h"
#include "ravnest/transport/transport.h"

namespace ravnest::reduce {

// Sends values to other members on a thread of its own: everyone sends to the next and takes from
// the one before, so whoever waited for room in a window instead of taking would hold up the whole
// circle. Any thread.
class Courier {
 public:
  // The text says what went wrong with a message to this member. On the courier's thread.
  using OnError = std::function<void(std::size_t rank, std::int64_t round, const std::string&)>;

  Courier(const RingOptions& options, transport::Transport& transport, std::string channel,
          OnError on_error);
  ~Courier();
  Courier(const Courier&) = delete;
  Courier& operator=(const Courier&) = delete;

  // Makes sure that there is a channel. On the ring's thread.
  void open(std::size_t rank);
  void send(std::size_t rank, transport::Message message);
  // Forgets what was not sent.
  void clear();

 private:
  struct Parcel {
    std::size_t rank = 0;
    transport::Message message;
  };

  void run();
  void deliver(const Parcel& parcel, std::uint64_t generation);
  bool is_current(std::uint64_t generation);

  const RingOptions& options_;
  transport::Transport& transport_;
  const std::string channel_;
  const OnError on_error_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::map<std::size_t, std::shared_ptr<transport::Sender>> senders_;
  std::deque<Parcel> parcels_;
  bool is_busy_ = false;  // with one that is in no queue any more
  std::uint64_t generation_ = 0;
  bool is_stopping_ = false;

  std::jthread thread_;
};

}  // namespace ravnest::reduce
