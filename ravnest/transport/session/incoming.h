#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "ravnest/transport/carrier.h"
#include "ravnest/transport/session/receiver_session.h"

namespace ravnest::transport {

// A stream that somebody opened to us, until its hello says which channel it is for; from then on
// it passes everything on. Who does not say hello in time, or wrongly, is turned away with a
// sentence.
class Incoming : public StreamOwner, public Ticking, public std::enable_shared_from_this<Incoming> {
 public:
  // The session of a channel that is expected here, or nothing.
  using Find = std::function<std::shared_ptr<ReceiverSession>(const std::string& from,
                                                              const std::string& channel)>;

  Incoming(std::shared_ptr<SessionContext> context, std::shared_ptr<Stream> stream, Find find);

  NextFrame next_frame() override;
  void on_frame(const InFrame& frame) override;
  void on_end(const std::string& reason) override;
  TimePoint tick(TimePoint now) override;

 private:
  void on_hello(const Hello& hello);
  void refuse(const Hello& hello, Refusal refusal);

  const std::shared_ptr<SessionContext> context_;
  const Find find_;
  const TimePoint hello_by_;

  std::mutex mutex_;                // guards what follows
  std::shared_ptr<Stream> stream_;  // empty once it has ended
  std::shared_ptr<ReceiverSession> session_;
  std::uint64_t connection_ = 0;
  std::optional<Refusal> refusal_;
};

// Why a hello cannot be for this node, in a sentence; nothing if it may.
std::optional<Refusal> find_mismatch(const Hello& hello, const TransportOptions& options);

}  // namespace ravnest::transport
