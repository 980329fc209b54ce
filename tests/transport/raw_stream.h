#pragma once

#include <deque>

#include "tests/transport/world.h"

namespace ravnest::transport {

// The other side of a stream in the hands of a test: writes what it is told, keeps what comes.
class RawStream : public StreamOwner {
 public:
  NextFrame next_frame() override {
    const std::lock_guard lock(mutex_);
    if (frames_.empty()) {
      return {};
    }
    NextFrame next{.frame = std::move(frames_.front())};
    frames_.pop_front();
    return next;
  }
  void on_frame(const InFrame& frame) override { heads.add(frame.head); }
  void on_end(const std::string& reason) override {
    set_stream(nullptr);
    ends.add(reason);
  }

  void set_stream(std::shared_ptr<Stream> stream) {
    const std::lock_guard lock(mutex_);
    stream_ = std::move(stream);
  }

  void write(FrameHead head, const Bytes& payload = {}) {
    std::shared_ptr<Stream> stream;
    {
      const std::lock_guard lock(mutex_);
      OutFrame frame{.head = std::move(head)};
      if (!payload.empty()) {
        frame.payload.push_back(payload);
      }
      frames_.push_back(std::move(frame));
      stream = stream_;
    }
    if (stream) {
      stream->wake();
    }
  }

  template <typename Head>
  bool wait_for() {
    return heads.wait_for([](const FrameHead& head) { return std::holds_alternative<Head>(head); });
  }
  bool wait_for_end() {
    return ends.wait_for([](const std::string&) { return true; });
  }
  template <typename Head>
  Head last() const {
    Head found;
    for (const FrameHead& head : heads.entries()) {
      if (const auto* match = std::get_if<Head>(&head)) {
        found = *match;
      }
    }
    return found;
  }

  Log<FrameHead> heads;
  Log<std::string> ends;

 private:
  std::mutex mutex_;
  std::shared_ptr<Stream> stream_;  // until its end
  std::deque<OutFrame> frames_;
};

// A raw stream to a node. The carrier must outlive it, and be stopped before the test ends.
inline std::shared_ptr<RawStream> connect_raw(Carrier& carrier, const Peer& peer) {
  auto raw = std::make_shared<RawStream>();
  raw->set_stream(carrier.connect(peer, raw));
  return raw;
}

inline Hello hello_to(const std::string& to) {
  return {.plan = "plan", .from = "raw", .to = to, .channel = "forward", .instance = 77};
}

}  // namespace ravnest::transport
