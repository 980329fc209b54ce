#include "ravnest/provider/remote_job.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "ravnest/base/address.h"
#include "ravnest/base/error.h"
#include "ravnest/base/version.h"
#include "ravnest/control/identities.h"
#include "ravnest/control/reached.h"
#include "ravnest/control/results.h"
#include "ravnest/coordinator/words.h"

namespace ravnest::provider {

using coordinator::Standing;

namespace {

constexpr std::chrono::seconds kBeat{1};
constexpr std::chrono::milliseconds kBackoff{500};

}  // namespace

RemoteJob::RemoteJob(RemoteJobOptions options)
    : options_(std::move(options)),
      identity_(control::find_requester(options_.server, options_.token, options_.identity)),
      client_(std::make_unique<control::Client>(options_.server, identity_)),
      outward_([this](const std::string& member, relay::PipeEvents events) {
        return client_->call(member, std::move(events));
      }) {
  client_->ask(coordinator::WantsTime{});  // it is there, and knows us
}

RemoteJob::~RemoteJob() { close(); }

void RemoteJob::close() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  changed_.notify_all();
  if (keeping_.joinable()) {
    keeping_.join();
  }
  fed_.clear();
  transport_.reset();
}

std::int64_t RemoteJob::submit(const std::filesystem::path& program, const std::string& name,
                               const std::string& key, const coordinator::JobOptions& options) {
  const auto hash = client_->upload(program);
  const std::string answer = client_->ask(
      coordinator::WantsJob{.name = name, .program = hash, .options = options, .key = key});
  const std::int64_t job = nlohmann::json::parse(answer).at("job").get<std::int64_t>();
  attach(job);
  return job;
}

void RemoteJob::attach(std::int64_t job) {
  job_ = job;
  reach_test_ = std::make_unique<control::ReachTest>(0);
  port_ = reach_test_->port();
  keeping_ = std::thread([this] { connect(); });
}

// On a thread of its own: the stream to the server, made again whenever it is lost.
void RemoteJob::connect() {
  std::unique_lock lock(mutex_);
  while (!is_closed_ && !error_) {
    is_lost_ = false;
    lock.unlock();
    std::unique_ptr<control::Stream> stream =
        client_->feed({.on_word = [this](std::string text) { on_word(text); },
                       .on_end =
                           [this](std::exception_ptr error) {
                             const std::lock_guard inner(mutex_);
                             is_lost_ = true;
                             try {
                               if (error) {
                                 std::rethrow_exception(error);
                               }
                             } catch (const std::invalid_argument&) {
                               error_ = error;
                             } catch (const std::exception&) {  // it is tried again
                             }
                             ++changes_;
                             changed_.notify_all();
                           }});
    stream->say(to_text(coordinator::RequesterWord(
        coordinator::Offer{.program = version(), .job = job_, .reach = reach()})));
    lock.lock();
    while (!changed_.wait_for(lock, kBeat, [this] { return is_closed_ || is_lost_; })) {
      stream->say(to_text(coordinator::RequesterWord(coordinator::StillHere{})));
    }
    lock.unlock();
    stream.reset();
    lock.lock();
    const bool is_done = standing_ && coordinator::is_over(standing_->phase);
    if (is_done) {
      return;
    }
    changed_.wait_for(lock, kBackoff, [this] { return is_closed_; });
  }
}

coordinator::Reach RemoteJob::reach() {
  const std::lock_guard lock(mutex_);
  return reach_test_
             ? reach_test_->reach(options_.host)
             : coordinator::Reach{.host = options_.host, .port = port_, .was_reached = is_reached_};
}

// The server has looked whether we can be reached: the port is the transport's from here on.
void RemoteJob::listen() {
  {
    const std::lock_guard lock(mutex_);
    if (!reach_test_) {
      return;
    }
    reach_test_.reset();
  }
  RequesterOptions options;
  options.name = coordinator::kRequesterName;
  const std::string all = options_.listen.empty() ? every_host() : options_.listen;
  options.listen = concat(options_.is_local ? "127.0.0.1" : all, ":", port_);
  options.plan = concat("job-", job_);
  options.return_within = transport::kForEver;
  if (!options_.is_local) {
    options.identity = identity_;
  }
  options.members = members_of({});
  transport_ = make_transport(options);
}

void RemoteJob::on_word(const std::string& text) {
  if (const std::lock_guard lock(mutex_); error_) {
    return;
  }
  try {
    const auto word = coordinator::read_feed_word(text);
    if (const auto* standing = std::get_if<Standing>(&word)) {
      listen();
      on_standing(*standing);
    } else if (const auto* called = std::get_if<coordinator::Called>(&word)) {
      inward_.accept(static_cast<std::uint16_t>(port_),
                     [this, call = called->call](relay::PipeEvents events) {
                       return client_->answer(call, std::move(events));
                     });
    }
  } catch (const std::exception&) {
    const std::lock_guard lock(mutex_);
    error_ = std::current_exception();
    changed_.notify_all();
  }
}

transport::Members RemoteJob::members_of(const Standing& standing) const {
  transport::Members members;
  if (options_.is_local) {  // nobody proves who they are
    return members;
  }
  members[coordinator::kRequesterName] = identity_.certificate.member().id;
  for (const coordinator::Root& root : standing.roots) {
    members[concat("node_", coordinator::node_id_of(root.epoch, 0))] = root.provider.provider;
  }
  return members;
}

void RemoteJob::admit(transport::Members members) {
  if (!options_.is_local) {
    transport_->set_members(std::move(members));
  }
}

void RemoteJob::on_standing(const Standing& standing) {
  // Nobody is cut off while a Requester still speaks with it.
  transport::Members members = members_of(standing);
  transport::Members both = members;
  both.insert(members_.begin(), members_.end());
  admit(std::move(both));
  const auto owner = find_feed(standing.restored_cluster);  // which may bear another number soon
  for (const coordinator::Root& root : standing.roots) {
    // A server that was started again knows no address before the root is back: it is as it was.
    if (root.provider.is_relayed || !root.provider.address.empty()) {
      adopt_orphan(root.cluster, standing.clusters);
      set_root(root, standing.clusters.at(root.cluster));
    }
  }
  admit(members);
  members_ = std::move(members);
  part_with_orphans(standing.clusters);
  note_restore(standing, owner.get());
  const std::lock_guard lock(mutex_);
  is_reached_ = standing.is_reached;
  standing_ = standing;
  ++changes_;
  changed_.notify_all();
}

std::shared_ptr<Requester> RemoteJob::find_feed(std::int64_t cluster) {
  const std::lock_guard lock(mutex_);
  const auto found = fed_.find(cluster);
  return found == fed_.end() ? nullptr : found->second.requester;
}

void RemoteJob::note_restore(const Standing& standing, const Requester* owner) {
  const std::lock_guard lock(mutex_);
  for (auto& [cluster, fed] : fed_) {
    if (std::exchange(fed.restored, standing.restored) != standing.restored) {
      fed.requester->note_restore(
          standing.restored, cluster == standing.restored_cluster || fed.requester.get() == owner);
    }
  }
}

// A plan that was made anew has clusters of other names: one of them goes on for one that is gone.
void RemoteJob::adopt_orphan(std::int64_t cluster, const Clusters& clusters) {
  const std::lock_guard lock(mutex_);
  if (fed_.contains(cluster)) {
    return;
  }
  const auto orphan = std::ranges::find_if(
      fed_, [&](const auto& entry) { return !clusters.contains(entry.first); });
  if (orphan != fed_.end()) {
    auto node = fed_.extract(orphan);
    node.key() = cluster;
    fed_.insert(std::move(node));
  }
}

// What a cluster that is gone has not learned from is done by another.
void RemoteJob::part_with_orphans(const Clusters& clusters) {
  const std::lock_guard lock(mutex_);
  const auto heir =
      std::ranges::find_if(fed_, [&](const auto& entry) { return clusters.contains(entry.first); });
  if (heir == fed_.end()) {
    return;
  }
  std::erase_if(fed_, [&](auto& entry) {
    if (clusters.contains(entry.first)) {
      return false;
    }
    if (entry.second.requester->hand_over(heir->second.requester) && is_trained_) {
      heir->second.requester->end_training();
    }
    return true;
  });
}

void RemoteJob::set_root(const coordinator::Root& root, std::int64_t first) {
  const transport::Peer peer{
      .name = concat("node_", coordinator::node_id_of(root.epoch, 0)),
      .address = root.provider.is_relayed
                     ? outward_.address_for(root.provider.provider)
                     : control::seen_from(client_->server(), root.provider.address),
      .member = root.provider.provider};
  std::unique_lock lock(mutex_);
  Fed& fed = fed_[root.cluster];
  const bool is_new = fed.requester == nullptr;
  const bool is_next = fed.epoch != root.epoch;
  const bool has_moved = is_next || fed.address != peer.address;
  fed.epoch = root.epoch;
  fed.address = peer.address;
  if (is_new) {
    RequesterOptions options;
    options.transport = transport_;
    options.root = peer;
    options.keeps_learned = options_.keeps_learned;
    options.start_with_root = first;
    if (options_.on_result) {  // a Requester may outlive this job
      options.on_result = [tell = options_.on_result, cluster = root.cluster](
                              const PassHeader& header, const PassResult& result) {
        tell(cluster, header, result);
      };
    }
    options.on_progress = [progress = progress_] {
      const std::lock_guard telling(progress->mutex);
      ++progress->count;
      progress->changed.notify_all();
    };
    fed.requester = std::make_shared<Requester>(std::move(options));
    if (is_trained_) {
      fed.requester->end_training();
    }
  } else if (has_moved) {
    const auto requester = fed.requester;
    lock.unlock();
    requester->set_root(peer, {}, is_next && root.is_restored);
  }
}

std::optional<Standing> RemoteJob::standing() {
  const std::lock_guard lock(mutex_);
  if (error_) {
    std::rethrow_exception(error_);
  }
  return standing_;
}

std::int64_t RemoteJob::wait_for_change(std::int64_t seen, transport::Milliseconds timeout) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, transport::deadline_in(timeout),
                      [&] { return changes_ != seen || error_; });
  return changes_;
}

std::map<std::int64_t, std::shared_ptr<Requester>> RemoteJob::feeds() {
  const std::lock_guard lock(mutex_);
  std::map<std::int64_t, std::shared_ptr<Requester>> result;
  for (const auto& [cluster, fed] : fed_) {
    result.emplace(cluster, fed.requester);
  }
  return result;
}

std::int64_t RemoteJob::wait_for_progress(std::int64_t seen, transport::Milliseconds timeout) {
  std::unique_lock lock(progress_->mutex);
  progress_->changed.wait_until(lock, transport::deadline_in(timeout),
                                [&] { return progress_->count != seen; });
  return progress_->count;
}

void RemoteJob::end_training() {
  const std::lock_guard lock(mutex_);
  is_trained_ = true;
  for (const auto& [cluster, fed] : fed_) {
    fed.requester->end_training();
  }
}

std::string RemoteJob::view(std::int64_t job) const {
  return client_->ask(coordinator::WantsJobView{.job = job});
}

void RemoteJob::cancel(std::int64_t job) const {
  client_->ask(coordinator::WantsCancel{.job = job});
}

std::size_t RemoteJob::fetch(std::int64_t job, const std::filesystem::path& node_data) const {
  return control::fetch_results(*client_, job, node_data);
}

}  // namespace ravnest::provider
