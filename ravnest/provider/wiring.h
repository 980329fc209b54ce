#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ravnest/package/package.h"
#include "ravnest/provider/stage_loop.h"
#include "ravnest/transport/transport.h"

namespace ravnest::provider {

// The channels of one node to the others of its cluster:
//   forward   a stage to the next         passes and words, in order
//   backward  a stage to the one before   gradients, and words for the root
//   inputs    the root to later stages    inputs of the model that they take
//   results   the leaf to the root        what came of passes without a backward
//   tied      home and copies             gradients and values of shared parameters
class Wiring {
 public:
  struct Handlers {
    std::function<void(Channel, transport::Delivery)> on_message;
    // A channel ended; empty after a goodbye.
    std::function<void(Channel, const std::string& peer, std::exception_ptr)> on_end;
  };

  // Opens everything; messages may come at once.
  Wiring(transport::Transport& transport, const package::NodeConfig& node,
         const Handlers& handlers);

  const Outlets& outlets() const { return outlets_; }

 private:
  void open(std::size_t stage, const std::string& channel, transport::Sender*& outlet);
  void listen(std::size_t stage, Channel channel);
  void open_tied();

  transport::Transport& transport_;
  const package::NodeConfig& node_;
  const Handlers handlers_;
  std::vector<std::unique_ptr<transport::Sender>> senders_;
  std::vector<std::unique_ptr<transport::Receiver>> receivers_;
  Outlets outlets_;
};

std::string name_of_node(std::int64_t id);

}  // namespace ravnest::provider
