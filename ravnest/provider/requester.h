#pragma once

#include <ATen/core/ivalue.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ravnest/provider/pass.h"
#include "ravnest/provider/request_log.h"
#include "ravnest/transport/transport.h"
#include "ravnest/trust/identity.h"

namespace ravnest::provider {

struct RequesterOptions {
  std::string name = "requester";
  std::string listen = "127.0.0.1:0";
  std::string plan;      // id of the plan, or of the job (see ProviderOptions)
  transport::Peer root;  // of the cluster that it feeds
  transport::Milliseconds return_within{60'000};
  std::optional<trust::Identity> identity;  // as those of ProviderOptions
  transport::Members members;
  bool is_network_trusted = false;
  // Shared with other Requesters, for clusters that come and go: name, plan, members and
  // credentials are its own, and so is their change. A root that ends is then not the end: there
  // will be another, by set_root.
  std::shared_ptr<transport::Transport> transport;
  // Training passes are kept after their result, until a restore point has them: a root may then go
  // back to an earlier checkpoint.
  bool keeps_learned = false;
  // Training passes are numbered from where the first root begins; from here where that cannot say.
  // Else from 0, and those that it has behind it are passed over.
  std::optional<std::int64_t> start_with_root;
  // How a training pass came out, once each; on the transport's threads.
  std::function<void(const PassHeader&, const PassResult&)> on_result;
  std::function<void(const transport::Notice&)> on_notice;
  // There may be room for more, or it is over; on the transport's threads or its own.
  std::function<void()> on_progress;
};

// A transport of these options, for one Requester or several.
std::shared_ptr<transport::Transport> make_transport(const RequesterOptions& options);

// Feeds a cluster from outside: sends the model's inputs to the root, hears what came of them. A
// root that is started, again or elsewhere, says how many passes it has learned from, and gets
// those from there on. Every wait throws what ended the run before (see Provider).
class Requester {
 public:
  // Listens at once.
  explicit Requester(RequesterOptions options);
  // Without close(), the cluster sees it lost.
  ~Requester();
  Requester(const Requester&) = delete;
  Requester& operator=(const Requester&) = delete;

  // "host:port", for the root.
  std::string address() const { return transport_->address(); }

  // The root is another one now, or elsewhere: what the old one has not done is sent to it. With
  // an identity, these are the members from here on.
  // With `is_restored` it begins with the weights of the job's restore point.
  void set_root(const transport::Peer& root, transport::Members members, bool is_restored = false);
  // As RequestLog's. What need not be kept is let go once the root that is awaited has begun: it
  // may begin at the restore point before.
  void note_restore(std::int64_t passes, bool is_own);
  void forget_learned();
  // The cluster is gone for good: what it has not learned from is another's to do, and so is what
  // is still submitted here. False where there was nothing left to learn from.
  bool hand_over(std::shared_ptr<Requester> to);

  // As those of Provider. Passes are numbered from `first`, the training passes that the run has
  // behind it; those that the root has behind it are passed over.
  void start_at(std::int64_t first);
  // Until there is a root: the training passes that it began with.
  std::optional<std::int64_t> wait_for_root(transport::Milliseconds timeout);
  // Training passes so far, those before `first` counted.
  std::int64_t submitted();
  // Whether the next one would be taken at once. Throws as a wait does.
  bool has_room();
  // Passes that are submitted and not done.
  std::int64_t under_way();
  bool submit(PassHeader header, const std::vector<c10::IValue>& inputs,
              transport::Milliseconds timeout);
  bool wait_until_idle(transport::Milliseconds timeout);
  std::optional<std::vector<c10::IValue>> take_prediction(transport::Milliseconds timeout);
  void end_training();
  void end_validation();
  bool wait_for_training(transport::Milliseconds timeout);
  // The sums of the validation that was ended last.
  std::optional<PassResult> wait_for_validation(transport::Milliseconds timeout);

  void stop(int exit_code, const std::string& reason);
  void close(transport::Milliseconds timeout);

 private:
  void open(const transport::Peer& root);
  void break_off();
  void on_report(const transport::Message& message);
  void on_word(const Control& control);
  void on_end(const std::exception_ptr& error);
  void end(const std::exception_ptr& error);
  template <typename Done>
  bool wait(const Done& is_done, transport::Milliseconds timeout);
  bool is_open() const;
  void feed();
  void send(const transport::Message& message, std::int64_t session);
  void on_unsent(std::int64_t session, const std::exception_ptr& error);
  void tell();

  const RequesterOptions options_;
  std::shared_ptr<transport::Transport> transport_;
  std::unique_ptr<transport::Receiver> reports_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::unique_ptr<transport::Sender> requests_;  // stays as long as somebody sends
  int sending_ = 0;
  std::int64_t session_ = 0;  // of the root, as it said itself; 0: nobody is there
  bool is_restored_ = false;  // the cluster was, since a root began last
  RequestLog log_;
  std::deque<std::vector<c10::IValue>> predictions_;
  std::shared_ptr<Requester> heir_;  // does what is left
  bool has_heir_validated_ = false;  // the last validation, or its end
  bool is_closing_ = false;
  bool is_over_ = false;
  std::exception_ptr error_;

  std::thread feeding_;  // sends what there is to send
};

}  // namespace ravnest::provider
