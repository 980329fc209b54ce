#include "ravnest/agent/keeper.h"

#include <algorithm>
#include <csignal>
#include <deque>
#include <map>
#include <stop_token>
#include <utility>

#include "ravnest/agent/child_line.h"
#include "ravnest/agent/process.h"
#include "ravnest/agent/training_flags.h"
#include "ravnest/base/address.h"
#include "ravnest/base/error.h"
#include "ravnest/base/table.h"
#include "ravnest/package/trained.h"

namespace ravnest::agent {

namespace fs = std::filesystem;
using namespace coordinator;  // its words are what is spoken here
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::chrono::seconds kKeepTime{10};  // to write a checkpoint and end
// Of a process's memory: sub-model, checkpoints that were not sent yet, results.
constexpr std::int64_t kDiskFactor = 8;
constexpr std::chrono::seconds kLook{5};  // between two looks at the disk
// The child runs a stranger's model: what it says must not fill our memory.
constexpr std::int64_t kLinesPerTick = 64;

// What the wiring of a child depends on: where another is wanted, another child is.
struct Wiring {
  Epoch epoch = 0;
  std::vector<ClusterLineup> clusters;
  std::optional<coordinator::Feed> feed;

  bool operator==(const Wiring&) const = default;
};

Wiring wiring_of(const Assignment& assignment) {
  return {assignment.epoch, assignment.clusters, assignment.feed};
}

bool is_same_place(const Assignment& a, const Assignment& b) {
  return a.seat == b.seat && a.stage.sub_model == b.stage.sub_model;
}

// Wherever peers come from: the address that they know may be that of a router before us. What is
// not encrypted is for this machine alone.
std::string listen_address(const std::string& self, bool is_local) {
  const Address address = parse_address(self);
  if (is_local) {
    return self;
  }
  return concat(every_host(), ":", address.port);
}

std::string place_of(const Assignment& assignment) {
  return concat("stage ", assignment.seat.stage + 1, " of ",
                assignment.clusters[rank_of(assignment)].stages.size(), ", job ",
                assignment.seat.job);
}

}  // namespace

struct Keeper::Stage {
  Assignment assignment;
  std::string self;
  std::optional<Workplace> place;
  std::optional<fs::path> kept;  // what it goes on from
  std::unique_ptr<Child> child;
  bool is_ready = false;
  bool is_saved = false;    // it has nothing more to say
  std::int64_t effort = 0;  // until it is ready; see Child
  std::optional<std::int64_t> oom_kills;
  bool is_ending = false;  // its end is ours
  Clock::time_point heard;
  Clock::time_point look_at;
  std::string line = "prepares";
  std::optional<Report> report;  // the newest, until it is told
  struct Unsent {
    fs::path file;
    std::function<void(const std::optional<Hash>&)> then;  // nothing: it cannot be sent
  };
  std::deque<Unsent> unsent;                     // files, one after the other
  std::map<std::int64_t, fs::path> checkpoints;  // by version: the server may ask for one
  std::int64_t asked = -1;                       // that it has asked for; -1: none
  bool is_sending = false;
  std::stop_source given_up;  // once nobody wants what is on its way of its files

  Post post() const { return {assignment.seat, assignment.epoch}; }
};

Keeper::Keeper(KeeperOptions options, std::shared_ptr<const control::Client> client,
               KeeperHooks hooks)
    : options_(std::move(options)),
      client_(std::move(client)),
      hooks_(std::move(hooks)),
      cache_(options_.data / "cache", options_.cache_bytes) {
  fs::remove_all(options_.data / "work");
  fs::create_directories(options_.data / "work");
}

Keeper::~Keeper() { stop(false); }

Epoch Keeper::holds() const { return stage_ && stage_->is_ready ? stage_->assignment.epoch : 0; }

std::string Keeper::describe() const {
  return stage_ ? concat(place_of(stage_->assignment), ": ", stage_->line) : "waits for work";
}

void Keeper::hold(Assignment assignment, const std::string& self) {
  const bool has_peers = fill_gaps(assignment, stage_ ? &stage_->assignment : nullptr);
  const bool is_root_unfed = assignment.seat.stage == 0 && !assignment.feed;
  if (stage_ && stage_->self == self &&
      (wiring_of(stage_->assignment) == wiring_of(assignment) || is_root_unfed) &&
      is_same_place(stage_->assignment, assignment) &&
      stage_->assignment.epoch == assignment.epoch) {
    stage_->assignment.is_running = assignment.is_running;
    if (stage_->is_ready) {
      hooks_.say(IsReady{stage_->post()});  // it may have been said before the server was lost
      tell_checkpoints();
    }
    if (stage_->is_saved) {
      send_result(stage_);  // the server may have lost it since
    }
    return;
  }
  auto stage = std::make_shared<Stage>();
  stage->assignment = assignment;
  stage->self = self;
  stage->heard = Clock::now();
  // The same place in another epoch, or with other peers: it goes on with what it has.
  const bool goes_on =
      stage_ && is_same_place(stage_->assignment, assignment) &&
      (assignment.origin == Origin::kKept || stage_->assignment.epoch == assignment.epoch);
  stop(goes_on);
  if (goes_on && stage_->place && fs::exists(stage_->place->checkpoint())) {
    stage->assignment.origin = Origin::kKept;
    stage->kept = stage_->place->checkpoint();
  } else if (goes_on) {  // it had not begun: as it was to begin
    stage->assignment.origin = stage_->assignment.origin;
    stage->assignment.restore = stage_->assignment.restore;
    stage->kept = stage_->kept;
  } else {
    hooks_.tell(
        concat("holds ", place_of(assignment), "; weights: ", to_string(assignment.origin)));
  }
  stage_ = stage;
  if (is_root_unfed || !has_peers) {
    stage->line = is_root_unfed ? "waits for the requester's data" : "waits for its peers";
    return;
  }
  prepare(stage);
}

void Keeper::prepare(std::shared_ptr<Stage> stage) {
  const fs::path folder = options_.data / "work" / concat("place-", ++places_);
  hooks_.post_slow([this, stage = std::move(stage), folder] {
    std::string error;
    std::optional<Workplace> place;
    try {
      place = make_workplace(stage->assignment, *client_, cache_, stage->kept,
                             {.folder = fs::absolute(folder),
                              .self = stage->self,
                              .resolve = options_.resolve,
                              .transfer = transfer(*stage, "fetch its files")});
    } catch (const std::exception& failed) {
      error = failed.what();
    }
    hooks_.post([this, stage, place = std::move(place), error] {
      if (stage->given_up.stop_requested()) {
        return;
      }
      if (!place) {
        fail(stage, {.post = {}, .reason = error});
        return;
      }
      begin(stage, *place);
    });
  });
}

std::vector<std::string> Keeper::command(const Stage& stage, const Workplace& place) const {
  std::vector<std::string> words = options_.program;
  const auto add = [&](std::initializer_list<std::string> more) {
    words.insert(words.end(), more);
  };
  add({"--agent", "--save", "--listen", listen_address(stage.self, options_.is_local), "--name",
       place.node_name(), "--node-data", place.folder.string(), "--checkpoints",
       (place.folder / "checkpoints").string(), "--threads",
       std::to_string(std::max<std::int64_t>(
           1, options_.threads / (options_.shares_cores ? providers_here(stage.assignment) : 1))),
       "--job", concat("job-", stage.assignment.seat.job)});
  if (!options_.is_local) {
    add({"--sandbox", "--identity", fs::absolute(options_.data / "identity.pem").string(),
         "--members", (place.folder / "members.json").string()});
  }
  if (stage.assignment.feed && stage.assignment.seat.stage == 0) {
    const coordinator::Feed& feed = *stage.assignment.feed;
    const std::string address = options_.resolve({.provider = feed.requester,
                                                  .name = kRequesterName,
                                                  .address = feed.address,
                                                  .is_relayed = feed.is_relayed});
    add({"--requester", concat(kRequesterName, "@", address)});
  }
  if (options_.most_memory > 0) {  // what it maps is more than what it touches
    add({"--ram", concat(2e-9 * static_cast<double>(options_.most_memory))});
  }
  if (stage.assignment.origin == Origin::kRing) {
    add({"--from-ring"});
  }
  for (std::string& flag : training_flags(stage.assignment.options.training, options_.is_local)) {
    words.push_back(std::move(flag));
  }
  return words;
}

void Keeper::begin(const std::shared_ptr<Stage>& stage, Workplace place) {
  stage->place = std::move(place);
  stage->heard = Clock::now();
  stage->oom_kills = count_oom_kills();
  std::weak_ptr<Stage> weak = stage;
  const auto post = [this, weak](auto then) {
    hooks_.post([weak, then = std::move(then)] {
      if (const auto found = weak.lock()) {
        then(found);
      }
    });
  };
  try {
    for (const auto& former : fs::directory_iterator(options_.data / "work")) {
      if (former.path().filename() != stage->place->folder.filename()) {
        std::error_code ignored;
        fs::remove_all(former.path(), ignored);
      }
    }
    stage->child = std::make_unique<Child>(
        command(*stage, *stage->place),
        Child::Events{.on_line =
                          [this, post](std::string line) {
                            post([this, line = std::move(line)](const auto& found) {
                              on_line(found, line);
                            });
                          },
                      .on_end =
                          [this, post](ChildEnd end) {
                            post([this, end](const auto& found) { on_end(found, end); });
                          },
                      .lines_at_once = kLinesPerTick});
  } catch (const std::invalid_argument& error) {
    fail(stage, {.post = {}, .reason = error.what(), .is_final = true});
  } catch (const std::exception& error) {
    fail(stage, {.post = {}, .reason = error.what()});
  }
}

void Keeper::on_line(const std::shared_ptr<Stage>& stage, const std::string& line) {
  if (stage != stage_ || stage->is_ending) {
    return;
  }
  stage->heard = Clock::now();
  const auto said = ChildLine::read(line);
  if (!said) {
    return;
  }
  const std::string event = said->event();
  if (event == "ready") {
    stage->is_ready = true;
    stage->line = "is ready";
    hooks_.say(IsReady{stage->post()});
  } else if (event == "report") {
    const Report report = said->report();
    stage->line = concat("batch ", report.version, ", loss ", format_number(report.loss), ", ",
                         format_number(report.samples_per_second), " samples/s, delay ",
                         format_number(report.delay), ", ", format_bytes(report.memory_bytes),
                         report.averaging.empty() ? "" : ", ", printable(report.averaging));
    stage->report = report;
  } else if (event == "checkpoint") {
    const std::int64_t version = said->version();
    add_checkpoint(version, stage->place->folder / "checkpoints" / concat(version, ".safetensors"));
  } else if (event == "saved") {
    stage->is_saved = true;
    stage->line = "sends its weights";
    send_result(stage);
  } else if (event == "unreached") {
    if (const MemberId peer = member_of(*stage, said->text("peer")); !peer.empty()) {
      hooks_.say(CannotReach{stage->post(), peer, said->text("reason")});
    }
  } else if (event == "note") {
    hooks_.tell(said->text("text"));
  } else if (event == "failed") {
    fail(stage, {.post = {},
                 .reason = said->text("reason"),
                 .is_memory = said->is("is_memory"),
                 .is_final = said->is("is_final"),
                 .suspect = member_of(*stage, said->text("suspect"))});
  }
}

// Empty where the line-up has nobody of that name.
MemberId Keeper::member_of(const Stage& stage, const std::string& name) {
  const auto members = members_of(stage.assignment);
  const auto found = members.find(name);
  return found == members.end() ? MemberId() : found->second;
}

void Keeper::tell_report() {
  if (const auto report = std::exchange(stage_->report, std::nullopt)) {
    hooks_.say(Tells{stage_->post(), *report});
  }
}

// What is newer counts; but what the server waits for stays.
void Keeper::add_checkpoint(std::int64_t version, const fs::path& file) {
  auto& all = stage_->checkpoints;
  all.insert_or_assign(version, file);
  while (all.size() > kMostKept) {
    const bool is_asked = all.begin()->first == stage_->asked;
    drop_checkpoint(is_asked ? std::next(all.begin())->first : all.begin()->first);
  }
  tell_checkpoints();
}

void Keeper::drop_checkpoint(std::int64_t version) {
  const auto found = stage_->checkpoints.find(version);
  std::erase_if(stage_->unsent,
                [&](const Stage::Unsent& each) { return each.file == found->second; });
  std::error_code ignored;
  fs::remove(found->second, ignored);
  stage_->checkpoints.erase(found);
  if (stage_->asked == version) {
    stage_->asked = -1;
  }
}

void Keeper::tell_checkpoints() {
  HasKept word{.post = stage_->post(), .versions = {}};
  for (const auto& [version, file] : stage_->checkpoints) {
    word.versions.push_back(version);
  }
  hooks_.say(word);
}

void Keeper::send(const Post& post, std::int64_t version) {
  if (!stage_ || stage_->assignment.seat != post.seat || stage_->assignment.epoch != post.epoch) {
    return;
  }
  const auto found = stage_->checkpoints.find(version);
  if (found == stage_->checkpoints.end()) {
    tell_checkpoints();  // the server believes otherwise
    return;
  }
  while (stage_->checkpoints.begin()->first < version) {
    drop_checkpoint(stage_->checkpoints.begin()->first);
  }
  if (std::exchange(stage_->asked, version) == version) {
    return;  // it is on its way
  }
  send_file(stage_, found->second, [this, version](const std::optional<Hash>& hash) {
    if (stage_->checkpoints.contains(version)) {
      drop_checkpoint(version);
    }
    if (hash) {
      hooks_.say(HasCheckpoint{stage_->post(), version, *hash});
    } else {
      tell_checkpoints();
    }
  });
}

void Keeper::send_result(const std::shared_ptr<Stage>& stage) {
  const fs::path file = package::trained_file(stage->place->folder, stage->place->node);
  send_file(stage, file, [this](const std::optional<Hash>& hash) {
    if (hash) {
      stage_->line = "has trained";
      tell_report();  // the last
      hooks_.say(HasResult{stage_->post(), *hash});
    }
  });
}

void Keeper::send_file(const std::shared_ptr<Stage>& stage, const fs::path& file,
                       std::function<void(const std::optional<Hash>&)> then) {
  auto& unsent = stage->unsent;
  std::erase_if(unsent, [&](const Stage::Unsent& each) { return each.file == file; });
  unsent.push_back({file, std::move(then)});
  send_next(stage);
}

void Keeper::send_next(const std::shared_ptr<Stage>& stage) {
  if (stage->is_sending || stage->unsent.empty()) {
    return;
  }
  stage->is_sending = true;
  const Stage::Unsent next = std::move(stage->unsent.front());
  stage->unsent.pop_front();
  hooks_.post_slow([this, stage, next] {
    const std::string name = next.file.filename().string();
    std::optional<Hash> hash;
    std::string reason;
    try {
      hash = client_->upload(next.file, transfer(*stage, concat("send ", name)));
    } catch (const std::exception& error) {
      reason = error.what();
    }
    hooks_.post([this, stage, next, name, hash, reason] {
      if (stage->given_up.stop_requested()) {
        return;
      }
      stage->is_sending = false;
      if (!hash) {
        hooks_.tell(concat("could not send ", name, ": ", reason));
      }
      next.then(hash);
      send_next(stage);
    });
  });
}

// For as long as the stage is held: a server that is away is waited for.
control::TransferOptions Keeper::transfer(const Stage& stage, const std::string& what) const {
  return {.progress = {},
          .stop = stage.given_up.get_token(),
          .on_lost = [this, what](const Error& error) {
            hooks_.tell(concat("could not ", what, ": ", error.what(), " It is tried again."));
          }};
}

void Keeper::on_end(const std::shared_ptr<Stage>& stage, ChildEnd end) {
  if (stage != stage_ || stage->is_ending) {
    return;
  }
  if (end.is_well()) {
    stage->line = "has ended";
    return;
  }
  // The kernel kills so when memory runs out; so does anybody else, whom it does not count.
  const auto oom_kills = count_oom_kills();
  const bool is_memory = end.signal == SIGKILL && (!oom_kills || oom_kills != stage->oom_kills);
  fail(stage,
       {.post = {},
        .reason = concat("its process ", end.describe(), is_memory ? ", out of memory." : "."),
        .is_memory = is_memory});
}

void Keeper::fail(const std::shared_ptr<Stage>& stage, HasFailed word) {
  if (stage->is_ending) {
    return;
  }
  stage->is_ending = true;
  stage->is_ready = false;
  stage->line = "has failed";
  hooks_.tell(concat(place_of(stage->assignment), " failed: ", word.reason));
  word.post = stage->post();
  word.reason.resize(std::min(word.reason.size(), kLongestText));
  hooks_.say(word);
}

void Keeper::keep(const Post& post) {
  if (stage_ && stage_->child && stage_->assignment.seat == post.seat &&
      stage_->assignment.epoch == post.epoch) {
    stage_->child->say("checkpoint");
  }
}

void Keeper::keep_checkpoint() {
  if (stage_) {
    keep(stage_->post());
  }
}

void Keeper::drop(JobId job) {
  if (!stage_ || (job != 0 && stage_->assignment.seat.job != job)) {
    return;
  }
  hooks_.tell(concat("gave up ", place_of(stage_->assignment)));
  stop(false);
  std::error_code ignored;
  if (stage_->place) {
    fs::remove_all(stage_->place->folder, ignored);
  }
  stage_.reset();
}

void Keeper::give_up_files() {
  if (stage_) {
    stage_->given_up.request_stop();
  }
}

void Keeper::stop(bool keeps) {
  give_up_files();
  if (!stage_ || !stage_->child) {
    return;
  }
  stage_->is_ending = true;
  if (keeps) {
    stage_->child->say("keep");
    stage_->child->wait(kKeepTime);
  }
  stage_->child.reset();
}

// Whether it lives, and keeps to what is lent to it.
void Keeper::check_child() {
  if (!stage_->child) {
    return;
  }
  const auto now = Clock::now();
  if (!stage_->is_ready) {  // reading a model takes as long as it takes
    const std::int64_t effort = effort_of(stage_->child->id());
    stage_->heard = effort != std::exchange(stage_->effort, effort) ? now : stage_->heard;
  }
  const auto end_it = [&](const std::string& reason, bool is_memory) {
    stage_->child->kill();
    fail(stage_, {.post = {}, .reason = reason, .is_memory = is_memory});
  };
  if (!stage_->is_saved && now - stage_->heard > options_.silence) {
    end_it("its process says nothing any more.", false);
    return;
  }
  if (options_.most_memory == 0) {
    return;
  }
  const std::int64_t memory = memory_of(stage_->child->id());
  if (memory > options_.most_memory) {
    end_it(concat("its process took ", format_bytes(memory), " of memory, and may take ",
                  format_bytes(options_.most_memory), "."),
           true);
  } else if (now >= stage_->look_at) {
    stage_->look_at = now + kLook;
    const std::int64_t most = kDiskFactor * options_.most_memory;
    if (const std::int64_t disk = size_of_tree(stage_->place->folder); disk > most) {
      end_it(concat("its process took ", format_bytes(disk), " of the disk, and may take ",
                    format_bytes(most), "."),
             false);
    }
  }
}

void Keeper::tick() {
  if (!stage_ || stage_->is_ending) {
    return;
  }
  check_child();
  if (stage_->child) {
    stage_->child->let_speak();
  }
  tell_report();
}

}  // namespace ravnest::agent
