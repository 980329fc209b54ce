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
#include <vector>

#include "ravnest/provider/pass.h"
#include "ravnest/transport/transport.h"

namespace ravnest::provider {

struct RequesterOptions {
  std::string name = "requester";
  std::string listen = "127.0.0.1:0";
  std::string plan;      // id of the plan
  transport::Peer root;  // of the cluster that it feeds
  transport::Milliseconds return_within{60'000};
  bool is_network_trusted = false;  // see transport::GrpcOptions
  // How a training pass came out; on the transport's threads.
  std::function<void(const PassHeader&, const PassResult&)> on_result;
  std::function<void(const transport::Notice&)> on_notice;
};

// Feeds a cluster from outside: sends the model's inputs to the root, hears what came of them.
// Every wait throws what ended the run before (see Provider).
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

  // As those of Provider. Passes are numbered from `first`, the training passes that the run has
  // behind it.
  void start_at(std::int64_t first);
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
  void on_report(const transport::Message& message);
  void on_end(const std::exception_ptr& error);
  template <typename Done>
  bool wait(const Done& is_done, transport::Milliseconds timeout);
  void send(const Control& control);

  const RequesterOptions options_;
  std::unique_ptr<transport::Transport> transport_;
  std::unique_ptr<transport::Sender> requests_;
  std::unique_ptr<transport::Receiver> reports_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::int64_t submitted_ = 0;
  std::int64_t evaluated_ = 0;
  std::int64_t unfinished_ = 0;
  std::int64_t trainings_ = 0;  // ended by us, and by the cluster
  std::int64_t trained_ = 0;
  std::int64_t validations_ = 0;
  std::int64_t validated_ = 0;
  PassResult last_validation_;
  std::deque<std::vector<c10::IValue>> predictions_;
  bool is_over_ = false;
  std::exception_ptr error_;
};

}  // namespace ravnest::provider
