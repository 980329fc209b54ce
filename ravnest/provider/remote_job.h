#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ravnest/control/client.h"
#include "ravnest/control/reached.h"
#include "ravnest/provider/requester.h"
#include "ravnest/relay/inward.h"
#include "ravnest/relay/outward.h"
#include "ravnest/transport/transport.h"

namespace ravnest::provider {

struct RemoteJobOptions {
  std::string server;  // "host:port"
  std::string token;   // of a requester; empty where this user has enrolled there before
  std::string host;    // where the roots reach this machine; empty: as the server sees it
  std::string listen;  // a host; empty: at all addresses
  std::filesystem::path identity;  // where it is kept; empty: where this user's identities are
  // The server is of this process, and its providers of this machine: their data is not encrypted.
  bool is_local = false;
  // A cluster may go back to a restore point, and be fed what comes after it again. Without that,
  // one that begins anew is an error for its requester.
  bool keeps_learned = true;
  // How a training pass of a cluster came out, once each; on the transport's threads.
  std::function<void(std::int64_t cluster, const PassHeader&, const PassResult&)> on_result;
};

// A job on a server's providers, as its requester sees it: where it stands, and a Requester for
// each cluster that trains. Clusters come and go while it runs; a cluster whose root is replaced
// keeps its Requester. Any thread.
class RemoteJob {
 public:
  // Connects. Throws std::invalid_argument, and Error where the server is not there.
  explicit RemoteJob(RemoteJobOptions options);
  ~RemoteJob();
  RemoteJob(const RemoteJob&) = delete;
  RemoteJob& operator=(const RemoteJob&) = delete;

  // Sends the Program and asks for the job; or comes back to one of before. Where it throws an
  // Error, the job may be there or not: once more with the same key gives the same job.
  std::int64_t submit(const std::filesystem::path& program, const std::string& name,
                      const std::string& key, const coordinator::JobOptions& options);
  void attach(std::int64_t job);

  // How the job stands; nothing before the server has said it. Throws what the server refused.
  std::optional<coordinator::Standing> standing();
  // Until it stands otherwise than `seen` times before; gives how often it has changed.
  std::int64_t wait_for_change(std::int64_t seen, transport::Milliseconds timeout);
  // The clusters that train, or will again, with their Requesters.
  std::map<std::int64_t, std::shared_ptr<Requester>> feeds();
  // Until one of them got on otherwise than `seen` times before, so that it may have room; gives
  // how often they have.
  std::int64_t wait_for_progress(std::int64_t seen, transport::Milliseconds timeout);

  // All passes were submitted: for every cluster that there is, or will be.
  void end_training();

  // Of any job of this requester, those of before too. The view is JSON: coordinator::job_view.
  std::string view(std::int64_t job) const;
  void cancel(std::int64_t job) const;
  // What was trained, as control::fetch_results does.
  std::size_t fetch(std::int64_t job, const std::filesystem::path& node_data) const;
  void close();

 private:
  using Clusters = std::map<std::int64_t, std::int64_t>;  // with the first pass of each

  void connect();
  void on_word(const std::string& text);
  void on_standing(const coordinator::Standing& standing);
  coordinator::Reach reach();
  void listen();
  transport::Members members_of(const coordinator::Standing& standing) const;
  void admit(transport::Members members);
  void set_root(const coordinator::Root& root, std::int64_t first);
  std::shared_ptr<Requester> find_feed(std::int64_t cluster);
  void note_restore(const coordinator::Standing& standing, const Requester* owner);
  void adopt_orphan(std::int64_t cluster, const Clusters& clusters);
  void part_with_orphans(const Clusters& clusters);

  // Told by Requesters, which may outlive this.
  struct Progress {
    std::mutex mutex;
    std::condition_variable changed;
    std::int64_t count = 0;
  };

  const RemoteJobOptions options_;
  const std::shared_ptr<Progress> progress_ = std::make_shared<Progress>();
  const trust::Identity identity_;
  const std::unique_ptr<control::Client> client_;
  relay::Outward outward_;
  relay::Inward inward_;
  std::int64_t job_ = 0;
  int port_ = 0;
  std::shared_ptr<transport::Transport> transport_;
  transport::Members members_;  // as they were told last; of the stream's thread

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::unique_ptr<control::ReachTest> reach_test_;  // until the server has looked
  bool is_reached_ = false;
  std::optional<coordinator::Standing> standing_;
  std::int64_t changes_ = 0;
  std::exception_ptr error_;
  bool is_lost_ = false;  // the stream; it is made again
  bool is_closed_ = false;
  bool is_trained_ = false;  // nothing more will be submitted
  struct Fed {
    coordinator::Epoch epoch = 0;
    std::string address;
    std::int64_t restored = 0;  // the restore point that it has heard of
    std::shared_ptr<Requester> requester;
  };
  std::map<std::int64_t, Fed> fed_;
  std::thread keeping_;  // says that we are here, and connects again
};

}  // namespace ravnest::provider
