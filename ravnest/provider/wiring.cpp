#include "ravnest/provider/wiring.h"

#include <algorithm>
#include <map>

#include "ravnest/base/error.h"

namespace ravnest::provider {

namespace {

std::string name_of(Channel channel) {
  switch (channel) {
    case Channel::kForward:
      return "forward";
    case Channel::kBackward:
      return "backward";
    case Channel::kInputs:
      return "inputs";
    case Channel::kResults:
      return "results";
    case Channel::kTied:
      return "tied";
  }
  return "";
}

}  // namespace

std::string name_of_node(std::int64_t id) { return concat("node_", id); }

Wiring::Wiring(transport::Transport& transport, const package::NodeConfig& node,
               const Handlers& handlers)
    : transport_(transport), node_(node), handlers_(handlers) {
  const std::size_t last = node.stages - 1;
  if (node.stage < last) {
    open(node.stage + 1, "forward", outlets_.next);
    listen(node.stage + 1, Channel::kBackward);
  }
  if (node.stage > 0) {
    open(node.stage - 1, "backward", outlets_.previous);
    listen(node.stage - 1, Channel::kForward);
    const package::ClusterMate& self = node.mates[node.stage];
    if (!self.inputs.empty() || !self.eval_inputs.empty()) {
      listen(0, Channel::kInputs);
    }
  }
  if (node.stage == 0) {
    for (std::size_t k = 1; k <= last; ++k) {
      const package::ClusterMate& mate = node.mates[k];
      if (!mate.inputs.empty() || !mate.eval_inputs.empty()) {
        Outlets::Inputs inputs{
            .to = nullptr, .training = mate.inputs, .evaluation = mate.eval_inputs};
        open(k, "inputs", inputs.to);
        outlets_.inputs.push_back(std::move(inputs));
      }
    }
    if (last > 0) {
      listen(last, Channel::kResults);
    }
  } else if (node.stage == last) {
    open(0, "results", outlets_.results);
  }
  open_tied();
}

void Wiring::open(std::size_t stage, const std::string& channel, transport::Sender*& outlet) {
  const package::ClusterMate& mate = node_.mates[stage];
  senders_.push_back(
      transport_.open({.name = name_of_node(mate.id), .address = mate.address}, channel));
  outlet = senders_.back().get();
}

void Wiring::listen(std::size_t stage, Channel channel) {
  const package::ClusterMate& mate = node_.mates[stage];
  const Handlers& handlers = handlers_;
  receivers_.push_back(transport_.receive(
      {.name = name_of_node(mate.id), .address = mate.address}, name_of(channel),
      {.on_message =
           [&handlers, channel](transport::Delivery delivery) {
             handlers.on_message(channel, std::move(delivery));
           },
       .on_end = [&handlers, channel, from = name_of_node(mate.id)](
                     const std::exception_ptr& error) { handlers.on_end(channel, from, error); }}));
}

// Both ends list what they share in the order of names.
void Wiring::open_tied() {
  std::map<std::string, std::vector<std::string>> homes;  // by address
  std::map<std::string, std::vector<std::string>> copies;
  for (const auto& [name, address] : node_.tied) {
    homes[address].push_back(name);
  }
  for (const auto& [name, addresses] : node_.tied_copies) {
    for (const std::string& address : addresses) {
      copies[address].push_back(name);
    }
  }
  for (std::size_t k = 0; k < node_.mates.size(); ++k) {
    const package::ClusterMate& mate = node_.mates[k];
    for (auto* shared : {&homes, &copies}) {
      const auto found = shared->find(mate.address);
      if (found == shared->end()) {
        continue;
      }
      Outlets::Tied tied{
          .to = nullptr, .peer = name_of_node(mate.id), .names = std::move(found->second)};
      std::ranges::sort(tied.names);
      open(k, "tied", tied.to);
      listen(k, Channel::kTied);
      if (shared == &homes) {
        outlets_.homes.emplace(tied.peer, std::move(tied));
      } else {
        outlets_.copies.push_back(std::move(tied));
      }
    }
  }
}

}  // namespace ravnest::provider
