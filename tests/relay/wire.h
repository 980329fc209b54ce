#pragma once

#include <condition_variable>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "ravnest/relay/pipe.h"

namespace ravnest::relay {

using Bytes = std::vector<std::byte>;

// One direction of a wire: a queue that holds its sender back.
class Flow {
 public:
  bool push(std::span<const std::byte> bytes) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return has_ended_ || nbytes_ < kMost; });
    if (has_ended_) {
      return false;
    }
    nbytes_ += bytes.size();
    pieces_.emplace_back(bytes.begin(), bytes.end());
    changed_.notify_all();
    return true;
  }

  // Empty once it has ended and all was taken.
  Bytes pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return has_ended_ || !pieces_.empty(); });
    if (pieces_.empty()) {
      return {};
    }
    Bytes bytes = std::move(pieces_.front());
    pieces_.pop_front();
    nbytes_ -= bytes.size();
    changed_.notify_all();
    return bytes;
  }

  void end() {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    changed_.notify_all();
  }

 private:
  static constexpr std::size_t kMost = 1 << 20;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Bytes> pieces_;
  std::size_t nbytes_ = 0;
  bool has_ended_ = false;
};

// One end of a wire, with the thread that brings its events.
class WireEnd : public Pipe {
 public:
  WireEnd(std::shared_ptr<Flow> in, std::shared_ptr<Flow> out)
      : in_(std::move(in)), out_(std::move(out)) {}
  ~WireEnd() override { WireEnd::close(); }

  void start(PipeEvents events) {
    thread_ = std::jthread([in = in_, events = std::move(events)] {
      for (Bytes bytes = in->pop(); !bytes.empty(); bytes = in->pop()) {
        events.on_bytes(bytes);
      }
      events.on_end();
    });
  }

  bool write(std::span<const std::byte> bytes) override { return out_->push(bytes); }
  void close() override {
    in_->end();
    out_->end();
  }

 private:
  const std::shared_ptr<Flow> in_;
  const std::shared_ptr<Flow> out_;
  std::jthread thread_;
};

struct Wire {
  std::unique_ptr<WireEnd> near_end;
  std::unique_ptr<WireEnd> far_end;
};

inline Wire make_wire() {
  const auto there = std::make_shared<Flow>();
  const auto back = std::make_shared<Flow>();
  return {.near_end = std::make_unique<WireEnd>(back, there),
          .far_end = std::make_unique<WireEnd>(there, back)};
}

// Whoever writes into it waits until it is closed.
class StuckPipe : public Pipe {
 public:
  bool write(std::span<const std::byte>) override {
    std::unique_lock lock(mutex_);
    is_waiting_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return is_closed_; });
    return false;
  }
  void close() override {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    changed_.notify_all();
  }

  void wait_for_writer() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_waiting_; });
  }
  bool is_closed() {
    const std::lock_guard lock(mutex_);
    return is_closed_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_waiting_ = false;
  bool is_closed_ = false;
};

// A pipe in another's hands.
class BorrowedPipe : public Pipe {
 public:
  explicit BorrowedPipe(std::shared_ptr<Pipe> pipe) : pipe_(std::move(pipe)) {}
  bool write(std::span<const std::byte> bytes) override { return pipe_->write(bytes); }
  void close() override { pipe_->close(); }

 private:
  const std::shared_ptr<Pipe> pipe_;
};

}  // namespace ravnest::relay
