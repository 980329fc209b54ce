#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>

#include "ravnest/provider/checkpoint.h"
#include "ravnest/provider/line_file.h"
#include "ravnest/provider/provider.h"
#include "ravnest/provider/wiring.h"

namespace ravnest::provider {

// What a Provider is made of. Its public calls, its channels and its end are in provider.cpp, what
// the loop asks and tells in provider_stage.cpp.
class Provider::Impl : public LoopListener {
 public:
  Impl(ProviderOptions options, ProviderCallbacks callbacks);
  ~Impl() override;

  void start();
  bool submit(PassHeader header, const std::vector<c10::IValue>& inputs, Milliseconds timeout);
  void stop(int exit_code, const std::string& reason);
  void close(Milliseconds timeout);
  void keep();
  void keep_at_rest();
  void save();
  engine::WeightMap weights();
  template <typename Done>
  bool wait(const Done& is_done, Milliseconds timeout);
  Status status() const;

  std::optional<transport::TimePoint> hold() override {
    return averaging_ ? averaging_->hold() : std::nullopt;
  }
  bool is_training_whole() override { return !averaging_ || averaging_->finish(); }
  ReadyStage prepare(const std::string& run) override;
  void on_joined(std::int64_t passes) override;
  void on_missed(std::int64_t passes, std::int64_t next) override;
  std::optional<LossAndGradients> criterion(const PassHeader& header,
                                            const std::vector<c10::IValue>& outputs) override;
  PassResult score(const PassHeader& header, const std::vector<c10::IValue>& inputs,
                   const std::vector<c10::IValue>& outputs) override;
  void on_epoch(std::int64_t epoch) override;
  void on_loss(double loss) override { rule_->note_loss(loss); }
  void on_learned(const PassHeader& header, const PassResult& result, bool is_update) override;
  void on_refused(const std::string& sender, const std::string& text) override;
  void on_done(const PassHeader& header, const PassResult& result,
               std::vector<c10::IValue> outputs) override;
  void on_word(const Control& control) override;
  void on_trained(const Control& control) override;
  void on_over(const std::exception_ptr& error) override;

 private:
  friend class Provider;

  void make_transport();
  void make_averaging();
  void share_cores() const;
  void end_training(const Control& control);
  void count_training(const Control& control);
  void record_accuracy(std::int64_t round, const PassResult& sums);
  void listen_to_requester();
  void on_request(transport::Delivery delivery);
  void leave_in_a_pass(Milliseconds timeout);
  void on_end(Channel channel, const std::string& peer, const std::exception_ptr& error);
  void record_loss(const PassHeader& header, const PassResult& result);
  Checkpoint take_checkpoint();
  void keep_if_due();
  void flush_reports();
  void leave_files(const std::exception_ptr& error);
  bool ends_run() const;
  void save_on_loop(engine::Stage& stage, bool is_interrupted = false);
  void report(transport::Message message);
  void notify(const transport::Notice& notice) const;
  // What the plan begins with, read anew: a stage trains in the memory of the file that it was made
  // from.
  engine::BoundProgram read_program() const;
  std::unique_ptr<engine::Stage> make_stage(const Checkpoint* checkpoint);
  RuleState rule_after_nothing(engine::Stage& stage) const;

  ProviderOptions options_;
  ProviderCallbacks callbacks_;
  package::NodeConfig node_;
  graph::Stage files_;
  std::optional<Checkpoint> found_;  // of an earlier process
  std::unique_ptr<UpdateRule> rule_;
  LineFile losses_;
  LineFile accuracies_;
  CheckpointKeeper keeper_;

  std::unique_ptr<transport::Transport> transport_;
  std::unique_ptr<Wiring> wiring_;
  std::unique_ptr<transport::Receiver> requests_;
  std::unique_ptr<transport::Sender> reports_;
  // Requests to a root that was here before are not for this one.
  const std::int64_t session_;
  std::unique_ptr<StageLoop> loop_;
  std::unique_ptr<Averaging> averaging_;  // where there are other clusters

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  Status status_;
  std::string run_;
  std::int64_t submitted_ = 0;
  std::int64_t evaluated_ = 0;
  std::int64_t training_rounds_ = 0;
  std::int64_t validation_rounds_ = 0;
  std::int64_t trainings_ = 0;
  std::int64_t validations_ = 0;
  std::int64_t trained_validations_ = 0;  // before the last training's end
  PassResult last_validation_;
  std::deque<std::vector<c10::IValue>> predictions_;
  bool is_kept_ = false;  // this node ends, and a checkpoint stays
  bool is_over_ = false;
  std::exception_ptr error_;

  // Of the loop's thread.
  engine::Stage* stage_ = nullptr;
  std::int64_t updated_ = 0;  // passes that the weights have in them
  bool is_trained_ = false;   // no pass was learned from since the last training ended
  std::int64_t kept_at_rest_ = 0;
  bool is_checkpoint_due_ = false;
  std::int64_t learned_epoch_ = -1;  // that of the last pass learned from
  bool has_recorded_ = false;
  double batch_loss_ = 0.0;
  std::chrono::steady_clock::time_point first_pass_;
};

template <typename Done>
bool Provider::Impl::wait(const Done& is_done, Milliseconds timeout) {
  std::unique_lock lock(mutex_);
  const bool in_time = changed_.wait_until(lock, transport::deadline_in(timeout),
                                           [&] { return is_over_ || is_done(); });
  if (is_over_ && error_) {
    std::rethrow_exception(error_);
  }
  return in_time;
}

}  // namespace ravnest::provider
