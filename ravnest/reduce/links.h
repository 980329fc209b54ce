#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ravnest/reduce/leader.h"
#include "ravnest/reduce/ring.h"
#include "ravnest/reduce/words.h"
#include "ravnest/transport/transport.h"

namespace ravnest::reduce {

// A channel that has to be opened anew.
inline bool is_over(transport::Phase phase) {
  return phase == transport::Phase::kClosed || phase == transport::Phase::kFailed;
}

// The channels for words, to and from every other member. Words never wait: one that finds no room
// is said again a little later. Owned by the ring's thread; the handlers are called on the
// transport's.
class Links {
 public:
  using OnWord = std::function<void(std::size_t rank, Word word)>;
  // A message that is no word; with the reason.
  using OnNonsense = std::function<void(std::size_t rank, const std::string& why)>;

  Links(const RingOptions& options, transport::Transport& transport, OnWord on_word,
        OnNonsense on_nonsense);

  void say(std::size_t rank, const Word& word);
  // What we say reaches it, or did.
  bool has_met(std::size_t rank) const {
    return lines_[rank].sender->state().phase != transport::Phase::kWaiting;
  }
  // Says what was left unsaid, and opens anew what has ended. Returns when to be called again.
  TimePoint tick(TimePoint now);
  Link link(std::size_t rank, TimePoint now);
  // Says goodbye to those who are there.
  void close(Milliseconds timeout);

 private:
  struct Line {
    std::unique_ptr<transport::Sender> sender;
    std::unique_ptr<transport::Receiver> receiver;
    std::optional<Word> unsaid;
    bool was_open = false;
    std::optional<TimePoint> open_at;  // when it was last seen open
    bool has_left = false;
  };

  void open(std::size_t rank);
  void receive(std::size_t rank);

  const RingOptions& options_;
  transport::Transport& transport_;
  const std::string channel_;
  const OnWord on_word_;
  const OnNonsense on_nonsense_;
  std::vector<Line> lines_;  // by rank
};

}  // namespace ravnest::reduce
