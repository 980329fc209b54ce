#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ravnest/package/package.h"
#include "ravnest/provider/averaged_values.h"
#include "ravnest/reduce/outer_step.h"
#include "ravnest/reduce/ring.h"

namespace ravnest::provider {

struct AveragingOptions {
  std::optional<std::int64_t> every;  // updates; empty: whenever the data's next epoch begins
  bool is_blocking = false;           // training waits for each averaging; else it goes on beside
  bool with_rule = false;             // the optimizer's state too
  transport::Codec codec;
  reduce::Mean mean = reduce::Mean::kPlain;
  bool is_gloo = false;  // c10d's Gloo moves the values, see gloo_engine; else our transport
  // Clusters that were started each by itself begin together: training waits at the first averaging
  // until all are there. Else for `patience`.
  bool begins_together = true;
  bool is_network_trusted = false;
  std::string listen;  // as the provider's, for Gloo
  reduce::OuterOptions outer;
  std::size_t streams = 1;  // parts of a stage that are averaged in turn, between two averagings
  // The longest that a fast cluster waits for a slow one, but for the first averaging, which all
  // clusters are waited for, and the last.
  transport::Milliseconds patience{10'000};
};

// The same in the words of a command line or script.
struct AveragingWords {
  std::int64_t every = 0;  // 0: at every epoch
  std::string averaging = "overlapped";
  bool with_rule = false;
  std::string codec = "none";
  std::string robust = "none";
  std::string reduce = "grpc";
  std::string outer = "mean";
  double outer_rate = 0.7;
  double outer_momentum = 0.9;
  std::int64_t streams = 1;
  double patience = 10.0;  // seconds
};
// Throws std::invalid_argument for a word or number that cannot be.
AveragingOptions to_options(const AveragingWords& words);

// An averaging that counted, for people.
struct AveragingNews {
  std::int64_t round = 0;
  std::vector<std::string> members;
  std::size_t nbytes = 0;  // sent by us
  std::chrono::milliseconds duration{0};
  bool is_final = false;
};

// "averaging 3 with node_3, node_6 (12 ms, 1.2 MB)", as `name` says it.
std::string describe(const AveragingNews& news, const std::string& name);

enum class Beginning : std::uint8_t {
  kAnew,
  // After a restart: clusters that may have ended meanwhile are not waited for.
  kGoesOn,
  // The same, and nothing is learned before the values of another cluster are here. The rule has
  // a state already, where that is averaged.
  kFromOthers,
};

// One node's part in averaging its stage with those of other clusters: one ring for each range of
// parameters that has holders of its own, or for each part of it. A round takes a copy of the
// values, and what lies between it and their mean is added to the weights, which may have moved on
// meanwhile. Called on the loop's thread, but for stop().
class Averaging {
 public:
  struct Hooks {
    std::function<void(std::function<void()>)> post;  // to the loop's thread, from any
    // The state of such a rule after an update that changed nothing; where it is averaged. Takes
    // as much memory as an update of another stage like this would.
    std::function<RuleState()> rule_after_nothing;
    std::function<void()> on_changed;  // the weights are others now
    std::function<void(const AveragingNews&)> on_news;
    // A sentence for people: kNews, kWarning or, again and again while training stands still,
    // kWaiting. On a ring's thread or the loop's.
    std::function<void(const std::string&, transport::NoticeKind kind)> on_notice;
  };

  Averaging(AveragingOptions options, const package::NodeConfig& node,
            transport::Transport& transport, Hooks hooks);
  ~Averaging();
  Averaging(const Averaging&) = delete;
  Averaging& operator=(const Averaging&) = delete;

  // There are others to average with.
  static bool is_needed(const package::NodeConfig& node) { return node.clusters > 1; }
  // The most that the members of this node's rings make to it.
  static std::size_t connections(const AveragingOptions& options, const package::NodeConfig& node);

  // What is averaged from here on; both outlive this or the next call.
  void begin(engine::Stage& stage, UpdateRule& rule, Beginning beginning);
  // The stage's update of this number, counted from 1 over the whole run, is made. All stages of a
  // cluster number them alike, those that were started again as well.
  void on_update(std::int64_t number);
  void on_epoch();
  // Until when training has to stand still, if at all.
  std::optional<transport::TimePoint> hold() const;
  // The training has ended, and its last averaging is due; true when that is done. After it the
  // next training may begin.
  bool finish();

  // Ends the rings, from any thread; nothing is averaged or posted afterwards.
  void stop();

 private:
  class Part;

  std::size_t streams() const { return std::max<std::size_t>(options_.streams, 1); }
  void make_parts();
  RuleState averaged_state() const;
  void on_fetched();
  void clear_parts();
  void offer(std::size_t stream);
  void offer_due();
  void on_settled();

  const AveragingOptions options_;
  const package::NodeConfig& node_;
  transport::Transport& transport_;
  const Hooks hooks_;
  engine::Stage* stage_ = nullptr;
  UpdateRule* rule_ = nullptr;
  std::mutex stop_mutex_;  // held while rings are stopped
  std::mutex mutex_;       // guards changes of the list, and the flag
  std::vector<std::shared_ptr<Part>> parts_;
  bool is_stopped_ = false;
  std::int64_t updates_ = 0;      // of the run; 0: none in this training yet
  std::int64_t epoch_began_ = 0;  // after so many of them
  std::int64_t last_epoch_ = 0;   // the updates of the epoch before
  std::size_t next_stream_ = 0;   // of those that are offered in this epoch
  std::size_t trainings_ = 0;     // that have ended
  bool goes_on_ = false;          // after a restart
  bool is_fetching_ = false;      // the values of others
  bool is_finishing_ = false;
  bool is_finished_ = false;  // the rings are those of a training that has ended
  std::optional<transport::TimePoint> hold_until_;
};

}  // namespace ravnest::provider
