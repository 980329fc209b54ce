#pragma once

#include <ATen/core/ivalue.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "ravnest/engine/stage/stage.h"
#include "ravnest/graph/slice.h"
#include "ravnest/provider/activities.h"
#include "ravnest/provider/foreseen.h"
#include "ravnest/provider/liveness.h"
#include "ravnest/provider/pass.h"
#include "ravnest/provider/pass_limit.h"
#include "ravnest/transport/transport.h"

namespace ravnest::provider {

enum class Schedule : std::uint8_t {
  kAsync,  // no flush: gradients may be late by as many updates as passes were in flight
  kSync,   // the passes of an update end before the next one's begin: as in one process
};

// Where a stage stands in its cluster, and how it works.
struct LoopOptions {
  std::string name;  // of the node
  std::size_t stage = 0;
  std::size_t stages = 1;
  Schedule schedule = Schedule::kAsync;
  std::size_t update_frequency = 1;
  std::vector<graph::Source> sources;
  std::vector<graph::Source> eval_sources;
  // Of the model, that come to this stage from the root, in this order.
  std::vector<std::size_t> inputs;
  std::vector<std::size_t> eval_inputs;
  transport::Codec codec;
  c10::Device device = c10::kCPU;
  bool ends_alone = false;  // what fails here is not told
  Foreseen foreseen;
  transport::Milliseconds hung_after{60'000};  // without a sign of progress: see Liveness

  bool is_root() const { return stage == 0; }
  bool is_leaf() const { return stage + 1 == stages; }
  // Passes between a stage's forward and backward: the delay of a gradient is less.
  std::size_t most_in_flight() const;
};

// What a stage sends to whom. Borrowed; empty where there is nobody.
struct Outlets {
  struct Inputs {  // of the model, that a later stage takes
    transport::Sender* to = nullptr;
    std::vector<std::size_t> training;
    std::vector<std::size_t> evaluation;
  };
  struct Tied {  // parameters shared with another stage, in an order that both know
    transport::Sender* to = nullptr;
    std::string peer;
    std::vector<std::string> names;
  };
  transport::Sender* next = nullptr;
  transport::Sender* previous = nullptr;
  transport::Sender* results = nullptr;  // of the leaf, to the root
  std::vector<Inputs> inputs;            // of the root
  std::vector<Tied> copies;              // of parameters that live here
  std::map<std::string, Tied> homes;     // by name of the node: of parameters that do not
};

// A stage that is ready to run, and the training passes it has learned from before.
struct ReadyStage {
  static constexpr std::int64_t kUnknown = -1;  // those before the first that comes

  std::unique_ptr<engine::Stage> stage;
  std::int64_t passes = 0;
  std::int64_t epoch = 0;
};

struct LossAndGradients {
  double loss = 0.0;
  std::vector<at::Tensor> gradients;  // of the outputs
};

// Whom the loop tells what happened, and asks what it does not know. On the loop's thread.
class LoopListener {
 public:
  virtual ~LoopListener() = default;

  // Until when no training pass may be worked on, if at all. (Calls that were posted are.)
  virtual std::optional<transport::TimePoint> hold() { return std::nullopt; }
  // All of a training is learned from: what must be done before it ends. Asked again after every
  // call that was posted, until it is true.
  virtual bool is_training_whole() { return true; }
  // A run begins: the stage at its start, or where a checkpoint of this run left it.
  virtual ReadyStage prepare(const std::string& run) = 0;
  // Where that could not say how many passes are behind it: so many are.
  virtual void on_joined(std::int64_t passes) = 0;
  // At the leaf: the loss of the model's outputs; empty: the first of them is the loss.
  virtual std::optional<LossAndGradients> criterion(const PassHeader& header,
                                                    const std::vector<c10::IValue>& outputs) = 0;
  // At the leaf: how good the outputs of a validation pass are.
  virtual PassResult score(const PassHeader& header, const std::vector<c10::IValue>& inputs,
                           const std::vector<c10::IValue>& outputs) = 0;
  // This stage was started again, and will not see the passes from `passes` to before `next`, which
  // it had learned from or others have.
  virtual void on_missed(std::int64_t passes, std::int64_t next) = 0;
  // Before the first pass of each of the data's epochs but the first.
  virtual void on_epoch(std::int64_t epoch) = 0;
  // A training pass is about to be learned from.
  virtual void on_loss(double loss) = 0;
  // A training pass was learned from.
  virtual void on_learned(const PassHeader& header, const PassResult& result, bool is_update) = 0;
  // An update is skipped because of this sender, where one is to blame; the first of several in a
  // row.
  virtual void on_refused(const std::string& sender, const std::string& text) = 0;
  // At the root: a pass is done. `outputs` are those of a prediction.
  virtual void on_done(const PassHeader& header, const PassResult& result,
                       std::vector<c10::IValue> outputs) = 0;
  // kTrainingEnd (again where stages were started anew) and kValidationEnd, with the sums of its
  // results. Their first number is the caller's.
  virtual void on_word(const Control& control) = 0;
  // At the root: on_word is behind all stages with this kTrainingEnd.
  virtual void on_trained(const Control& control) = 0;
  // Once, at the end: empty where all went well.
  virtual void on_over(const std::exception_ptr& error) = 0;
};

// A message, by the channel it came on.
enum class Channel : std::uint8_t { kForward, kBackward, kInputs, kResults, kTied };

// The one thread that owns a stage: forwards, backwards and updates, as they come. Backward work
// goes first. Passes come from the root's submit() or from the stage before. Nothing here waits
// for a single message: whatever came and can be worked on is.
//
// Where a stage is started anew in mid-run, the root begins a new generation: every stage forgets
// the passes in flight, and the root sends them again. A pass that a stage had learned from is
// then computed, but not learned from again. The root knows of it by hellos: a stage says one when
// it starts, and one when it takes part in a generation. The first kind from a stage that took part
// means that its passes are lost.
class StageLoop {
 public:
  using Call = std::function<void(engine::Stage&)>;

  StageLoop(LoopOptions options, LoopListener& listener);
  ~StageLoop();
  StageLoop(const StageLoop&) = delete;
  StageLoop& operator=(const StageLoop&) = delete;

  // Before start(); messages may be delivered already.
  void set_outlets(Outlets outlets) { outlets_ = std::move(outlets); }

  // Begins. At the root with the id of the run.
  void start(const std::string& run = {});

  // At the root: a pass with the model's inputs, or a word, in the order of calls. `credit` is
  // given back when the pass is done. The generation is ours to set. Any thread.
  void submit(PassHeader header, std::vector<c10::IValue> inputs, transport::Credit credit = {});
  void submit(Control control, transport::Credit credit = {});

  // On the loop's thread: parameters are others now, not by an update.
  void on_weights_changed() { send_tied_values(); }

  // A message from another stage. Any thread.
  void deliver(Channel channel, transport::Delivery delivery);
  // Runs on the loop's thread, soon; not at all once the loop is over. Any thread.
  void post(Call call);
  // The same, and waits for it. A loop that is over leaves its stage as it was: the call then runs
  // on the caller's thread. Throws what the call threw; where there never was a stage, what ended
  // the loop. Any thread but the loop's.
  void ask(const Call& call);
  // Waits until the status is as wanted or the loop has ended; false at the deadline. Throws the
  // error of a loop that ended with one. Any thread but the loop's.
  struct Status;
  bool wait(const std::function<bool(const Status&)>& is_wanted, transport::Milliseconds timeout);
  // Tells the others and ends. Any thread.
  void stop(int exit_code, const std::string& reason);
  // Of a loop that was told to end: tells the others now, where it would after a pass that may be a
  // long one. May wait for room in their windows, a second each. Any thread but the transport's.
  void tell_stop();
  // Ends with this error, telling the others (but see LoopOptions); without one all is well. Any
  // thread. `suspect`: the neighbour that may be to blame.
  void fail(const std::exception_ptr& error, const std::string& suspect = {});
  // Ends without a word, as if the process had died. Any thread.
  void abandon();
  // A loop that was told to end does so when its work and its messages let it: one that waits for a
  // lost peer ends when its transport does.
  bool wait_until_over(transport::Milliseconds timeout);
  void join();

  struct Status {
    std::size_t in_flight = 0;
    std::size_t limit = 0;
    std::size_t queued = 0;
    std::size_t unfinished = 0;  // at the root: begun, and not done
    std::uint64_t updates = 0;
    std::uint64_t delay = 0;
    std::uint64_t max_delay = 0;
    std::vector<std::uint64_t> delays;  // updates, by delay: see engine::Stage
    std::uint64_t skipped = 0;          // updates among them that changed nothing
    std::size_t versions = 0;
    Activities::Spent spent;           // time, since the start
    std::uint64_t bytes_sent = 0;      // of tensors, to other stages and from them
    std::uint64_t bytes_received = 0;  // as they are here, whatever their codec
    // Once it has failed: the neighbour whose values it was at, or whose were not finite.
    std::string suspect;

    double busy() const;  // share of the time
  };
  Status status() const;
  // Whether its thread gets on, or waits for others. Any thread.
  bool is_alive();

 private:
  using Clock = std::chrono::steady_clock;
  using PassKey = std::pair<bool, std::int64_t>;  // is training, pass

  struct Work {
    PassHeader header;
    std::optional<Control> control;
    std::vector<c10::IValue> values;  // at the root the model's inputs, else what came
    transport::Credit credit;
    std::string from;
  };
  struct Backward {
    PassHeader header;
    PassResult result;
    std::vector<at::Tensor> gradients;
    transport::Credit credit;
    std::string from;
  };
  struct Arrival {
    Channel channel = Channel::kForward;
    transport::Delivery delivery;
  };
  struct Inputs {
    std::vector<c10::IValue> values;
    transport::Credit credit;  // until their generation begins
  };
  struct CopyValues {
    std::int64_t generation = 0;
    std::int64_t passes = 0;  // that are in them
    std::vector<at::Tensor> values;
  };
  struct Stopped {
    std::exception_ptr error;
    std::optional<Control> word;  // for the others
    std::string suspect;
  };
  void run();
  void work_until_over();
  void wait_for_reason();
  bool take_inbox(bool may_wait);
  void sort(Arrival arrival);
  void sort_control(Channel channel, transport::Delivery& delivery);
  void sort(Channel channel, transport::Delivery& delivery);
  void sort_forward(transport::Delivery& delivery);
  void sort_backward(transport::Delivery& delivery);
  void sort_inputs(transport::Delivery& delivery);
  void sort_result(transport::Delivery& delivery);
  void sort_tied(transport::Delivery& delivery);
  void set_copies(const std::string& home, const CopyValues& copies);

  bool do_next();
  bool can_start(const Work& work) const;
  static bool is_training(const Work& work);
  bool can_end(const Work& work);
  bool has_final_copies(const Control& control) const;
  bool is_limited(const Work& work) const;
  bool is_group_open(std::int64_t pass) const;
  std::int64_t update_of(std::int64_t pass) const;
  std::int64_t start_of_update(std::int64_t pass) const;
  void count_updates_from(std::int64_t pass);
  bool has_inputs(const PassHeader& header) const;
  bool has_tied_gradients(std::int64_t pass) const;

  void begin(Work work);
  void do_control(const Control& control);
  void start_run(const Control& control);
  void end_training(Control control);
  void tell_trained(const Control& control);
  void start_generation();
  void send_hello(std::int64_t generation);
  void on_hello(const Control& control);
  void do_forward(const Work& work, const std::vector<c10::IValue>& inputs);
  void do_evaluate(const Work& work, const std::vector<c10::IValue>& inputs);
  void do_leaf(PassHeader header, const std::vector<c10::IValue>& inputs,
               const std::vector<c10::IValue>& outputs);
  void do_backward(Backward backward);
  void add_tied_gradients(const PassHeader& header);
  void send_gradients(const PassHeader& header, const PassResult& result,
                      const std::vector<at::Tensor>& of_inputs);
  std::vector<at::Tensor> learn(const PassHeader& header, const std::vector<at::Tensor>& gradients,
                                bool counts);
  void finish_backward(const PassHeader& header, const PassResult& result,
                       const std::vector<at::Tensor>& gradients);
  void finish_pass(const PassHeader& header, const PassResult& result,
                   std::vector<c10::IValue> outputs);
  bool is_refused(const Work& work);
  bool is_refused(const Backward& backward);
  static bool has_nan(const std::vector<c10::IValue>& values);
  std::string cause(const std::vector<c10::IValue>& inputs) const;
  void forward_refused(PassHeader header);
  void note_refusal(const PassHeader& header, const std::string& sender, const std::string& what);
  void check_skipped(const PassHeader& header);
  void note_epoch(const PassHeader& header);
  void note_start(const PassHeader& header);

  std::vector<c10::IValue> assemble(const Work& work);
  void send_inputs(const Work& work);
  void send_values(const PassHeader& header, const std::vector<c10::IValue>& values);
  // `final_round`: of the training that has ended with them, else 0.
  void send_tied_values(std::int64_t final_round = 0);
  void send_tied_gradients(const PassHeader& header);
  void send_control(transport::Sender* to, const Control& control);
  void send(transport::Sender& to, const transport::Message& message);
  void end(Stopped stopped);
  void stop_with(const Control& control);
  void relay_stop(const Control& control);
  void publish();
  // With the lock held, when we stop: whether somebody else is meant.
  bool is_left(std::int64_t generation) const { return generation > begun_; }
  void leave_the_rest();
  engine::Stage& stage() { return *stage_; }

  const LoopOptions options_;
  Outlets outlets_;
  LoopListener& listener_;
  std::thread thread_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Arrival> arrivals_;
  std::deque<Work> submitted_;
  std::deque<Call> calls_;
  std::optional<Stopped> stopped_;
  std::once_flag told_;
  bool is_over_ = false;
  std::int64_t begun_ = 0;  // the generation that we take part in
  // Of messages of a later one, which came after we were told to stop: never given back, so that
  // they are sent again to whoever is started in our place.
  std::vector<transport::Credit> left_;
  Status status_;
  std::condition_variable published_;

  // Of the loop's thread alone.
  std::unique_ptr<engine::Stage> stage_;
  std::string run_;
  std::int64_t generation_ = 0;
  std::deque<Work> forwards_;
  std::deque<Backward> backwards_;
  std::map<std::pair<std::int64_t, PassKey>, Inputs> inputs_;  // by generation
  std::map<PassKey, Work> unfinished_;                         // at the root
  std::map<std::int64_t, std::map<std::string, std::vector<at::Tensor>>> tied_gradients_;
  std::map<std::string, std::int64_t> tied_through_;  // by home: passes that its values have
  std::map<std::string, std::int64_t> final_copies_;  // by home: the training that they end
  std::map<std::string, CopyValues> early_copies_;    // by home, of a generation to come
  std::set<std::string> awaited_homes_;  // of a stage that joins: nothing is learned before
  std::deque<Call> pending_calls_;
  std::int64_t learned_ = 0;  // training passes, all of the first
  // The first pass of an update: where the root began, or the last training ended. All have the
  // same, so that updates are of the same passes everywhere.
  std::int64_t first_ = 0;
  std::int64_t epoch_ = 0;
  std::optional<Control> training_end_;  // the last one, at the root
  std::set<std::int64_t> joined_;        // at the root: stages that take part in this generation
  PassResult validation_;                // sums, at the root
  std::string refusal_;                  // the last one
  std::string refusal_suspect_;          // who may be to blame for it; empty: nobody else
  std::string suspect_;                  // whose values are being worked on; empty: nobody's
  PassLimit limit_;
  Clock::time_point last_pass_;

  // Any thread.
  Activities activities_;
  Liveness liveness_;
  std::atomic<std::uint64_t> bytes_sent_ = 0;
  std::atomic<std::uint64_t> bytes_received_ = 0;
};

}  // namespace ravnest::provider
