#include "tests/transport/faulty.h"

#include <deque>
#include <thread>
#include <utility>

namespace ravnest::transport {

// Stands between a stream and its owner.
class FaultyOwner : public StreamOwner {
 public:
  FaultyOwner(std::shared_ptr<StreamOwner> owner, std::shared_ptr<Faults> faults)
      : faults_(std::move(faults)), owner_(std::move(owner)) {}

  NextFrame next_frame() override;
  void on_frame(const InFrame& frame) override;
  void on_end(const std::string& reason) override { owner_->on_end(reason); }

  void set_stream(const std::shared_ptr<Stream>& stream) {
    const std::lock_guard lock(mutex_);
    stream_ = stream;
  }
  std::string peer() const {
    const std::lock_guard lock(mutex_);
    return peer_;
  }
  void end(const std::string& reason);

 private:
  void learn_peer(const FrameHead& head, bool is_ours);
  void apply(std::optional<Fault> fault, NextFrame next);

  const std::shared_ptr<Faults> faults_;
  const std::shared_ptr<StreamOwner> owner_;

  // Owned by the thread that pulls.
  std::deque<NextFrame> queue_;
  std::optional<NextFrame> after_next_;

  mutable std::mutex mutex_;  // guards what follows
  std::weak_ptr<Stream> stream_;
  std::string peer_;
};

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
    if (is_partitioned(owner->peer())) {
      owner->end("partitioned");
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

std::optional<Fault> Faults::take_order(const FrameHead& head) {
  const std::lock_guard lock(mutex_);
  const auto found = ordered_.find(std::string(name_of(head)));
  if (found == ordered_.end() || found->second.empty()) {
    return std::nullopt;
  }
  const Fault fault = found->second.front();
  found->second.erase(found->second.begin());
  ++counts_[fault];
  return fault;
}

bool Faults::is_partitioned(const std::string& peer) {
  const std::lock_guard lock(mutex_);
  const bool is_cut = partitioned_.contains(peer);
  cut_off_ += is_cut ? 1 : 0;
  return is_cut;
}

bool Faults::is_silenced(const std::string& peer) {
  const std::lock_guard lock(mutex_);
  const bool is_cut = silenced_.contains(peer);
  cut_off_ += is_cut ? 1 : 0;
  return is_cut;
}

void Faults::keep(const std::shared_ptr<FaultyOwner>& owner) {
  const std::lock_guard lock(mutex_);
  std::erase_if(owners_, [](const auto& old) { return old.expired(); });
  owners_.push_back(owner);
}

void FaultyOwner::end(const std::string& reason) {
  std::shared_ptr<Stream> stream;
  {
    const std::lock_guard lock(mutex_);
    stream = stream_.lock();
  }
  if (stream) {
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
  if (faults_->is_partitioned(peer)) {
    end("partitioned");
  }
}

void FaultyOwner::apply(std::optional<Fault> fault, NextFrame next) {
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
  if (fault == Fault::kDelay) {
    std::this_thread::sleep_for(faults_->delay_);
  }
  if (fault == Fault::kDuplicate) {
    queue_.push_back(next);
  }
  queue_.push_back(std::move(next));
  if (after_next_) {
    queue_.push_back(std::move(*after_next_));
    after_next_.reset();
  }
}

NextFrame FaultyOwner::next_frame() {
  while (queue_.empty()) {
    NextFrame next = owner_->next_frame();
    if (!next.frame) {
      return next;
    }
    learn_peer(next.frame->head, true);
    if (!faults_->is_silenced(peer())) {
      const auto fault = faults_->take_order(next.frame->head);
      apply(fault, std::move(next));
    }
  }
  NextFrame next = std::move(queue_.front());
  queue_.pop_front();
  return next;
}

void FaultyOwner::on_frame(const InFrame& frame) {
  learn_peer(frame.head, false);
  if (!faults_->is_silenced(peer())) {
    owner_->on_frame(frame);
  }
}

class FaultyCarrier : public Carrier {
 public:
  FaultyCarrier(std::unique_ptr<Carrier> carrier, std::shared_ptr<Faults> faults)
      : carrier_(std::move(carrier)), faults_(std::move(faults)) {}

  void start(Accept accept) override {
    carrier_->start([this, accept = std::move(accept)](const std::shared_ptr<Stream>& stream) {
      const auto faulty = std::make_shared<FaultyOwner>(accept(stream), faults_);
      faulty->set_stream(stream);
      faults_->keep(faulty);
      return faulty;
    });
  }
  bool proves_members() const override { return carrier_->proves_members(); }
  void check(const Peer& peer) const override { carrier_->check(peer); }
  std::shared_ptr<Stream> connect(const Peer& peer, std::shared_ptr<StreamOwner> owner) override {
    const auto faulty = std::make_shared<FaultyOwner>(std::move(owner), faults_);
    auto stream = carrier_->connect(peer, faulty);
    faulty->set_stream(stream);
    faults_->keep(faulty);
    return stream;
  }
  std::string address() const override { return carrier_->address(); }
  void stop() override { carrier_->stop(); }

 private:
  const std::unique_ptr<Carrier> carrier_;
  const std::shared_ptr<Faults> faults_;
};

std::unique_ptr<Carrier> make_faulty_carrier(std::unique_ptr<Carrier> carrier,
                                             std::shared_ptr<Faults> faults) {
  return std::make_unique<FaultyCarrier>(std::move(carrier), std::move(faults));
}

}  // namespace ravnest::transport
