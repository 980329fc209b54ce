#pragma once

#include <ATen/core/ivalue.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ravnest/engine/bound_program.h"
#include "ravnest/engine/stage/stage.h"
#include "ravnest/package/package.h"
#include "ravnest/provider/averaging.h"
#include "ravnest/provider/checkpoint_keeper.h"
#include "ravnest/provider/pass.h"
#include "ravnest/provider/stage_loop.h"
#include "ravnest/provider/update_rule.h"
#include "ravnest/transport/transport.h"
#include "ravnest/trust/identity.h"

namespace ravnest::provider {

using Milliseconds = transport::Milliseconds;

struct ProviderOptions {
  std::filesystem::path node_data = "node_data";
  std::string name;    // "node_0"
  std::string listen;  // "0.0.0.0:8081"; empty: at the address that the plan has
  // Replaces the stored sub-model; takes and gives what that one does. Of tensors of its own each
  // time: a run that begins anew does not begin with what the last has learned.
  std::function<engine::BoundProgram()> make_program;
  std::function<std::unique_ptr<UpdateRule>()> make_rule;

  Schedule schedule = Schedule::kAsync;
  engine::PassMemory memory = engine::PassMemory::kStash;
  std::size_t update_frequency = 1;
  double compensation = 0.0;     // DC-ASGD, see engine::StageOptions
  bool predict_weights = false;  // forward with the weights expected at the backward
  std::string codec = "none";    // of what travels between stages: transport::parse_codec
  AveragingOptions averaging;    // with the stages of other clusters
  c10::Device device = c10::kCPU;
  // Of libtorch; empty: the machine's cores shared among the plan's nodes on it.
  std::optional<int> threads;

  // Who feeds the root from another process; empty: whoever calls submit().
  std::optional<transport::Peer> requester;
  // Updates; 0: never. One is there at the end of training, too, until the run has ended well.
  std::int64_t checkpoint_every = 100;
  // Also gets every checkpoint, as <passes>.safetensors; empty: none.
  std::filesystem::path checkpoint_folder;
  // Goes on from the last checkpoint where a run was cut off.
  bool resume = true;
  // Without a checkpoint the stage joins a run under way: it takes its weights from the holders in
  // other clusters, before it learns.
  bool from_ring = false;
  bool save = false;  // the weights at the end of training
  // Of the leaf: a line for each batch, and for each validation; empty: none. Those of a cluster
  // other than the first have its number in their names: losses_1.txt.
  std::filesystem::path loss_file;
  std::filesystem::path accuracy_file;
  Milliseconds return_within{60'000};  // how long a lost neighbour is waited for
  // What fails here ends this node alone, and without a word: somebody else decides what becomes
  // of the run. The checkpoint of its end then stays.
  bool ends_alone = false;
  // A stage that gives no sign of getting on for so long (see Liveness) is lost for its neighbours.
  Milliseconds hung_after{60'000};

  // Whom its peers have to be of, as well; empty: the plan. With a job its id is that of the run:
  // a stage goes on from whatever checkpoint it finds.
  std::string job;
  // With an identity connections are encrypted, and members say who may bear which name, the
  // requester's too.
  std::optional<trust::Identity> identity;
  transport::Members members;
  bool is_network_trusted = false;  // see transport::GrpcOptions
};

// What the caller adds. On the loop's thread, except notices, which come on the transport's.
struct ProviderCallbacks {
  // At the leaf; empty: the model's first output is its loss.
  std::function<LossAndGradients(const PassHeader&, const std::vector<c10::IValue>& outputs)>
      criterion;
  // At the leaf, of a validation pass; empty: the last of the model's inputs is the target, and
  // the first output that is not the loss holds the classes' scores.
  std::function<PassResult(const PassHeader&, const std::vector<c10::IValue>& outputs)> score;
  std::function<void(const PassHeader&, const PassResult&)> on_learned;
  std::function<void(const transport::Notice&)> on_notice;
  // It waits for a peer that never answered: why. Again and again, on the transport's thread.
  std::function<void(const std::string& peer, const std::string& why)> on_unreached;
  std::function<void(const AveragingNews&)> on_averaged;
  // The weights are in this file (ProviderOptions::save), after so many passes.
  std::function<void(const std::filesystem::path&, std::int64_t passes)> on_saved;
  // On a thread of its own.
  std::function<void(const KeptCheckpoint&)> on_checkpoint;
};

// One node at work: reads its part of the plan, takes its port, finds its neighbours in any order,
// trains its stage until the run ends, and keeps checkpoints on the way.
//
// Every wait throws what ended the run before: StoppedRun where somebody ended it, Error(kPeerLost)
// where a neighbour did not come back, or what the model or a callback threw.
class Provider {
 public:
  // Reads the plan and takes the port. Throws std::invalid_argument, and Error(kIo) naming a port
  // that is taken.
  Provider(ProviderOptions options, ProviderCallbacks callbacks);
  // Without close(), the neighbours see a lost node.
  ~Provider();
  Provider(const Provider&) = delete;
  Provider& operator=(const Provider&) = delete;

  void start();

  const package::NodeConfig& node() const;
  const graph::Program& program() const;  // of its stage

  // At the root. Training passes that a resumed run has behind it are passed over. The header's
  // pass and generation are ours to set; `purpose`, `epoch`, `samples` and parts the caller's.
  // Waits for room: false at the deadline, and the pass was not taken. Tensors are copied.
  bool submit(PassHeader header, const std::vector<c10::IValue>& inputs, Milliseconds timeout);
  // Until every pass that was submitted has begun; is done.
  bool wait_until_begun(Milliseconds timeout);
  bool wait_until_idle(Milliseconds timeout);
  // The output of the oldest prediction that was submitted and not yet taken.
  std::optional<std::vector<c10::IValue>> take_prediction(Milliseconds timeout);
  // After the passes before them.
  void end_training();
  void end_validation();
  // A resumed run had this validation before.
  void skip_validation();

  // How many trainings and validations the run has ended so far, waiting until there are more than
  // `seen`. Also returns where the run is over.
  std::int64_t wait_for_training(std::int64_t seen, Milliseconds timeout);
  std::int64_t wait_for_validation(std::int64_t seen, Milliseconds timeout);
  // Those that ended before the last training did.
  std::int64_t validations_in_training() const;
  PassResult last_validation() const;  // loss and counts, summed over its samples
  bool is_over() const;
  // Whether its loop gets on, or waits for others.
  bool is_alive() const;
  bool wait_until_over(Milliseconds timeout);  // without throwing
  // Until the root has begun the run, and there is a stage; or the run is over.
  bool wait_until_ready(Milliseconds timeout);

  // Asks for a checkpoint soon, see CheckpointKeeper.
  void ask_for_checkpoint();
  // One that was asked for and did not come, now, once for each version: nothing has been learned
  // for a while, and where no pass is under way every stage has the same.
  void keep_at_rest();
  // Ends this node without a word, with a checkpoint of what is here: the neighbours wait until it
  // is back.
  void keep();

  // Writes the weights as they are, or as the run has left them, to submod_<stage>.safetensors.
  void save();
  // Parameters and buffers, the same ones, copied.
  engine::WeightMap weights();

  struct Status {
    StageLoop::Status loop;
    std::int64_t epoch = 0;
    std::int64_t passes = 0;   // learned from, of this run
    std::int64_t batches = 0;  // passes of an epoch, once one has ended; 0: not known
    std::int64_t samples = 0;  // by this process
    double loss = 0.0;         // of the last pass
    double rate = 0.0;         // of learning
    double samples_per_second = 0.0;
    std::int64_t resumed = 0;  // passes that the run had behind it at the start
    std::int64_t averagings = 0;
    std::size_t averaged_bytes = 0;  // sent for them
  };
  Status status() const;

  // Ends the run everywhere.
  void stop(int exit_code, const std::string& reason);
  // Ends this node well: says goodbye to all neighbours.
  void close(Milliseconds timeout);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ravnest::provider
