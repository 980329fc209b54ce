#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ravnest/transport/carrier.h"
#include "ravnest/transport/options.h"

namespace ravnest::transport {

// What can be done to a frame on its way out.
enum class Fault : std::uint8_t {
  kDrop,
  kDuplicate,
  kReorder,  // it goes after the next one
  kBreak,    // the connection ends before it is written
  kDelay,    // it, and what comes after it, is held back
};

// Faults on order, for tests: a test says what shall happen to the frames of a transport whose
// carrier is wrapped, and afterwards reads how often it did. Any thread.
class Faults {
 public:
  explicit Faults(Milliseconds delay = Milliseconds(20)) : delay_(delay) {}

  // To the next frames of this kind (as name_of says: "begin", "piece", "ack", …), once each.
  void inject(Fault fault, const std::string& frame, std::size_t times = 1);
  std::size_t count(Fault fault) const;

  // The peer is cut off: its connections end, and new ones end at their hello.
  void partition(const std::string& peer);
  // The connections stay, and nothing gets through either way.
  void silence(const std::string& peer);
  // Undoes both.
  void heal(const std::string& peer);
  // Connections ended and frames swallowed because of these two.
  std::size_t cut_off() const;

 private:
  friend class FaultyOwner;
  friend class FaultyCarrier;

  std::optional<Fault> take_order(const FrameHead& head);
  bool is_partitioned(const std::string& peer);
  bool is_silenced(const std::string& peer);
  void keep(const std::shared_ptr<class FaultyOwner>& owner);

  const Milliseconds delay_;

  mutable std::mutex mutex_;  // guards what follows
  std::map<std::string, std::vector<Fault>> ordered_;
  std::map<Fault, std::size_t> counts_;
  std::set<std::string> partitioned_;
  std::set<std::string> silenced_;
  std::vector<std::weak_ptr<class FaultyOwner>> owners_;
  std::size_t cut_off_ = 0;
};

// Forwards everything to the carrier, but for the faults. Give it to a SessionTransport to have a
// transport with faults, in process or over the network.
std::unique_ptr<Carrier> make_faulty_carrier(std::unique_ptr<Carrier> carrier,
                                             std::shared_ptr<Faults> faults);

}  // namespace ravnest::transport
