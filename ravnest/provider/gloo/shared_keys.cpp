#include "ravnest/provider/gloo/shared_keys.h"

#include <algorithm>
#include <span>
#include <utility>

#include "ravnest/base/error.h"
#include "ravnest/reduce/links.h"

namespace ravnest::provider {

namespace {

using reduce::Commit;

// More than any group sets: an address for every pair of members and connection.
constexpr std::size_t kMostKeys = 4096;
constexpr std::size_t kLongestValue = std::size_t{64} << 10;

Commit group_of(const transport::Message& message) {
  return {.epoch = message.epoch, .round = message.pass};
}

std::vector<std::uint8_t> value_of(const transport::Message& message) {
  if (message.kind != transport::MessageKind::kReduce || message.tensors.size() != 1 ||
      message.tensors[0].dtype != graph::DType::kUInt8 ||
      message.tensors[0].bytes.size() > kLongestValue) {
    throw_invalid("[provider] expected a key and its value, got another message.");
  }
  const auto bytes = message.tensors[0].bytes.view();
  std::vector<std::uint8_t> value(bytes.size());
  std::ranges::transform(bytes, value.begin(),
                         [](std::byte b) { return std::to_integer<std::uint8_t>(b); });
  return value;
}

}  // namespace

// What c10d knows of it.
class SharedKeys::KeyStore : public c10d::Store {
 public:
  KeyStore(SharedKeys& keys, const Commit& group, std::chrono::milliseconds timeout)
      : Store(timeout), keys_(keys), group_(group) {}

  c10::intrusive_ptr<Store> clone() override {
    return c10::make_intrusive<KeyStore>(keys_, group_, timeout_);
  }
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override {
    keys_.put(group_, key, value);
    keys_.tell(group_, key, value);
  }
  std::vector<std::uint8_t> get(const std::string& key) override {
    wait({key}, timeout_);
    const std::lock_guard lock(keys_.mutex_);
    return keys_.groups_[group_][key];
  }
  bool check(const std::vector<std::string>& keys) override {
    const std::lock_guard lock(keys_.mutex_);
    return keys_.has(group_, keys);
  }
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override {
    std::unique_lock lock(keys_.mutex_);
    const auto is_over = [this] { return keys_.is_stopped_ || keys_.current_ != group_; };
    const bool is_done =
        keys_.changed_.wait_until(lock, transport::deadline_in(std::min(timeout, timeout_)),
                                  [&] { return is_over() || keys_.has(group_, keys); });
    if (!is_done || is_over()) {
      throw Error(ErrorKind::kTimeout, "[provider] the members of a ring did not meet in time.");
    }
  }
  std::int64_t add(const std::string&, std::int64_t) override { refuse(); }
  bool deleteKey(const std::string&) override { refuse(); }
  std::int64_t getNumKeys() override { refuse(); }

 private:
  [[noreturn]] static void refuse() {
    throw std::logic_error("[provider] keys are set once, by one member each.");
  }

  SharedKeys& keys_;
  const Commit group_;
};

SharedKeys::SharedKeys(const reduce::RingOptions& options, transport::Transport& transport)
    : options_(options),
      transport_(transport),
      channel_(concat("reduce.", options.ring, ".keys")),
      // Who does not hear of a key runs out of time, and says so.
      courier_(options, transport, channel_, [](std::size_t, std::int64_t, const std::string&) {}) {
  for (std::size_t rank = 0; rank < options.members.size(); ++rank) {
    if (rank != options.rank) {
      open(rank);
    }
  }
}

SharedKeys::~SharedKeys() { sources_.clear(); }

void SharedKeys::open(std::size_t rank) {
  courier_.open(rank);
  auto& source = sources_[rank];
  if (source && !reduce::is_over(source->state().phase)) {
    return;
  }
  source.reset();
  source = transport_.receive(options_.members[rank], channel_,
                              {.on_message = [this](const transport::Delivery& delivery) {
                                on_message(delivery.message);
                              }});
}

void SharedKeys::on_message(const transport::Message& message) {
  put(group_of(message), message.metadata, value_of(message));
}

void SharedKeys::put(const Commit& group, const std::string& key, std::vector<std::uint8_t> value) {
  {
    const std::lock_guard lock(mutex_);
    if (group < current_) {
      return;
    }
    Values& values = groups_[group];
    std::size_t count = 0;
    for (const auto& [_, each] : groups_) {
      count += each.size() + 1;
    }
    if (count > kMostKeys) {
      throw_invalid("[provider] expected ", kMostKeys, " keys at most, got more.");
    }
    values.insert_or_assign(key, std::move(value));
  }
  changed_.notify_all();
}

void SharedKeys::tell(const Commit& group, const std::string& key,
                      const std::vector<std::uint8_t>& value) {
  const transport::Message message{
      .kind = transport::MessageKind::kReduce,
      .pass = group.round,
      .epoch = group.epoch,
      .metadata = key,
      .tensors = {{.dtype = graph::DType::kUInt8,
                   .shape = {static_cast<std::int64_t>(value.size())},
                   .bytes = Bytes::copy_of(std::as_bytes(std::span(value)))}}};
  std::vector<std::size_t> ranks;
  {
    const std::lock_guard lock(mutex_);
    if (group == current_) {
      ranks = participants_;
    }
  }
  for (const std::size_t rank : ranks) {
    if (rank != options_.rank) {
      courier_.send(rank, message);
    }
  }
}

bool SharedKeys::has(const Commit& group, const std::vector<std::string>& keys) const {
  const auto found = groups_.find(group);
  return found != groups_.end() && std::ranges::all_of(keys, [&](const std::string& key) {
           return found->second.contains(key);
         });
}

void SharedKeys::begin(const Commit& group, std::vector<std::size_t> participants) {
  courier_.clear();
  for (const std::size_t rank : participants) {
    if (rank != options_.rank) {
      open(rank);
    }
  }
  {
    const std::lock_guard lock(mutex_);
    current_ = group;
    participants_ = std::move(participants);
    groups_.erase(groups_.begin(), groups_.lower_bound(group));
  }
  changed_.notify_all();
}

void SharedKeys::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  changed_.notify_all();
}

c10::intrusive_ptr<c10d::Store> SharedKeys::store(const Commit& group,
                                                  std::chrono::milliseconds timeout) {
  return c10::make_intrusive<KeyStore>(*this, group, timeout);
}

}  // namespace ravnest::provider
