#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ravnest/reduce/ring.h"
#include "ravnest/reduce/words.h"
#include "ravnest/transport/transport.h"

namespace ravnest::reduce {

// Gets the latest values from another member, and gives ours to others. Whoever is behind asks all;
// the first that has them and answers is asked to send them, on a channel of its own. Owned by the
// ring's thread.
class Latest {
 public:
  struct Hooks {
    std::function<void(std::size_t rank, const FetchWord& word)> say;
    std::function<void(std::function<void()> task)> post;  // to the ring's thread; any thread
    std::function<void(Contribution latest, const Commit& commit)> on_latest;
    std::function<void(std::int64_t ticket)> on_wanted;
  };
  Latest(const RingOptions& options, transport::Transport& transport, Hooks hooks);
  ~Latest();
  Latest(const Latest&) = delete;
  Latest& operator=(const Latest&) = delete;

  // The values of this commit or a later one. Does nothing while it is under way.
  void want(const Commit& commit, TimePoint now);
  void hear(std::size_t from, const FetchWord& word, const History& history, TimePoint now);
  void give(std::int64_t ticket, Contribution latest, const Commit& commit);
  TimePoint tick(TimePoint now);

 private:
  struct Search {
    Commit commit;
    std::int64_t ticket = 0;
    TimePoint deadline;
    std::optional<std::size_t> holder;
    std::unique_ptr<transport::Receiver> receiver;
  };
  struct Wish {
    std::size_t rank = 0;
    std::int64_t ticket = 0;  // the other's
  };

  void ask(TimePoint now);
  void on_message(std::int64_t ticket, const transport::Message& message);
  Contribution checked(const transport::Message& message) const;
  std::string channel(std::int64_t ticket) const;

  const RingOptions& options_;
  transport::Transport& transport_;
  const Hooks hooks_;
  std::optional<Search> search_;
  std::int64_t tickets_;
  std::optional<std::size_t> slow_;      // a holder that did not send
  std::map<std::int64_t, Wish> wishes_;  // by our ticket
  std::vector<std::unique_ptr<transport::Sender>> giving_;
};

}  // namespace ravnest::reduce
