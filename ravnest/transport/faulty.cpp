#include "ravnest/transport/faulty.h"

#include <deque>
#include <optional>
#include <utility>

namespace ravnest::transport {

// Stands between a stream and its owner.
class FaultyOwner : public StreamOwner,
                    public Ticking,
                    public std::enable_shared_from_this<FaultyOwner> {
 public:
  FaultyOwner(std::shared_ptr<StreamOwner> owner, std::shared_ptr<Faults> faults)
      : faults_(std::move(faults)), owner_(std::move(owner)) {}

  NextFrame next_frame() override;
  void on_frame(const InFrame& frame) override;
  void on_end(const std::string& reason) override { owner_->on_end(reason); }
  TimePoint tick(TimePoint now) override;

  void set_stream(const std::shared_ptr<Stream>& stream) {
    const std::lock_guard lock(mutex_);
    stream_ = stream;
  }
  // Ends the connection if it is with this peer.
  bool cut_off_from(const std::string& peer);

 private:
  struct Held {
    NextFrame next;
    TimePoint due;
  };

  std::shared_ptr<Stream> stream() const {
    const std::lock_guard lock(mutex_);
    return stream_.lock();
  }
  void learn_peer(const FrameHead& head, bool is_ours);
  void end(const std::string& reason);
  bool is_silenced();
  std::optional<Fault> take_order(const FrameHead& head);
  void queue(NextFrame next);
  void apply(NextFrame next);
  void pull();

  const std::shared_ptr<Faults> faults_;
  const std::shared_ptr<StreamOwner> owner_;

  mutable std::mutex mutex_;  // guards what follows
  std::weak_ptr<Stream> stream_;
  std::string peer_;

  // Of the thread that pulls; the queue's first is also looked at by tick.
  std::optional<NextFrame> after_next_;
  std::mutex queue_mutex_;
  std::deque<Held> queue_;
};

Faults::Faults() : loop_([] { return std::chrono::steady_clock::now(); }) {}

void Faults::inject(Fault fault, const std::string& frame, std::size_t times) {
  const std::lock_guard lock(mutex_);
  auto& ordered = ordered_[frame];
  ordered.insert(ordered.end(), times, fault);
}

std::size_t Faults::count(Fault fault) const {
  const std::lock_guard lock(mutex_);
  const auto found = counts_.find(fault);
  return found == counts_.end() ? 0 : found->second;
}

void Faults::set_delay(Milliseconds delay) {
  const std::lock_guard lock(mutex_);
  delay_ = delay;
}

std::size_t Faults::delayed() const {
  const std::lock_guard lock(mutex_);
  return delayed_;
}

void Faults::partition(const std::string& peer) {
  std::vector<std::shared_ptr<FaultyOwner>> owners;
  {
    const std::lock_guard lock(mutex_);
    partitioned_.insert(peer);
    for (const auto& owner : owners_) {
      if (auto alive = owner.lock()) {
        owners.push_back(std::move(alive));
      }
    }
  }
  for (const auto& owner : owners) {
    if (owner->cut_off_from(peer)) {
      const std::lock_guard lock(mutex_);
      ++cut_off_;
    }
  }
}

void Faults::silence(const std::string& peer) {
  const std::lock_guard lock(mutex_);
  silenced_.insert(peer);
}

void Faults::heal(const std::string& peer) {
  const std::lock_guard lock(mutex_);
  partitioned_.erase(peer);
  silenced_.erase(peer);
}

std::size_t Faults::cut_off() const {
  const std::lock_guard lock(mutex_);
  return cut_off_;
}

bool FaultyOwner::cut_off_from(const std::string& peer) {
  {
    const std::lock_guard lock(mutex_);
    if (peer_ != peer) {
      return false;
    }
  }
  end("partitioned");
  return true;
}

void FaultyOwner::end(const std::string& reason) {
  if (const auto stream = this->stream()) {
    stream->abort(reason);
  }
}

void FaultyOwner::learn_peer(const FrameHead& head, bool is_ours) {
  const auto* hello = std::get_if<Hello>(&head);
  if (hello == nullptr) {
    return;
  }
  const std::string& peer = is_ours ? hello->to : hello->from;
  {
    const std::lock_guard lock(mutex_);
    peer_ = peer;
  }
  bool is_cut = false;
  {
    const std::lock_guard lock(faults_->mutex_);
    is_cut = faults_->partitioned_.contains(peer);
    faults_->cut_off_ += is_cut ? 1 : 0;
  }
  if (is_cut) {
    end("partitioned");
  }
}

bool FaultyOwner::is_silenced() {
  std::string peer;
  {
    const std::lock_guard lock(mutex_);
    peer = peer_;
  }
  const std::lock_guard lock(faults_->mutex_);
  const bool is_silenced = faults_->silenced_.contains(peer);
  faults_->cut_off_ += is_silenced ? 1 : 0;
  return is_silenced;
}

std::optional<Fault> FaultyOwner::take_order(const FrameHead& head) {
  const std::lock_guard lock(faults_->mutex_);
  const auto found = faults_->ordered_.find(std::string(name_of(head)));
  if (found == faults_->ordered_.end() || found->second.empty()) {
    return std::nullopt;
  }
  const Fault fault = found->second.front();
  found->second.erase(found->second.begin());
  ++faults_->counts_[fault];
  return fault;
}

void FaultyOwner::queue(NextFrame next) {
  Milliseconds delay{0};
  {
    const std::lock_guard lock(faults_->mutex_);
    delay = faults_->delay_;
    faults_->delayed_ += delay > delay.zero() ? 1 : 0;
  }
  {
    const std::lock_guard lock(queue_mutex_);
    queue_.push_back({.next = std::move(next), .due = std::chrono::steady_clock::now() + delay});
  }
  if (delay > delay.zero()) {
    faults_->loop_.wake();
  }
}

void FaultyOwner::apply(NextFrame next) {
  learn_peer(next.frame->head, true);
  if (is_silenced()) {
    return;
  }
  const auto fault = take_order(next.frame->head);
  if (fault == Fault::kDrop) {
    return;
  }
  if (fault == Fault::kBreak) {
    end("broken on order");
    return;
  }
  if (fault == Fault::kReorder) {
    after_next_ = std::move(next);
    return;
  }
  if (fault == Fault::kDuplicate) {
    queue(next);
  }
  queue(std::move(next));
  if (after_next_) {
    queue(std::move(*after_next_));
    after_next_.reset();
  }
}

void FaultyOwner::pull() {
  while (true) {
    NextFrame next = owner_->next_frame();
    if (!next.frame) {
      return;
    }
    apply(std::move(next));
    const std::lock_guard lock(queue_mutex_);
    if (!queue_.empty()) {
      return;
    }
  }
}

NextFrame FaultyOwner::next_frame() {
  {
    const std::lock_guard lock(queue_mutex_);
    if (!queue_.empty() && queue_.front().due > std::chrono::steady_clock::now()) {
      return {};
    }
  }
  pull();
  const std::lock_guard lock(queue_mutex_);
  if (queue_.empty() || queue_.front().due > std::chrono::steady_clock::now()) {
    return {};
  }
  NextFrame next = std::move(queue_.front().next);
  queue_.pop_front();
  return next;
}

TimePoint FaultyOwner::tick(TimePoint now) {
  {
    const std::lock_guard lock(queue_mutex_);
    if (queue_.empty()) {
      return TimePoint::max();
    }
    if (queue_.front().due > now) {
      return queue_.front().due;
    }
  }
  if (const auto stream = this->stream()) {
    stream->wake();
  }
  return TimePoint::max();
}

void FaultyOwner::on_frame(const InFrame& frame) {
  learn_peer(frame.head, false);
  if (!is_silenced()) {
    owner_->on_frame(frame);
  }
}

namespace {

class FaultyCarrier : public Carrier {
 public:
  FaultyCarrier(std::unique_ptr<Carrier> carrier, std::shared_ptr<Faults> faults,
                std::function<void(const std::shared_ptr<FaultyOwner>&)> keep)
      : carrier_(std::move(carrier)), faults_(std::move(faults)), keep_(std::move(keep)) {}

  void start(Accept accept) override {
    carrier_->start([this, accept = std::move(accept)](const std::shared_ptr<Stream>& stream) {
      const auto faulty = std::make_shared<FaultyOwner>(accept(stream), faults_);
      faulty->set_stream(stream);
      keep_(faulty);
      return faulty;
    });
  }
  std::shared_ptr<Stream> connect(const std::string& address,
                                  std::shared_ptr<StreamOwner> owner) override {
    const auto faulty = std::make_shared<FaultyOwner>(std::move(owner), faults_);
    const auto stream = carrier_->connect(address, faulty);
    faulty->set_stream(stream);
    keep_(faulty);
    return stream;
  }
  std::string address() const override { return carrier_->address(); }
  void stop() override { carrier_->stop(); }

 private:
  const std::unique_ptr<Carrier> carrier_;
  const std::shared_ptr<Faults> faults_;
  const std::function<void(const std::shared_ptr<FaultyOwner>&)> keep_;
};

}  // namespace
