#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ravnest/agent/cache.h"
#include "ravnest/agent/child.h"
#include "ravnest/agent/lineup.h"
#include "ravnest/agent/workplace.h"
#include "ravnest/control/client.h"
#include "ravnest/coordinator/words.h"

namespace ravnest::agent {

struct KeeperOptions {
  std::filesystem::path data;        // work/, cache/, identity.pem
  std::vector<std::string> program;  // that holds a stage: `ravnest provider`
  std::int64_t threads = 1;
  bool shares_cores = true;      // with other providers of the job on this machine
  std::int64_t most_memory = 0;  // bytes that the stage's process may take; 0: no limit
  bool is_local = false;         // see AgentOptions
  Resolve resolve;
  std::chrono::milliseconds silence{4000};  // of that process: it hangs
  std::int64_t cache_bytes = 20'000'000'000;
};

// What the keeper asks of the loop that owns it.
struct KeeperHooks {
  std::function<void(const coordinator::ProviderWord&)> say;  // to the server
  std::function<void(std::function<void()>)> post;            // to the loop's thread, from any
  // Beside the loop, one after the other: what takes long.
  std::function<void(std::function<void()>)> post_slow;
  std::function<void(const std::string&)> tell;  // a sentence for people
};

// Holds one place at a time: fetches its files, runs a child process for its stage, and sends on
// what comes of it. On the loop's thread alone.
class Keeper {
 public:
  Keeper(KeeperOptions options, std::shared_ptr<const control::Client> client, KeeperHooks hooks);
  ~Keeper();

  // What the server says.
  void hold(coordinator::Assignment assignment, const std::string& self);
  void keep(const coordinator::Post& post);
  void send(const coordinator::Post& post, std::int64_t version);
  void drop(coordinator::JobId job);
  // Files on their way are not waited for any more: its owner ends.
  void give_up_files();
  // Without being told.
  void keep_checkpoint();
  // Again and again: a child that hangs is found.
  void tick();

  coordinator::Epoch holds() const;  // 0: no stage
  bool is_idle() const { return stage_ == nullptr; }
  std::string describe() const;  // what it does, for people: a line

 private:
  struct Stage;

  void prepare(std::shared_ptr<Stage> stage);
  void begin(const std::shared_ptr<Stage>& stage, Workplace place);
  void stop(bool keeps);
  void on_line(const std::shared_ptr<Stage>& stage, const std::string& line);
  void on_end(const std::shared_ptr<Stage>& stage, ChildEnd end);
  void check_child();
  void tell_report();
  void add_checkpoint(std::int64_t version, const std::filesystem::path& file);
  void drop_checkpoint(std::int64_t version);
  void tell_checkpoints();
  void send_result(const std::shared_ptr<Stage>& stage);
  void send_file(const std::shared_ptr<Stage>& stage, const std::filesystem::path& file,
                 std::function<void(const std::optional<coordinator::Hash>&)> then);
  void send_next(const std::shared_ptr<Stage>& stage);
  control::TransferOptions transfer(const Stage& stage, const std::string& what) const;
  void fail(const std::shared_ptr<Stage>& stage, coordinator::HasFailed word);  // `post` is ours
  static coordinator::MemberId member_of(const Stage& stage, const std::string& name);
  std::vector<std::string> command(const Stage& stage, const Workplace& place) const;

  const KeeperOptions options_;
  const std::shared_ptr<const control::Client> client_;
  const KeeperHooks hooks_;
  Cache cache_;
  std::shared_ptr<Stage> stage_;
  std::int64_t places_ = 0;  // that were held: each has a folder of its own
};

}  // namespace ravnest::agent
