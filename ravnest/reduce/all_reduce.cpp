#include "ravnest/reduce/all_reduce.h"

#include <algorithm>
#include <utility>

#include "ravnest/base/error.h"
#include "ravnest/base/fault_point.h"
#include "ravnest/reduce/sums.h"

namespace ravnest::reduce {

namespace {

using transport::Message;

// Acknowledgements of the last chunks are on their way when the round is over.
constexpr Milliseconds kReturn{50};
constexpr const char* kNotFinite = "sent values that are not finite";
constexpr const char* kTooGreat =
    "has values whose sum with those of others is no float32 any more";

std::span<const float> as_floats(const Bytes& bytes) {
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

Pieces make_pieces(const RingOptions& options, const Task& task) {
  const std::size_t chunk = task.largest_chunk > 0 ? task.largest_chunk : options.largest_chunk;
  return {.values = options.values,
          .exact = options.exact,
          .segments = task.participants.size(),
          .chunk = std::max<std::size_t>(1, chunk / sizeof(float))};
}

Bytes decoded(const Bytes& coded, const transport::Codec& codec, std::size_t count) {
  const std::int64_t shape[]{static_cast<std::int64_t>(count)};
  return transport::decode(coded, codec, static_cast<std::int64_t>(graph::DType::kFloat32), shape,
                           {});
}

void check_size(Parts floats, std::size_t count) {
  if (nbytes_of(floats) != count * sizeof(float)) {
    throw_invalid("[reduce] expected ", count, " values, got ", nbytes_of(floats), " bytes.");
  }
}

std::size_t checked_number(std::int64_t number, std::int64_t most) {
  if (number < 0 || number > most) {
    throw_invalid("[reduce] expected a number from 0 to ", most, " in a message of values, got ",
                  number, ".");
  }
  return static_cast<std::size_t>(number);
}

}  // namespace

ChunkHead read_chunk_head(const Message& message) {
  if (message.kind != transport::MessageKind::kReduce || message.fields.size() != 5 ||
      message.tensors.size() != 1 || message.epoch < 0 || message.pass < 0) {
    throw_invalid("[reduce] expected a message of values, got a ", name_of(message.kind),
                  " message of another form.");
  }
  ChunkHead head;
  head.part = static_cast<Part>(
      checked_number(message.fields[0], static_cast<std::int64_t>(Part::kMaxima)));
  head.segment = checked_number(message.fields[1], INT64_MAX);
  head.chunk = checked_number(message.fields[2], INT64_MAX);
  head.codec.numbers = static_cast<transport::Numbers>(
      checked_number(message.fields[3], static_cast<std::int64_t>(transport::Numbers::kInt8Rows)));
  head.codec.zstd = checked_number(message.fields[4], 1) == 1;
  const auto wanted = head.part == Part::kMaxima ? graph::DType::kInt64 : graph::DType::kUInt8;
  if (message.tensors[0].dtype != wanted) {
    throw_invalid("[reduce] expected bytes of values or maxima, got another dtype.");
  }
  return head;
}

AllReduce::AllReduce(const RingOptions& options, const Task& task, Contribution contribution,
                     Send send)
    : options_(options),
      task_(task),
      send_(std::move(send)),
      pieces_(make_pieces(options, task)),
      may_be_rounded_(contribution.may_be_rounded &&
                      options.codec.numbers != transport::Numbers::kUnchanged),
      values_(std::move(contribution.values)),
      maxima_(std::move(contribution.maxima)) {
  RAVNEST_CHECK(values_.size() == options.values && maxima_.size() == options.maxima);
  if (may_be_rounded_ && size() > 1) {
    left_out_.resize(options.values - options.exact);
  }
}

void AllReduce::start() {
  if (size() == 1) {
    if (!are_finite(values_.all())) {
      throw Suspicion(options_.rank, kNotFinite);
    }
    return;
  }
  if (!maxima_.empty()) {
    missing_ += size() - 1;
    send_maxima(0);
  }
  if (is_trimmed()) {
    start_exchange();
  } else {
    start_ring();
  }
}

void AllReduce::expect(std::size_t place, Part part, std::size_t segment) {
  if (const std::size_t chunks = pieces_.chunks(segment); chunks > 0) {
    sources_[task_.participants[place]][{part, segment}] = 0;
    missing_ += chunks;
  }
}

void AllReduce::start_ring() {
  for (std::size_t step = 1; step < size(); ++step) {
    expect(previous(), Part::kScatter, (task_.place + size() - step) % size());
  }
  for (std::size_t step = 0; step + 1 < size(); ++step) {
    expect(previous(), Part::kGather, (task_.place + size() - step) % size());
  }
  for (std::size_t chunk = 0; chunk < pieces_.chunks(task_.place); ++chunk) {
    send_own(next(), Part::kScatter, task_.place, chunk);
  }
}

void AllReduce::start_exchange() {
  exchanges_.resize(pieces_.chunks(own_segment()));
  for (Exchange& exchange : exchanges_) {
    exchange.by_place.resize(size());
  }
  for (std::size_t place = 0; place < size(); ++place) {
    if (place != task_.place) {
      expect(place, Part::kExchange, own_segment());
    }
  }
  for (std::size_t step = 0; step + 1 < size(); ++step) {
    expect(previous(), Part::kGather, (task_.place + size() - step) % size());
  }
  // By chunk first, so that all owners can begin.
  for (std::size_t chunk = 0; chunk < pieces_.chunks(0); ++chunk) {
    for (std::size_t step = 1; step < size(); ++step) {
      const std::size_t place = (task_.place + step) % size();
      const std::size_t segment = (place + 1) % size();
      if (chunk < pieces_.chunks(segment)) {
        send_own(place, Part::kExchange, segment, chunk);
      }
    }
  }
}

std::size_t AllReduce::awaited() const {
  for (const auto& [rank, source] : sources_) {
    if (!source.empty()) {
      return rank;
    }
  }
  return task_.participants[previous()];
}

void AllReduce::take(std::size_t rank, const Message& message, Parts parts) {
  try {
    const ChunkHead head = read_chunk_head(message);
    const Parts body = parts.empty() ? Parts(&message.tensors[0].bytes, 1) : parts;
    if (head.part == Part::kMaxima) {
      take_maxima(rank, head, joined(body));
    } else {
      check_order(rank, head);
      take_floats(rank, head, body);
    }
  } catch (const std::invalid_argument& error) {
    throw Suspicion(rank, concat("sent what does not belong here: ", error.what()));
  }
  --missing_;
  ++received_;
}

void AllReduce::take_floats(std::size_t rank, const ChunkHead& head, Parts coded) {
  const Range range = pieces_.at(head.segment, head.chunk);
  const std::size_t count = range.size;
  if (head.codec.numbers != transport::Numbers::kUnchanged &&
      codec_for(range).numbers == transport::Numbers::kUnchanged) {
    throw_invalid("[reduce] expected values that no codec has rounded, got ", name_of(head.codec),
                  ".");
  }
  Bytes wide;
  Parts floats = coded;
  if (head.codec != transport::Codec{}) {
    wide = decoded(joined(coded), head.codec, count);
    floats = Parts(&wide, 1);
  }
  check_size(floats, count);
  if (head.part == Part::kScatter) {
    on_partial(rank, head, floats);
  } else if (head.part == Part::kExchange) {
    on_values(rank, head, floats);
  } else {
    on_finished(rank, head, floats, coded);
  }
}

void AllReduce::check_order(std::size_t rank, const ChunkHead& head) {
  Source& source = sources_[rank];
  const auto found = source.find({head.part, head.segment});
  if (found == source.end() || head.chunk != found->second) {
    throw_invalid("[reduce] expected the next chunk of a segment that is still to come, got chunk ",
                  head.chunk, " of segment ", head.segment, ".");
  }
  if (++found->second == pieces_.chunks(head.segment)) {
    source.erase(found);
  }
}

void AllReduce::on_partial(std::size_t rank, const ChunkHead& head, Parts floats) {
  const auto sums = floats_at(pieces_.at(head.segment, head.chunk));
  const bool is_last = head.segment == own_segment();
  const bool is_finite =
      is_last ? add_and_scale(sums, floats, 1.0F / static_cast<float>(size())) : add(sums, floats);
  if (!is_finite) {
    blame(rank, floats, sums);
  }
  fault_point("averaging");
  if (is_last) {
    send_mean(head.chunk);
  } else {
    send_sum(head);
  }
}

void AllReduce::on_values(std::size_t rank, const ChunkHead& head, Parts floats) {
  if (!are_finite(floats)) {
    throw Suspicion(rank, kNotFinite);
  }
  Exchange& exchange = exchanges_[head.chunk];
  const auto place = std::ranges::find(task_.participants, rank) - task_.participants.begin();
  exchange.by_place[static_cast<std::size_t>(place)] = joined(floats);
  if (++exchange.count + 1 == size()) {
    finish_exchange(head.chunk);
  }
}

void AllReduce::finish_exchange(std::size_t chunk) {
  Exchange& exchange = exchanges_[chunk];
  const auto own = floats_at(pieces_.at(own_segment(), chunk));
  std::vector<std::span<const float>> contributions;
  for (std::size_t place = 0; place < size(); ++place) {
    contributions.push_back(place == task_.place ? own : as_floats(exchange.by_place[place]));
  }
  if (!are_finite(own)) {
    throw Suspicion(options_.rank, kNotFinite);
  }
  if (!trimmed_mean(own, contributions)) {
    throw Suspicion(options_.rank, kTooGreat, false);
  }
  exchange.by_place.clear();
  send_mean(chunk);
}

void AllReduce::on_finished(std::size_t rank, const ChunkHead& head, Parts floats, Parts coded) {
  const Range range = pieces_.at(head.segment, head.chunk);
  if (!copy(floats_at(range), floats)) {
    throw Suspicion(rank, kNotFinite);
  }
  if (head.segment != (next() + 1) % size()) {  // not the next one's own
    const bool is_wide = head.codec == transport::Codec{};
    send_coded(next(), head, is_wide ? values_.lend(range.offset, range.size) : joined(coded));
  }
}

// Ours are still what they were where the sum is not finite.
void AllReduce::blame(std::size_t rank, Parts floats, std::span<const float> own) const {
  if (!are_finite(floats)) {
    throw Suspicion(rank, kNotFinite);
  }
  if (!are_finite(own)) {
    throw Suspicion(options_.rank, kNotFinite);
  }
  throw Suspicion(largest(floats) < largest(own) ? options_.rank : rank, kTooGreat, false);
}

void AllReduce::take_maxima(std::size_t rank, const ChunkHead& head, const Bytes& bytes) {
  if (rank != task_.participants[previous()] || head.segment != maxima_steps_ ||
      maxima_steps_ + 1 >= size() || bytes.size() != maxima_.size() * sizeof(std::int64_t)) {
    throw_invalid("[reduce] expected step ", maxima_steps_, " of ", maxima_.size(),
                  " maxima, got step ", head.segment, " of ", bytes.size(), " bytes.");
  }
  reduce::take_maxima(maxima_,
                      {reinterpret_cast<const std::int64_t*>(bytes.data()), maxima_.size()});
  if (++maxima_steps_ + 1 < size()) {
    send_maxima(maxima_steps_);
  }
}

void AllReduce::send_maxima(std::size_t step) {
  Bytes bytes = Bytes::copy_of(std::as_bytes(std::span(maxima_)));
  nbytes_sent_ += bytes.size();
  send_(task_.participants[next()],
        {.kind = transport::MessageKind::kReduce,
         .pass = task_.round,
         .epoch = task_.epoch,
         .fields = {static_cast<std::int64_t>(Part::kMaxima), static_cast<std::int64_t>(step), 0, 0,
                    0},
         .tensors = {{.dtype = graph::DType::kInt64,
                      .shape = {static_cast<std::int64_t>(maxima_.size())},
                      .bytes = std::move(bytes)}}});
}

std::span<float> AllReduce::floats_at(const Range& range) {
  return values_.all().subspan(range.offset, range.size);
}

transport::Codec AllReduce::codec_for(const Range& range) const {
  const bool is_rounded = may_be_rounded_ && !pieces_.is_exact(range);
  return is_rounded ? options_.codec : transport::Codec{.zstd = options_.codec.zstd};
}

// What the codec leaves out of these values counts so much in the sum.
transport::Encoded AllReduce::encoded(const Range& range, float weight) {
  const transport::Tensor tensor{.dtype = graph::DType::kFloat32,
                                 .shape = {static_cast<std::int64_t>(range.size)},
                                 .bytes = values_.lend(range.offset, range.size)};
  transport::Encoded out = transport::encode(tensor, codec_for(range));
  if (out.codec.numbers != transport::Numbers::kUnchanged) {
    const Bytes seen = decoded(out.bytes, out.codec, range.size);
    subtract(std::span(left_out_).subspan(range.offset, range.size), floats_at(range),
             as_floats(seen), weight);
  }
  return out;
}

void AllReduce::send_own(std::size_t place, Part part, std::size_t segment, std::size_t chunk) {
  transport::Encoded out = encoded(pieces_.at(segment, chunk));
  send_coded(place, {.part = part, .segment = segment, .chunk = chunk, .codec = out.codec},
             std::move(out.bytes));
}

void AllReduce::send_sum(const ChunkHead& head) {
  transport::Encoded out = encoded(pieces_.at(head.segment, head.chunk));
  send_coded(next(),
             {.part = head.part, .segment = head.segment, .chunk = head.chunk, .codec = out.codec},
             std::move(out.bytes));
}

void AllReduce::send_mean(std::size_t chunk) {
  const std::size_t segment = own_segment();
  const Range range = pieces_.at(segment, chunk);
  // Added to one member's values alone, a trimmed mean would not have it.
  transport::Encoded out = encoded(range, is_trimmed() ? 0.0F : static_cast<float>(size()));
  if (out.codec.numbers != transport::Numbers::kUnchanged) {  // take what the others will see
    const Bytes seen = decoded(out.bytes, out.codec, range.size);
    static_cast<void>(copy(floats_at(range), Parts(&seen, 1)));
  }
  send_coded(next(),
             {.part = Part::kGather, .segment = segment, .chunk = chunk, .codec = out.codec},
             std::move(out.bytes));
}

void AllReduce::send_coded(std::size_t place, const ChunkHead& head, Bytes bytes) {
  nbytes_sent_ += bytes.size();
  const auto nbytes = static_cast<std::int64_t>(bytes.size());
  send_(
      task_.participants[place],
      {.kind = transport::MessageKind::kReduce,
       .pass = task_.round,
       .epoch = task_.epoch,
       .fields = {static_cast<std::int64_t>(head.part), static_cast<std::int64_t>(head.segment),
                  static_cast<std::int64_t>(head.chunk),
                  static_cast<std::int64_t>(head.codec.numbers), head.codec.zstd ? 1 : 0},
       .tensors = {{.dtype = graph::DType::kUInt8, .shape = {nbytes}, .bytes = std::move(bytes)}}});
}

Engine::Result AllReduce::result() {
  Engine::Result result{.nbytes_sent = nbytes_sent_, .left_out = std::move(left_out_)};
  result.contribution.values = values_.take(kReturn);
  result.contribution.maxima = std::move(maxima_);
  return result;
}

}  // namespace ravnest::reduce
