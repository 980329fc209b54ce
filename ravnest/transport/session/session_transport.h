#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "ravnest/transport/carrier.h"
#include "ravnest/transport/transport.h"

namespace ravnest::transport {

struct SessionContext;
class SenderSession;
class ReceiverSession;

// The transport over any carrier: sequences, windows, heartbeats and reconnecting are the same in
// process and over the network.
class SessionTransport : public Transport {
 public:
  // Listens at once. Throws std::invalid_argument for a name that cannot be one, and what
  // Carrier::start throws.
  SessionTransport(TransportOptions options, std::unique_ptr<Carrier> carrier);
  // Without close() before it, peers see a lost node.
  ~SessionTransport() override;
  SessionTransport(const SessionTransport&) = delete;
  SessionTransport& operator=(const SessionTransport&) = delete;

  std::unique_ptr<Sender> open(const Peer& to, const std::string& channel) override;
  std::unique_ptr<Receiver> receive(const Peer& from, const std::string& channel,
                                    Handler handler) override;
  void set_members(Members members) override;
  std::string address() const override;
  void close(Milliseconds timeout) override;

 private:
  using Key = std::pair<std::string, std::string>;  // peer, channel

  std::shared_ptr<ReceiverSession> find_receiver(const std::string& from,
                                                 const std::string& channel);

  const std::shared_ptr<SessionContext> context_;
  const std::unique_ptr<Carrier> carrier_;

  std::mutex mutex_;  // guards what follows
  std::map<Key, std::weak_ptr<SenderSession>> senders_;
  std::map<Key, std::weak_ptr<ReceiverSession>> receivers_;
};

}  // namespace ravnest::transport
