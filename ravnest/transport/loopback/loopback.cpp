#include "ravnest/transport/loopback/loopback.h"

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "ravnest/base/error.h"
#include "ravnest/transport/session/loop.h"
#include "ravnest/transport/session/pump_gate.h"
#include "ravnest/transport/session/session_transport.h"

namespace ravnest::transport {

class LoopbackStream;

// One address: its thread, and the streams that end there.
struct LoopbackNode {
  explicit LoopbackNode(std::string where)
      : address(std::move(where)), loop([] { return std::chrono::steady_clock::now(); }) {}

  const std::string address;
  Carrier::Accept accept;
  Loop loop;

  std::mutex mutex;  // guards what follows
  std::vector<std::weak_ptr<LoopbackStream>> streams;

  void add(const std::shared_ptr<LoopbackStream>& stream);
};

// One end of a connection. Frames go to the other end's thread; the owner is called on ours.
class LoopbackStream : public Stream, public std::enable_shared_from_this<LoopbackStream> {
 public:
  LoopbackStream(std::shared_ptr<LoopbackNode> node, std::string remote)
      : node_(std::move(node)), remote_(std::move(remote)) {}

  void set_owner(const std::shared_ptr<StreamOwner>& owner) {
    {
      const std::lock_guard lock(mutex_);
      if (!is_over_) {
        owner_ = owner;
        return;
      }
    }
    owner->on_end("the connection was closed");
  }
  void set_peer(const std::shared_ptr<LoopbackStream>& peer) { peer_ = peer; }
  std::string remote() const override { return remote_; }

  void wake() override {
    const auto owner = find_owner();
    if (!owner || !gate_.enter()) {
      return;
    }
    while (true) {
      NextFrame next = owner->next_frame();
      if (next.frame) {
        pass_on(std::move(*next.frame));
      }
      if (next.end) {
        end_both("the connection was closed", "the connection was closed");
        return;
      }
      if (!next.frame && gate_.leave()) {
        return;
      }
    }
  }

  void abort(const std::string& reason) override { end_both(reason, "its connection was closed"); }

  void deliver(const OutFrame& frame) {
    const auto owner = find_owner();
    if (!owner) {
      return;
    }
    InFrame in{.head = frame.head};
    for (const Bytes& part : frame.payload) {
      in.payload.push_back(part.view());
    }
    in.owner = std::make_shared<std::vector<Bytes>>(frame.payload);
    try {
      owner->on_frame(in);
    } catch (const std::exception& error) {
      abort(error.what());
    }
  }

  // On our thread.
  void finish(const std::string& reason) {
    std::shared_ptr<StreamOwner> owner;
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
      owner = std::move(owner_);
    }
    if (owner) {
      owner->on_end(reason);
    }
  }

  void post_finish(const std::string& reason) {
    static_cast<void>(
        node_->loop.post([self = shared_from_this(), reason] { self->finish(reason); }));
  }

 private:
  std::shared_ptr<StreamOwner> find_owner() {
    const std::lock_guard lock(mutex_);
    return owner_;
  }

  void pass_on(OutFrame frame) {
    if (const auto peer = peer_.lock()) {
      static_cast<void>(
          peer->node_->loop.post([peer, frame = std::move(frame)] { peer->deliver(frame); }));
    }
  }

  void end_both(const std::string& here, const std::string& there) {
    post_finish(here);
    if (const auto peer = peer_.lock()) {
      peer->post_finish(there);
    }
  }

  const std::shared_ptr<LoopbackNode> node_;
  const std::string remote_;
  std::weak_ptr<LoopbackStream> peer_;  // set before anybody knows the stream
  PumpGate gate_;

  std::mutex mutex_;
  std::shared_ptr<StreamOwner> owner_;  // until the end
  bool is_over_ = false;
};

void LoopbackNode::add(const std::shared_ptr<LoopbackStream>& stream) {
  const std::lock_guard lock(mutex);
  std::erase_if(streams, [](const auto& old) { return old.expired(); });
  streams.push_back(stream);
}

class LoopbackNetwork {
 public:
  void add(const std::shared_ptr<LoopbackNode>& node) {
    const std::lock_guard lock(mutex_);
    if (!nodes_.emplace(node->address, node).second) {
      throw Error(ErrorKind::kIo, concat("[transport] the address ", node->address, " is taken."));
    }
  }
  void remove(const std::string& address) {
    const std::lock_guard lock(mutex_);
    nodes_.erase(address);
  }
  std::shared_ptr<LoopbackNode> find(const std::string& address) {
    const std::lock_guard lock(mutex_);
    const auto found = nodes_.find(address);
    return found == nodes_.end() ? nullptr : found->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<LoopbackNode>> nodes_;
};

namespace {

class LoopbackCarrier : public Carrier {
 public:
  LoopbackCarrier(std::shared_ptr<LoopbackNetwork> network, const std::string& address)
      : network_(std::move(network)), node_(std::make_shared<LoopbackNode>(address)) {}
  ~LoopbackCarrier() override { LoopbackCarrier::stop(); }
  LoopbackCarrier(const LoopbackCarrier&) = delete;
  LoopbackCarrier& operator=(const LoopbackCarrier&) = delete;

  void start(Accept accept) override {
    node_->accept = std::move(accept);
    network_->add(node_);
    is_listening_ = true;
  }

  void check(const Peer&) const override {}

  std::shared_ptr<Stream> connect(const Peer& peer, std::shared_ptr<StreamOwner> owner) override {
    const auto here = std::make_shared<LoopbackStream>(node_, peer.address);
    here->set_owner(owner);
    node_->add(here);
    const auto node = network_->find(peer.address);
    const auto there = node ? std::make_shared<LoopbackStream>(node, node_->address) : nullptr;
    if (there) {
      here->set_peer(there);
      there->set_peer(here);
      node->add(there);
    }
    const bool is_made =
        there && node->loop.post([node, there] { there->set_owner(node->accept(there)); });
    if (!is_made) {
      here->post_finish("nobody listens there");
    }
    return here;
  }

  std::string address() const override { return node_->address; }

  void stop() override {
    if (std::exchange(is_listening_, false)) {
      network_->remove(node_->address);
    }
    std::vector<std::weak_ptr<LoopbackStream>> streams;
    {
      const std::lock_guard lock(node_->mutex);
      streams.swap(node_->streams);
    }
    for (const auto& weak : streams) {
      if (const auto stream = weak.lock()) {
        stream->abort("the transport is gone");
      }
    }
    node_->loop.stop();
  }

 private:
  const std::shared_ptr<LoopbackNetwork> network_;
  const std::shared_ptr<LoopbackNode> node_;
  bool is_listening_ = false;
};

}  // namespace

std::shared_ptr<LoopbackNetwork> make_loopback_network() {
  return std::make_shared<LoopbackNetwork>();
}

std::unique_ptr<Carrier> make_loopback_carrier(std::shared_ptr<LoopbackNetwork> network,
                                               const std::string& address) {
  return std::make_unique<LoopbackCarrier>(std::move(network), address);
}

std::unique_ptr<Transport> make_loopback_transport(std::shared_ptr<LoopbackNetwork> network,
                                                   const std::string& address,
                                                   const TransportOptions& options) {
  return std::make_unique<SessionTransport>(options,
                                            make_loopback_carrier(std::move(network), address));
}

}  // namespace ravnest::transport
