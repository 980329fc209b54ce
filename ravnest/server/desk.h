#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <type_traits>

#include "ravnest/base/error.h"
#include "ravnest/base/workers.h"
#include "ravnest/coordinator/coordinator.h"
#include "ravnest/coordinator/words.h"

namespace ravnest::server {

// Somebody at the other end of a stream of words.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void say(std::string text) = 0;
  // After what was said. Empty: all is well.
  virtual void end(const std::string& reason) = 0;
  // The same, and it need not come back.
  virtual void refuse(const std::string& reason) = 0;
};

struct DeskOptions {
  std::filesystem::path data;
  // The log cannot be written any more, or worse: nothing may be acknowledged from here on.
  std::function<void(const std::string&)> on_broken;
  std::function<void()> on_change;  // for those who watch; on the desk's thread
};

// The one thread on which the server decides, and what becomes of its decisions: words to providers
// and requesters, plans. Ticks by itself.
class Desk {
 public:
  // Reads the log. Throws as coordinator::Coordinator does.
  explicit Desk(DeskOptions options);
  ~Desk();
  // Decides nothing any more, as if the process had been killed: that everybody is cut off when the
  // server ends is nobody's loss. Not on the desk's thread.
  void end();
  Desk(const Desk&) = delete;
  Desk& operator=(const Desk&) = delete;

  // On the desk's thread, in order. Any thread. Where it is not run to its end, since the desk is
  // broken or has ended, `dropped` is called.
  void post(std::function<void()> task, std::function<void()> dropped = [] {});
  // The same, with its result; throws what it throws, and Error(kPeerLost) where it was dropped.
  // Not on the desk's thread.
  template <typename Function>
  std::invoke_result_t<Function> ask(Function function) {
    using Result = std::invoke_result_t<Function>;
    auto task = std::make_shared<std::packaged_task<Result()>>(std::move(function));
    std::future<Result> result = task->get_future();
    post([task = std::move(task)] { (*task)(); });
    try {
      return result.get();
    } catch (const std::future_error&) {
      throw Error(ErrorKind::kPeerLost, "[server] expected a server at work, got one that ends.");
    }
  }
  // For tests whether a member can be reached: members can hold these up, and plans not.
  Workers& reach_tests() { return reach_tests_; }
  bool is_ending() const { return is_ending_; }
  coordinator::Artifacts& artifacts() { return coordinator_.artifacts(); }

  // The rest on the desk's thread alone.
  const coordinator::State& state() const { return coordinator_.state(); }
  static coordinator::Now now();
  coordinator::Decision handle(const coordinator::Event& event);
  // Its session, once accepted, belongs to the listener.
  coordinator::Decision join(const coordinator::Join& event, std::shared_ptr<Listener> listener);
  void forget(std::int64_t session) { sessions_.erase(session); }
  // Tells how the job stands, now and at every change, until it is over.
  // Whoever watched it before is refused: a job has one feed.
  void watch(coordinator::JobId job, const std::shared_ptr<Listener>& listener);
  // False where another has taken its place, or the job is over.
  bool unwatch(coordinator::JobId job, const Listener& listener);
  // A session's listener; nothing where it is gone.
  std::shared_ptr<Listener> find(const coordinator::MemberId& provider) const;
  // Those who feed one of these jobs, as this requester.
  std::vector<std::shared_ptr<Listener>> find_feeds(const coordinator::MemberId& requester,
                                                    const std::set<coordinator::JobId>& jobs) const;

 private:
  struct Feed {
    coordinator::JobId job = 0;
    std::weak_ptr<Listener> listener;
    std::string last;
  };

  struct Task {
    std::function<void()> run;
    std::function<void()> dropped;
  };

  void run();
  void run_task(const Task& task);
  void act(const coordinator::Decision& decision);
  void say(std::int64_t session, const coordinator::ServerWord& word);
  void make_plan(const coordinator::MakePlan& ask);
  void tell_feeds();
  void give_up(const std::string& reason);

  const DeskOptions options_;
  coordinator::Coordinator coordinator_;
  std::map<std::int64_t, std::shared_ptr<Listener>> sessions_;
  std::vector<Feed> feeds_;
  bool is_broken_ = false;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool is_over_ = false;

  std::atomic<bool> is_ending_ = false;  // plans in the making end
  Workers planners_;
  Workers reach_tests_;
  std::jthread thread_;
};

}  // namespace ravnest::server
