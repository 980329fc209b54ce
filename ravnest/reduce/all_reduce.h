#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/reduce/engine.h"
#include "ravnest/reduce/lent_floats.h"
#include "ravnest/reduce/parts.h"
#include "ravnest/reduce/pieces.h"
#include "ravnest/reduce/ring.h"

namespace ravnest::reduce {

// What a message of values carries. Numbered as on the wire.
enum class Part : std::uint8_t {
  kScatter = 0,   // a partial sum, on its way to the segment's owner
  kGather = 1,    // a finished chunk, on its way to all
  kExchange = 2,  // values of one participant, for the segment's owner
  kMaxima = 3,
};

struct ChunkHead {
  Part part = Part::kScatter;
  std::size_t segment = 0;  // of maxima: the step
  std::size_t chunk = 0;
  transport::Codec codec;
};

// Throws std::invalid_argument for anything but a message of values.
ChunkHead read_chunk_head(const transport::Message& message);

// Somebody did what nobody may; the round is spoilt.
class Suspicion : public std::runtime_error {
 public:
  Suspicion(std::size_t rank, const std::string& why, bool is_proven = true)
      : std::runtime_error(why), rank_(rank), is_proven_(is_proven) {}
  std::size_t rank() const { return rank_; }
  bool is_proven() const { return is_proven_; }

 private:
  std::size_t rank_;
  bool is_proven_;
};

// One participant's part of one all-reduce. Participant i owns segment i + 1: partial sums of a
// segment begin at the participant behind its owner and go once around; the owner makes the mean of
// it and sends it once around. A chunk is summed and sent on as soon as it is there. For the
// trimmed mean the first trip is replaced: everyone sends owners their values directly.
//
// Sums are float32 whatever the codec. A finished chunk travels from its owner to all without being
// coded again, so all have the same, the owner included. Every sum is coded by one member, which
// knows what that left out. Values are summed in place and sent from there: by the time a chunk's
// mean comes back, everyone has taken what it was made of.
class AllReduce {
 public:
  using Send = std::function<void(std::size_t rank, transport::Message message)>;

  // Borrows the options.
  AllReduce(const RingOptions& options, const Task& task, Contribution contribution, Send send);

  // Both throw Suspicion.
  void start();
  // The parts are those of a transport::Delivery.
  void take(std::size_t rank, const transport::Message& message, Parts parts = {});

  bool is_done() const { return missing_ == 0; }
  // Everyone sends to everyone, in place of around the ring.
  bool is_trimmed() const { return options_.mean == Mean::kTrimmed && size() >= 3; }
  // Messages that have come.
  std::size_t received() const { return received_; }
  // The rank that the next message must come from; not done yet.
  std::size_t awaited() const;
  const Task& task() const { return task_; }
  // Once, when done.
  Engine::Result result();

 private:
  // What is still to come from one participant: of each segment the next chunk.
  using Source = std::map<std::pair<Part, std::size_t>, std::size_t>;
  struct Exchange {  // contributions to one chunk of our segment
    std::vector<Bytes> by_place;
    std::size_t count = 0;
  };

  void expect(std::size_t place, Part part, std::size_t segment);
  void start_ring();
  void start_exchange();
  void take_maxima(std::size_t rank, const ChunkHead& head, const Bytes& bytes);
  void take_floats(std::size_t rank, const ChunkHead& head, Parts coded);
  void check_order(std::size_t rank, const ChunkHead& head);
  void on_partial(std::size_t rank, const ChunkHead& head, Parts floats);
  void on_values(std::size_t rank, const ChunkHead& head, Parts floats);
  void on_finished(std::size_t rank, const ChunkHead& head, Parts floats, Parts coded);
  void finish_exchange(std::size_t chunk);
  [[noreturn]] void blame(std::size_t rank, Parts floats, std::span<const float> own) const;

  void send_own(std::size_t place, Part part, std::size_t segment, std::size_t chunk);
  void send_sum(const ChunkHead& head);
  void send_mean(std::size_t chunk);
  void send_coded(std::size_t place, const ChunkHead& head, Bytes bytes);
  void send_maxima(std::size_t step);

  std::size_t size() const { return task_.participants.size(); }
  std::size_t next() const { return (task_.place + 1) % size(); }
  std::size_t previous() const { return (task_.place + size() - 1) % size(); }
  std::size_t own_segment() const { return next(); }
  std::span<float> floats_at(const Range& range);
  transport::Codec codec_for(const Range& range) const;
  transport::Encoded encoded(const Range& range, float weight = 1.0F);

  const RingOptions& options_;
  const Task task_;
  const Send send_;
  const Pieces pieces_;
  const bool may_be_rounded_;
  LentFloats values_;
  std::vector<float> left_out_;  // by the codec, of sums; empty where it rounds nothing
  std::vector<std::int64_t> maxima_;
  std::map<std::size_t, Source> sources_;  // by rank
  std::vector<Exchange> exchanges_;        // by chunk
  std::size_t maxima_steps_ = 0;
  std::size_t missing_ = 0;
  std::size_t received_ = 0;
  std::size_t nbytes_sent_ = 0;
};

}  // namespace ravnest::reduce
