#include "ravnest/provider/gloo/gloo_engine.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <utility>

#include "ravnest/base/address.h"
#include "ravnest/base/error.h"
#include "ravnest/provider/gloo/shared_keys.h"
#include "ravnest/provider/stopped.h"
#include "ravnest/reduce/ring.h"
#include "ravnest/reduce/sums.h"

namespace ravnest::provider {

namespace {

using reduce::Commit;
using reduce::Contribution;
using reduce::Task;
using transport::TimePoint;

// Floats; smaller pieces cost more than they hide.
constexpr std::size_t kPiece = std::size_t{4} << 20;

std::vector<std::span<float>> in_pieces(std::span<float> values) {
  std::vector<std::span<float>> pieces;
  for (std::size_t first = 0; first < values.size(); first += kPiece) {
    pieces.push_back(values.subspan(first, std::min(kPiece, values.size() - first)));
  }
  return pieces;
}

// Connections between the participants of a round; good for the next with the same ones.
struct Group {
  Commit id;  // the round that it was made for
  std::vector<std::size_t> participants;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo;
};

struct Work {
  Task task;
  Contribution contribution;
  bool is_kept = false;  // the group of the round before is to be used
};

// Without the brackets of IPv6.
std::string bare(std::string_view host) {
  return std::string(host.starts_with('[') ? host.substr(1, host.size() - 2) : host);
}

// Where Gloo listens, and says that it does: at the host that we listen at, or where that is any,
// at the one that the plan has.
std::string own_host(const reduce::RingOptions& options, const std::string& listen) {
  const std::string host = bare(std::string_view(listen).substr(0, listen.rfind(':')));
  const bool is_any = host.empty() || host == "0.0.0.0" || host == "::";
  return is_any ? bare(parse_address(options.members[options.rank].address).host) : host;
}

// What goes wrong here, and is nobody else's doing.
class OwnFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

std::shared_ptr<gloo::transport::Device> listen_at(const std::string& host) {
  try {
    return c10d::ProcessGroupGloo::createDeviceForHostname(host);
  } catch (const std::exception&) {
    throw OwnFailure(
        concat("cannot listen at ", host, " for Gloo: ", text_of(std::current_exception())));
  }
}

class GlooEngine : public reduce::Engine {
 public:
  GlooEngine(std::string host, const reduce::RingOptions& options, transport::Transport& transport,
             reduce::EngineListener& listener)
      : host_(std::move(host)), options_(options), listener_(listener), keys_(options, transport) {
    static_cast<void>(listen_at(host_));
    thread_ = std::jthread([this] { run(); });
  }
  ~GlooEngine() override;
  GlooEngine(const GlooEngine&) = delete;
  GlooEngine& operator=(const GlooEngine&) = delete;

  std::string text(std::int64_t round) override;
  void begin(const Task& task, Contribution contribution) override;
  void abort() override;
  Result take() override;
  TimePoint tick(TimePoint) override { return TimePoint::max(); }

 private:
  void run();
  void work(Work& work);
  void meet(const Work& work);
  // False: our own values are not finite.
  bool average(Work& work);
  template <typename Value>
  c10::intrusive_ptr<c10d::Work> start(std::span<Value> values, c10::ScalarType type,
                                       c10d::ReduceOp operation);
  void fail(const Task& task, reduce::Failure failure);

  const std::string host_;
  const reduce::RingOptions& options_;
  reduce::EngineListener& listener_;
  SharedKeys keys_;

  // Owned by the thread.
  std::optional<Group> group_;
  bool looks_first_ = false;  // at our own values

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::optional<Work> next_;
  std::optional<Commit> wanted_;  // the round under way
  std::string standing_;          // the name of a group that has not failed
  Contribution result_;
  std::size_t nbytes_sent_ = 0;
  bool is_stopping_ = false;

  std::jthread thread_;
};

Commit id_of(const Task& task) { return {.epoch = task.epoch, .round = task.round}; }

std::string list_of(const std::vector<std::size_t>& participants) {
  std::string list;
  for (const std::size_t rank : participants) {
    list += concat(" ", rank);
  }
  return list;
}

std::string name_of(const Group& group) {
  return concat(group.id.epoch, ".", group.id.round, ":", list_of(group.participants));
}

GlooEngine::~GlooEngine() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    wanted_.reset();
  }
  keys_.stop();
  changed_.notify_all();
  thread_.join();
}

std::string GlooEngine::text(std::int64_t) {
  const std::lock_guard lock(mutex_);
  return standing_;
}

// All see the same text and participants, and so agree whether the leader's group is kept; who has
// not got it any more fails the round, and the next makes a new one.
void GlooEngine::begin(const Task& task, Contribution contribution) {
  const bool is_kept = task.text.ends_with(concat(":", list_of(task.participants)));
  bool is_missing = false;
  {
    const std::lock_guard lock(mutex_);
    wanted_ = id_of(task);
    is_missing = is_kept && task.text != standing_;
  }
  if (is_missing) {
    fail(task, {.suspect = options_.rank, .why = "has lost its connections"});
    return;
  }
  if (!is_kept) {
    keys_.begin(id_of(task), task.participants);
  }
  {
    const std::lock_guard lock(mutex_);
    next_ = Work{.task = task, .contribution = std::move(contribution), .is_kept = is_kept};
  }
  changed_.notify_all();
}

void GlooEngine::abort() {
  const std::lock_guard lock(mutex_);
  if (wanted_) {  // what stands has messages of an unfinished round in it
    standing_.clear();
  }
  next_.reset();
  wanted_.reset();
  result_ = {};
}

reduce::Engine::Result GlooEngine::take() {
  const std::lock_guard lock(mutex_);
  wanted_.reset();
  return {.contribution = std::exchange(result_, {}), .nbytes_sent = nbytes_sent_};
}

void GlooEngine::run() {
  while (true) {
    std::optional<Work> next;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return is_stopping_ || next_; });
      if (is_stopping_) {
        return;
      }
      next = std::exchange(next_, std::nullopt);
    }
    try {
      work(*next);
    } catch (const OwnFailure& error) {
      group_.reset();
      fail(next->task, {.suspect = options_.rank, .why = error.what()});
    } catch (const std::exception& error) {
      group_.reset();
      // Gloo does not say who it was. Who is gone is found by silence; of those who live, whoever
      // stands before us is the first to ask.
      const std::size_t size = next->task.participants.size();
      const std::size_t before = (next->task.place + size - 1) % size;
      fail(next->task, {.suspect = next->task.participants[before],
                        .why = concat("sent nothing: ", text_of(std::make_exception_ptr(error)))});
    }
  }
}

void GlooEngine::work(Work& work) {
  const Task& task = work.task;
  const std::size_t size = task.participants.size();
  meet(work);
  if (!average(work)) {
    group_.reset();  // so that the others do not wait for us
    fail(task,
         {.suspect = options_.rank, .why = "has values that are not finite", .is_proven = true});
    return;
  }
  if (looks_first_) {
    fail(task, {.suspect = options_.rank, .why = "got a sum that is not finite"});
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    if (wanted_ != id_of(task)) {
      return;
    }
    result_ = std::move(work.contribution);
    // Gloo's ring: reduce-scatter and all-gather.
    nbytes_sent_ =
        2 * (size - 1) *
        (result_.values.size() * sizeof(float) + result_.maxima.size() * sizeof(std::int64_t)) /
        size;
    standing_ = group_ ? name_of(*group_) : std::string();
  }
  listener_.on_moved(task.round);
}

void GlooEngine::meet(const Work& work) {
  if (work.is_kept && group_) {
    return;
  }
  group_.reset();
  const Task& task = work.task;
  if (task.participants.size() == 1) {
    return;
  }
  auto settings = c10d::ProcessGroupGloo::Options::create(options_.silence);
  settings->threads = 2;
  settings->devices = {listen_at(host_)};
  group_ = Group{.id = id_of(task),
                 .participants = task.participants,
                 .gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(
                     keys_.store(id_of(task), options_.silence), static_cast<int>(task.place),
                     static_cast<int>(task.participants.size()), settings)};
}

// In pieces: while Gloo sums the next, a mean is made of the last. Our own values are looked at
// only after a sum that was not finite: that costs a round, and looking a tenth of every round.
bool GlooEngine::average(Work& work) {
  Contribution& own = work.contribution;
  if ((looks_first_ || !group_) && !reduce::are_finite(own.values)) {
    return false;
  }
  if (!group_) {
    return true;
  }
  const std::vector<std::span<float>> pieces = in_pieces(own.values);
  std::vector<c10::intrusive_ptr<c10d::Work>> sums;
  for (const std::span<float> piece : pieces) {
    sums.push_back(start(piece, c10::kFloat, c10d::ReduceOp::SUM));
  }
  if (!own.maxima.empty()) {
    sums.push_back(start(std::span(own.maxima), c10::kLong, c10d::ReduceOp::MAX));
  }
  const float factor = 1.0F / static_cast<float>(work.task.participants.size());
  looks_first_ = false;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    sums[i]->wait();
    looks_first_ |= i < pieces.size() && !reduce::scale(pieces[i], factor);
  }
  return true;
}

template <typename Value>
c10::intrusive_ptr<c10d::Work> GlooEngine::start(std::span<Value> values, c10::ScalarType type,
                                                 c10d::ReduceOp operation) {
  std::vector<at::Tensor> tensors{
      at::from_blob(values.data(), {static_cast<std::int64_t>(values.size())}, type)};
  c10d::AllreduceOptions how;
  how.reduceOp = std::move(operation);
  how.timeout = options_.silence;
  return group_->gloo->allreduce(tensors, how);
}

void GlooEngine::fail(const Task& task, reduce::Failure failure) {
  {
    const std::lock_guard lock(mutex_);
    standing_.clear();
    if (wanted_ != id_of(task)) {
      return;
    }
    wanted_.reset();
  }
  listener_.on_failed(task.round, std::move(failure));
}

}  // namespace

reduce::MakeEngine gloo_engine(bool is_network_trusted, const std::string& listen) {
  return [is_network_trusted, listen](const reduce::RingOptions& options,
                                      transport::Transport& transport,
                                      reduce::EngineListener& listener) {
    if (options.mean != reduce::Mean::kPlain || options.codec != transport::Codec{}) {
      throw_invalid("[provider] expected Gloo with the plain mean and no codec, got others.");
    }
    const std::string host = is_network_trusted ? own_host(options, listen) : "127.0.0.1";
    try {
      return std::make_unique<GlooEngine>(host, options, transport, listener);
    } catch (const OwnFailure& failure) {
      throw_invalid("[provider] ", options.members[options.rank].name, " ", failure.what(),
                    " Expected an address of this machine in the plan, or in listen.");
    }
  };
}

}  // namespace ravnest::provider
