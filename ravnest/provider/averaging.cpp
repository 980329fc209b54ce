#include "ravnest/provider/averaging.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ravnest/base/error.h"
#include "ravnest/base/table.h"
#include "ravnest/provider/gloo/gloo_engine.h"
#include "ravnest/provider/wiring.h"
#include "ravnest/reduce/sums.h"

namespace ravnest::provider {

namespace {

// Of one ring, that have numbers of their own. Each has threads and connections, too.
constexpr std::size_t kMostStreams = 64;
constexpr std::size_t kMostTrainings = 1024;
// From a member to another, for each part of a ring: words, values, what Gloo's meet by, and the
// latest values.
constexpr std::size_t kChannels = 4;

bool chosen(const char* what, const std::string& word, const char* no, const char* yes) {
  if (word != no && word != yes) {
    throw_invalid("[provider] expected ", what, " to be ", no, " or ", yes, ", got '",
                  printable(word), "'.");
  }
  return word == yes;
}

void check_range(const char* what, double value, double least, double most) {
  if (!(value >= least && value <= most)) {
    throw_invalid("[provider] expected ", what, " from ", least, " to ", most, ", got ", value,
                  ".");
  }
}

std::string joined(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) {
    list += (list.empty() ? "" : ", ") + name;
  }
  return list;
}

// FNV-1a, the same on every machine. What may differ is left out: how often, and how patiently.
std::int64_t digest_of(const AveragingOptions& options) {
  std::string text = concat(transport::name_of(options.codec), " ", static_cast<int>(options.mean),
                            " ", options.is_gloo, " ", options.with_rule, " ", options.streams);
  if (options.outer.is_nesterov) {
    text += concat(" ", options.outer.rate, " ", options.outer.momentum);
  }
  std::uint64_t digest = 0xcbf29ce484222325;
  for (const char letter : text) {
    digest = (digest ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  }
  return static_cast<std::int64_t>(digest >> 1);
}

}  // namespace

std::string describe(const AveragingNews& news, const std::string& name) {
  std::string others;
  for (const std::string& member : news.members) {
    if (member != name) {
      others += concat(others.empty() ? "" : ", ", member);
    }
  }
  return concat("averaging ", news.round, " with ", others.empty() ? "nobody else" : others, " (",
                news.duration.count(), " ms, ",
                format_bytes(static_cast<std::int64_t>(news.nbytes)), ")");
}

AveragingOptions to_options(const AveragingWords& words) {
  check_range("reduce_factor", static_cast<double>(words.every), 0, 1e12);
  check_range("outer_lr", words.outer_rate, 0, 1e6);
  check_range("outer_momentum", words.outer_momentum, 0, 1);
  check_range("streams", static_cast<double>(words.streams), 1, kMostStreams);
  check_range("patience", words.patience, 0.001, 1e6);
  AveragingOptions options;
  if (words.every > 0) {
    options.every = words.every;
  }
  options.is_blocking = chosen("averaging", words.averaging, "overlapped", "blocking");
  options.with_rule = words.with_rule;
  options.codec = transport::parse_codec(words.codec);
  options.mean = chosen("robust", words.robust, "none", "trimmed") ? reduce::Mean::kTrimmed
                                                                   : reduce::Mean::kPlain;
  options.is_gloo = chosen("reduce", words.reduce, "grpc", "gloo");
  if (options.is_gloo &&
      (options.mean != reduce::Mean::kPlain || options.codec != transport::Codec{})) {
    throw_invalid("[provider] expected reduce 'gloo' without a codec and without robust, got '",
                  printable(words.codec), "' and '", printable(words.robust), "'.");
  }
  options.outer = {.is_nesterov = chosen("outer", words.outer, "mean", "nesterov"),
                   .rate = words.outer_rate,
                   .momentum = words.outer_momentum};
  options.streams = static_cast<std::size_t>(words.streams);
  options.patience = transport::Milliseconds(static_cast<std::int64_t>(words.patience * 1000.0));
  return options;
}

// One ring, and what it averages. The ring calls on its own thread; everything here is done on the
// loop's.
class Averaging::Part : public reduce::RingListener, public std::enable_shared_from_this<Part> {
 public:
  Part(Averaging& owner, AveragedValues values, std::size_t stream)
      : owner_(owner),
        values_(std::move(values)),
        stream_(stream),
        outer_(owner.options_.outer, values_.parameters()) {}

  void start(const package::NodeRing& ring, std::size_t number) {
    const Averaging& owner = owner_;
    members_ = ring.members.size();
    reduce::RingOptions options;
    options.ring = number;
    options.rank = owner.node_.cluster;
    options.values = values_.values();
    options.exact = values_.values() - values_.parameters();
    options.maxima = values_.maxima();
    options.extras = outer_.momentum().size();
    options.codec = owner.options_.codec;
    options.mean = owner.options_.mean;
    options.needs_base = needs_base();
    options.terms = digest_of(owner.options_);
    options.waits_for_all = !owner.goes_on_;
    options.patience = owner.options_.patience;
    for (std::size_t i = 0; i < ring.members.size(); ++i) {
      options.members.push_back(
          {.name = name_of_node(ring.member_ids[i]), .address = ring.members[i]});
    }
    ring_ = std::make_unique<reduce::Ring>(
        std::move(options), owner.transport_, *this,
        owner.options_.is_gloo
            ? gloo_engine(owner.options_.is_network_trusted, owner.options_.listen)
            : reduce::MakeEngine(reduce::make_wire_engine));
    ring_->start();
  }
  void stop() { ring_->stop(); }

  std::size_t stream() const { return stream_; }

  bool is_due() const { return is_due_; }
  bool is_first() const { return committed_ == 0; }
  bool is_finished() const { return is_finished_; }
  void offer() {
    is_due_ = true;
    ring_->offer();
  }
  void offer_final() { ring_->offer_final(); }
  void fetch() {
    is_fetching_ = true;
    ring_->fetch_latest();
  }
  bool is_fetching() const { return is_fetching_; }

  void on_begin(std::int64_t round) override {
    post([this, round] { contribute(round); });
  }
  void on_average(reduce::Average average) override {
    post([this, average = std::make_shared<reduce::Average>(std::move(average))] {
      apply(std::move(*average));
    });
  }
  void on_abandoned(std::int64_t round, const std::string& why, bool is_offered) override {
    on_warning(concat("averaging ", round, " was abandoned: ", why));
    if (!is_offered) {
      post([this] { go_on_without(); });
    }
  }
  void on_latest(reduce::Contribution latest, std::int64_t round) override {
    if (round > 0) {
      on_notice(concat("takes the values of averaging ", round, " from another cluster"));
    }
    post([this, round, latest = std::make_shared<reduce::Contribution>(std::move(latest))] {
      catch_up(*latest, round);
    });
  }
  void on_wanted(std::int64_t ticket) override {
    post([this, ticket] {
      wanted_.push_back(ticket);
      give_latest();
    });
  }
  void on_notice(const std::string& sentence) override {
    owner_.hooks_.on_notice(sentence, transport::NoticeKind::kNews);
  }
  void on_warning(const std::string& sentence) override {
    owner_.hooks_.on_notice(sentence, transport::NoticeKind::kWarning);
  }
  void on_other_terms(const std::string& member) override {
    post([this, member] {
      throw_invalid("[provider] expected ", name_of_node(owner_.node_.id), " and ", member,
                    " to average in the same way: give both the same reduce, averaging_codec, "
                    "robust, outer, outer_lr, outer_momentum, streams and average_optim.");
    });
  }
  // An averaging beside training waits, but nobody waits for it.
  void on_waiting(const std::string& sentence) override {
    post([this, sentence] {
      if (owner_.hold() || owner_.is_finishing_) {
        owner_.hooks_.on_notice(sentence, transport::NoticeKind::kWaiting);
      }
    });
  }

 private:
  // A part that was replaced meanwhile has nothing to do any more.
  void post(std::function<void()> task) {
    owner_.hooks_.post([part = weak_from_this(), task = std::move(task)] {
      if (const auto alive = part.lock()) {
        task();
      }
    });
  }
  UpdateRule* rule() const { return owner_.options_.with_rule ? owner_.rule_ : nullptr; }

  bool is_rounded() const {
    return owner_.options_.codec.numbers != transport::Numbers::kUnchanged;
  }
  bool needs_base() const { return outer_.is_nesterov() || is_rounded(); }
  // What a codec rounds is what was learned since the base, and never the weights themselves:
  // before the first round there is no base, for any member.
  bool travels_from_base() const { return is_rounded() && committed_ > 0; }

  void contribute(std::int64_t round) {
    taken_ = values_.take(*owner_.stage_, rule());
    taken_after_ = owner_.stage_->updates();
    reduce::Contribution given = taken_;
    given.may_be_rounded = travels_from_base();
    if (travels_from_base()) {
      for (std::size_t i = 0; i < base_.size(); ++i) {
        given.values[i] -= base_[i];
      }
    }
    for (std::size_t i = 0; i < left_out_.size(); ++i) {
      given.values[i] += left_out_[i];
    }
    ring_->contribute(round, std::move(given));
  }

  void apply(reduce::Average average) {
    if (travels_from_base()) {
      for (std::size_t i = 0; i < base_.size(); ++i) {
        average.result.values[i] += base_[i];
      }
    }
    left_out_ = std::move(average.left_out);
    // The first step is the mean, for all members: where they have all been started again, what
    // they went on from is not known any more.
    if (outer_.is_nesterov() && !average.is_final && committed_ > 0) {
      // Statistics and the optimizer's means have no momentum: a variance would not stay one.
      const std::size_t count = values_.parameters();
      outer_.apply(base_, std::span(average.result.values).first(count));
    }
    set_base(average.result.values);
    // To the last bit as all others have it, where nothing has moved since.
    const bool is_still = average.is_final || taken_after_ == owner_.stage_->updates();
    if (is_still) {
      values_.set(average.result, *owner_.stage_, rule());
    } else {
      values_.move(taken_, average.result, *owner_.stage_, rule());
    }
    taken_ = {};
    is_due_ = false;
    is_finished_ = average.is_final;
    committed_ = average.round;
    if (is_finished_ && average.members.size() < members_) {
      on_warning(concat("the last averaging was of ", joined(average.members),
                        " alone: the weights of other clusters may differ"));
    }
    owner_.on_settled();
    owner_.hooks_.on_news({.round = average.round,
                           .members = std::move(average.members),
                           .nbytes = average.nbytes_sent,
                           .duration = average.duration,
                           .is_final = average.is_final});
  }

  // The others average without values that are not finite, and nothing follows that we could wait
  // for. Where one of them has better values, ours are mended before the next averaging.
  void go_on_without() {
    is_due_ = false;
    if (owner_.is_finishing_) {
      on_warning("ends without the last averaging: its values are not finite");
      is_finished_ = true;
    } else {
      ring_->fetch_latest();
    }
    owner_.on_settled();
  }

  // What all went on from, parameters alone; of means there is none.
  void set_base(const std::vector<float>& values) {
    if (needs_base()) {
      const auto count = static_cast<std::ptrdiff_t>(values_.parameters());
      base_.assign(values.begin(), values.begin() + count);
    }
  }

  // What is no number here becomes that of another; what was learned stays.
  void mend(reduce::Contribution values) {
    const reduce::Contribution own = values_.take(*owner_.stage_, rule());
    for (std::size_t i = 0; i < own.values.size(); ++i) {
      values.values[i] = std::isfinite(own.values[i]) ? own.values[i] : values.values[i];
    }
    reduce::take_maxima(values.maxima, own.maxima);
    values_.set(values, *owner_.stage_, rule());
  }

  // Our values as they are, or where there is a base that; then the momentum.
  reduce::Contribution latest() const {
    reduce::Contribution latest = values_.take(*owner_.stage_, rule());
    if (needs_base() && committed_ > 0) {
      std::ranges::copy(base_, latest.values.begin());
    }
    const std::span<const float> momentum = outer_.momentum();
    latest.values.insert(latest.values.end(), momentum.begin(), momentum.end());
    return latest;
  }

  // Not before there is something to give.
  void give_latest() {
    if (is_fetching_) {
      return;
    }
    for (const std::int64_t ticket : std::exchange(wanted_, {})) {
      ring_->give_latest(ticket, latest(), committed_);
    }
  }

  // Before the first round there is no base: all have begun with the same values.
  void catch_up(reduce::Contribution& latest, std::int64_t round) {
    const std::span<const float> momentum = std::span(latest.values).subspan(values_.values());
    if (round > 0) {
      outer_.set_momentum(momentum);
    }
    latest.values.resize(values_.values());
    if (!reduce::are_finite(values_.take(*owner_.stage_, rule()).values)) {
      mend(latest);
    } else if (needs_base() && committed_ > 0) {  // keeps what was learned since
      values_.move({.values = base_, .maxima = {}}, latest, *owner_.stage_, rule());
    } else {
      values_.set(latest, *owner_.stage_, rule());
    }
    if (round > 0) {
      committed_ = round;
      set_base(latest.values);
    }
    if (std::exchange(is_fetching_, false)) {
      owner_.on_fetched();
    }
    give_latest();
    owner_.hooks_.on_changed();
  }

  Averaging& owner_;
  const AveragedValues values_;
  const std::size_t stream_;
  std::size_t members_ = 0;
  reduce::OuterStep outer_;
  std::vector<float> base_;        // what all members went on from, where that is needed
  std::vector<float> left_out_;    // of the parameters, by the codec in the round before
  reduce::Contribution taken_;     // for the round under way
  std::uint64_t taken_after_ = 0;  // updates of the stage
  bool is_due_ = false;
  bool is_finished_ = false;
  bool is_fetching_ = false;
  std::vector<std::int64_t> wanted_;  // tickets of others
  std::int64_t committed_ = 0;  // the round that the base, or our values, have in them; 0: none
  std::unique_ptr<reduce::Ring> ring_;  // last: its thread calls the others' owner
};

Averaging::Averaging(AveragingOptions options, const package::NodeConfig& node,
                     transport::Transport& transport, Hooks hooks)
    : options_(std::move(options)), node_(node), transport_(transport), hooks_(std::move(hooks)) {}

Averaging::~Averaging() { stop(); }

void Averaging::stop() {
  // A second caller returns when the first has done it.
  const std::lock_guard stopping(stop_mutex_);
  std::vector<std::shared_ptr<Part>> parts;
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    parts = parts_;
  }
  for (const auto& part : parts) {
    part->stop();
  }
}

std::size_t Averaging::connections(const AveragingOptions& options,
                                   const package::NodeConfig& node) {
  std::size_t peers = 0;
  for (const package::NodeRing& ring : node.rings) {
    peers += std::max<std::size_t>(ring.members.size(), 1) - 1;
  }
  return peers * std::max<std::size_t>(options.streams, 1) * kChannels;
}

void Averaging::begin(engine::Stage& stage, UpdateRule& rule, Beginning beginning) {
  stage_ = &stage;
  rule_ = &rule;
  goes_on_ = beginning != Beginning::kAnew;
  clear_parts();
  updates_ = epoch_began_ = 0;
  next_stream_ = streams();
  is_finishing_ = false;
  hold_until_.reset();
  if (!options_.with_rule || beginning == Beginning::kFromOthers) {
    make_parts();
  }
  if (beginning == Beginning::kFromOthers) {
    is_fetching_ = true;
    for (const auto& part : parts_) {
      part->fetch();
    }
    on_fetched();
  }
}

void Averaging::on_fetched() {
  is_fetching_ = std::ranges::any_of(parts_, [](const auto& part) { return part->is_fetching(); });
}

void Averaging::clear_parts() {
  std::vector<std::shared_ptr<Part>> parts;
  const std::lock_guard lock(mutex_);
  parts.swap(parts_);
  is_finished_ = false;
}

// At the first update where the optimizer's state is averaged: it is there by then. Others may want
// our values long before an averaging is due.
void Averaging::make_parts() {
  if (is_finished_) {
    clear_parts();
  }
  if (!parts_.empty()) {
    return;
  }
  const RuleState of_rule = averaged_state();
  const std::lock_guard lock(mutex_);
  if (is_stopped_) {
    return;
  }
  for (const package::NodeRing& ring : node_.rings) {
    const auto cut =
        in_parts(ring.parameters, ring.buffers, stage_->weights().current()->weights, streams());
    for (std::size_t stream = 0; stream < cut.size(); ++stream) {
      // Every training and every part has channels of its own.
      const std::size_t number =
          (ring.id * kMostStreams + stream) * kMostTrainings + trainings_ % kMostTrainings;
      parts_.push_back(
          std::make_shared<Part>(*this, AveragedValues(cut[stream], *stage_, of_rule), stream));
      parts_.back()->start(ring, number);
    }
  }
}

// As the optimizer has it, or where updates were skipped, would have it.
RuleState Averaging::averaged_state() const {
  if (!options_.with_rule) {
    return {};
  }
  RuleState state = rule_->state();
  const engine::WeightMap& weights = stage_->weights().current()->weights;
  const auto needs_none = [&](const std::string& parameter) {  // or has its own
    return !weights.at(parameter).requires_grad() ||
           std::ranges::any_of(state.tensors, [&](const auto& entry) {
             return belongs_to(entry.first, parameter);
           });
  };
  const bool is_whole = std::ranges::all_of(node_.rings, [&](const package::NodeRing& ring) {
    return std::ranges::all_of(ring.parameters, needs_none);
  });
  return is_whole ? state : hooks_.rule_after_nothing();
}

void Averaging::on_update(std::int64_t number) {
  if (updates_ == 0) {
    epoch_began_ = number - 1;
  }
  updates_ = number;
  make_parts();
  if (!options_.every) {
    offer_due();
    return;
  }
  const auto count = static_cast<std::int64_t>(streams());
  for (std::int64_t stream = 0; stream < count; ++stream) {
    // Each once in so many updates, and not all at the same time.
    if ((updates_ + stream * *options_.every / count) % *options_.every == 0) {
      offer(static_cast<std::size_t>(stream));
    }
  }
}

void Averaging::on_epoch() {
  if (options_.every || updates_ == epoch_began_) {
    return;
  }
  while (next_stream_ < streams()) {  // the epoch was shorter than the one before
    offer(next_stream_++);
  }
  last_epoch_ = updates_ - epoch_began_;
  epoch_began_ = updates_;
  next_stream_ = 0;
  offer_due();
}

// The streams of an epoch are spread over the next, as if that had as many updates.
void Averaging::offer_due() {
  const auto count = static_cast<std::int64_t>(streams());
  const auto is_due = [&](std::size_t stream) {
    return (updates_ - epoch_began_) * count >= static_cast<std::int64_t>(stream) * last_epoch_;
  };
  while (next_stream_ < streams() && is_due(next_stream_)) {
    offer(next_stream_++);
  }
}

void Averaging::offer(std::size_t stream) {
  make_parts();
  const bool is_first =
      std::ranges::all_of(parts_, [](const auto& part) { return part->is_first(); });
  bool is_offered = false;  // a stage may have no parameters of its own
  for (const auto& part : parts_) {
    if (part->stream() == stream && !part->is_due()) {
      is_offered = true;
      part->offer();
    }
  }
  // Clusters begin when they can: the first averaging brings them together, of whatever part. Who
  // is fed by one requester may have more batches than another, which then would never come so far.
  if (is_offered && is_first && !goes_on_ && options_.begins_together) {
    hold_until_ = transport::deadline_in(transport::kForEver);
  } else if (is_offered && (options_.is_blocking || (is_first && !goes_on_))) {
    hold_until_ = transport::deadline_in(options_.patience);
  }
}

std::optional<transport::TimePoint> Averaging::hold() const {
  if (is_fetching_) {
    return transport::deadline_in(transport::kForEver);
  }
  const bool is_held = hold_until_ && std::chrono::steady_clock::now() < *hold_until_;
  return is_held ? hold_until_ : std::nullopt;
}

void Averaging::on_settled() {
  if (std::ranges::none_of(parts_, [](const auto& part) { return part->is_due(); })) {
    hold_until_.reset();
  }
  hooks_.on_changed();
}

bool Averaging::finish() {
  if (is_finished_) {
    return true;
  }
  make_parts();
  if (!std::exchange(is_finishing_, true)) {
    for (const auto& part : parts_) {
      part->offer_final();
    }
  }
  // The rings stay: another member may still be on its way to the same end.
  is_finished_ = std::ranges::all_of(parts_, [](const auto& part) { return part->is_finished(); });
  if (is_finished_) {
    ++trainings_;
    updates_ = epoch_began_ = 0;
    next_stream_ = streams();
    is_finishing_ = false;
    hold_until_.reset();
  }
  return is_finished_;
}

}  // namespace ravnest::provider
