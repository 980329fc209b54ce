#include "ravnest/agent/agent.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <stop_token>
#include <utility>

#include "ravnest/agent/child.h"
#include "ravnest/agent/keeper.h"
#include "ravnest/agent/machine.h"
#include "ravnest/base/address.h"
#include "ravnest/base/error.h"
#include "ravnest/base/folder_lock.h"
#include "ravnest/base/new_folder.h"
#include "ravnest/base/version.h"
#include "ravnest/base/workers.h"
#include "ravnest/control/reached.h"
#include "ravnest/relay/inward.h"
#include "ravnest/relay/outward.h"
#include "ravnest/relay/probe.h"
#include "ravnest/transport/grpc/enrolment_client.h"
#include "ravnest/trust/identity.h"

namespace ravnest::agent {

namespace fs = std::filesystem;
using namespace coordinator;  // its words are what is spoken here
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::chrono::seconds kBeat{1};
constexpr std::chrono::milliseconds kFirstBackoff{200};
constexpr std::chrono::milliseconds kLongestBackoff{1500};
constexpr std::chrono::milliseconds kLinkTime{300};
constexpr int kMeasureTurns = 4;
constexpr std::chrono::seconds kMeasureTime{60};
// After the server would have let it go.
constexpr Milliseconds kLeaveTime = kLongestHandOver + std::chrono::seconds(5);
// Of providers that share a machine with all that they speak with: none is better than another, and
// memory is for the machine to divide.
constexpr double kLocalRamGb = 1024.0;
constexpr double kLocalGflops = 50.0;
constexpr double kLocalMbps = 10'000.0;
constexpr double kLocalLatencyMs = 0.1;

trust::Identity enrol_with(const std::string& text, const AgentOptions& options,
                           const fs::path& file) {
  const trust::Token token = trust::parse_token(text);
  if (token.role != trust::Role::kProvider) {
    throw_invalid("[join] expected a token for a provider, got one for a ",
                  trust::name_of(token.role), ".");
  }
  trust::Identity identity =
      transport::enrol(token, {.server = options.server, .name = options.name});
  trust::write_identity(file, identity);
  return identity;
}

trust::Identity enrol(const AgentOptions& options) {
  const fs::path file = options.data / "identity.pem";
  if (!fs::exists(file)) {
    if (!options.token) {
      throw_invalid("[join] expected --token, since '", options.data.string(),
                    "' has no identity yet: `ravnest token` on the server prints one.");
    }
    return enrol_with(*options.token, options, file);
  }
  trust::Identity known = trust::read_identity(file, std::chrono::system_clock::now());
  try {
    // A token of another authority is of another server, or of one that was made anew.
    if (options.token &&
        trust::parse_token(*options.token).fingerprint != known.authority.fingerprint()) {
      return enrol_with(*options.token, options, file);
    }
  } catch (const std::exception& error) {
    options.tell(concat("the token is of no use (", error.what(), "): goes on as before"));
  }
  return known;
}

// The plan counts what a stage needs, not what its program and the system take beside it.
std::int64_t most_memory(double lent_gb) {
  return static_cast<std::int64_t>((1.25 * lent_gb + 0.5) * 1e9);
}

double measure_speed(const AgentOptions& options, std::int64_t threads) {
  std::vector<std::string> command = options.program;
  command.insert(command.end(), {"--measure", "--threads", std::to_string(threads)});
  const auto json = nlohmann::json::parse(run_program(command, kMeasureTime), nullptr, false);
  if (!json.is_object() || !json.contains("gflops") || !json["gflops"].is_number()) {
    throw Error(ErrorKind::kIo,
                concat("[join] expected '", options.program[0], " --measure' to tell its speed."));
  }
  return json["gflops"].get<double>();
}

}  // namespace

struct Agent::Impl {
  explicit Impl(AgentOptions given)
      : options(std::move(given)),
        folder(options.data),
        folder_lock(
            options.data,
            concat("[join] '", options.data.string(),
                   "' is in use by another `ravnest join`; give this one a folder of its own with "
                   "--data.")),
        reach_test(std::make_unique<control::ReachTest>(options.port)),
        port(reach_test->port()),
        identity(enrol(options)),
        client(std::make_shared<control::Client>(options.server, identity)),
        outward([this](const std::string& member, relay::PipeEvents events) {
          return client->call(member, std::move(events));
        }) {
    folder.keep();  // it has the identity, which cost a use of the token
    measure();
    keeper = std::make_unique<Keeper>(
        KeeperOptions{.data = options.data,
                      .program = options.program,
                      .threads = measured.threads,
                      .shares_cores = !options.threads.has_value(),
                      .most_memory = most_memory(measured.ram_gb),
                      .is_local = options.is_local,
                      .resolve =
                          [this](const Peer& peer) {
                            return peer.is_relayed
                                       ? outward.address_for(peer.provider)
                                       : control::seen_from(options.server, peer.address);
                          },
                      .cache_bytes = static_cast<std::int64_t>(1e9 * options.disk_gb)},
        client,
        KeeperHooks{.say = [this](const ProviderWord& word) { say(word); },
                    .post = [this](std::function<void()> task) { loop.post(std::move(task)); },
                    .post_slow =
                        [this](std::function<void()> task) {
                          if (slow) {
                            slow->post(std::move(task));
                          }
                        },
                    .tell = options.tell});
    loop.post([this] { connect(); });
  }

  ~Impl() {
    // Nothing is posted once the streams and the child are gone.
    std::shared_ptr<control::Stream> last;
    {
      const std::lock_guard lock(mutex);
      is_over = true;
      last = std::move(stream);
    }
    last.reset();
    on_loop([this] {
      keeper->give_up_files();
      slow.reset();
    });
    on_loop([this] {  // after what the last slow task has posted
      stop_measuring();
      keeper.reset();
    });
    prober.reset();
  }

  void on_loop(const std::function<void()>& task) {
    std::promise<void> done;
    loop.post([&] {
      task();
      done.set_value();
    });
    done.get_future().wait();
  }

  void measure() {
    const Machine machine = look_at_machine();
    measured.threads = options.threads.value_or(machine.threads);
    if (options.is_local) {
      measured.ram_gb = options.ram_gb.value_or(kLocalRamGb);
      measured.gflops = kLocalGflops;
      measured.mbps = kLocalMbps;
      measured.latency_ms = kLocalLatencyMs;
      return;
    }
    measured.ram_gb = std::min(options.ram_gb.value_or(machine.ram_gb), machine.ram_gb);
    measured.gflops = measure_speed(options, measured.threads);
    const auto link = client->measure(kLinkTime);
    measured.mbps = link.mbps;
    measured.latency_ms = link.latency_ms;
  }

  void say(const ProviderWord& word) {
    std::shared_ptr<control::Stream> to;
    {
      const std::lock_guard lock(mutex);
      to = is_greeted ? stream : nullptr;
    }
    if (to) {
      to->say(to_text(word));
    }
  }

  bool has_session() const {
    const std::lock_guard lock(mutex);
    return is_greeted;
  }

  // The rest on the loop's thread.

  void connect() {
    const std::lock_guard lock(mutex);
    if (is_over) {
      return;
    }
    const std::int64_t number = ++connections;
    stream = client->attend(
        {.on_word =
             [this, number](std::string text) {
               loop.post([this, number, text = std::move(text)] { on_word(number, text); });
             },
         .on_end =
             [this, number](const std::exception_ptr& error) {
               loop.post([this, number, error] { on_end(number, error); });
             }});
    stream->say(to_text(ProviderWord(Hello{
        .program = version(), .reach = reach(), .measured = measured, .holds = keeper->holds()})));
  }

  // The port is the stage's while there is one; what was found out then still holds.
  Reach reach() const {
    return reach_test ? reach_test->reach(options.host)
                      : Reach{.host = options.host, .port = port, .was_reached = is_reached};
  }

  void on_word(std::int64_t number, const std::string& text) {
    if (number != connections) {
      return;
    }
    try {
      std::visit([this](const auto& word) { handle(word); }, read_server_word(text));
    } catch (const std::invalid_argument& error) {
      options.tell(concat("the server said something strange: ", error.what()));
    }
  }

  void handle(const Greeting& word) {
    is_reached = !word.is_relayed;
    reach_test.reset();
    self = is_reached ? word.address : concat("127.0.0.1:", port);
    backoff = kFirstBackoff;
    {
      const std::lock_guard lock(mutex);
      is_greeted = true;
    }
    options.tell(concat("joined ", options.server, " as ", word.address,
                        word.is_relayed ? ", through the server's relay" : ""));
    stop_measuring();
    let_measure();
  }
  void handle(const Hold& word) {
    stop_measuring();  // its stage will listen there
    keeper->hold(word.assignment, self);
  }
  void handle(const Begin& /*word*/) {}  // the stage waits for its peers by itself
  void handle(const Keep& word) { keeper->keep(word.post); }
  void handle(const coordinator::Send& word) { keeper->send(word.post, word.version); }
  void handle(const Drop& word) {
    keeper->drop(word.job);
    let_measure();
  }
  void handle(const Measure& word) {
    if (probe) {
      prober->post([this, stop = measuring.get_token(), neighbours = word.neighbours] {
        measure_links(neighbours, stop);
      });
    }
  }
  void handle(const MayGo& /*word*/) { is_gone = true; }
  void handle(const Called& word) {
    inward.accept(static_cast<std::uint16_t>(port),
                  [this, call = word.call](relay::PipeEvents events) {
                    return client->answer(call, std::move(events));
                  });
  }

  // The port is the stage's while there is one; else peers may measure their links to it.
  void let_measure() {
    if (probe || options.is_local || !is_reached || !keeper->is_idle()) {
      return;
    }
    const relay::Nonce secret = relay::draw_nonce();
    try {
      probe = std::make_unique<relay::Probe>(concat(every_host(), ":", port), secret);
    } catch (const Error&) {
      return;  // another has the port just now
    }
    say(IsMeasurable{relay::to_digits(secret)});
  }

  // At once, whoever measures: the port is free afterwards.
  void stop_measuring() {
    measuring.request_stop();
    measuring = std::stop_source();
    probe.reset();
  }

  // Beside the loop. Who does not answer, over a link that loses much, has its turn again.
  void measure_links(std::vector<Neighbour> neighbours, const std::stop_token& stop) {
    for (int turn = 0; turn < kMeasureTurns; ++turn) {
      std::erase_if(neighbours, [&](const Neighbour& peer) { return is_measured(peer, stop); });
    }
  }
  // Or need not be.
  bool is_measured(const Neighbour& peer, const std::stop_token& stop) {
    if (stop.stop_requested()) {
      return true;
    }
    try {
      const auto link = relay::measure_link(control::seen_from(options.server, peer.address),
                                            relay::read_nonce(peer.probe), stop);
      if (link) {
        say(HasMeasured{{{peer.provider, {link->mbps, link->latency_ms}}}});
      }
      return link.has_value();
    } catch (const std::exception&) {  // nobody has such an address: it is passed over
      return true;
    }
  }

  void on_end(std::int64_t number, const std::exception_ptr& error) {
    if (number != connections) {
      return;
    }
    {
      const std::lock_guard lock(mutex);
      is_greeted = false;
    }
    if (is_leaving) {
      is_gone = true;
      return;
    }
    try {
      if (error) {
        std::rethrow_exception(error);
      }
      options.tell("the server ended the session");
    } catch (const std::invalid_argument&) {  // it does not want us
      const std::lock_guard lock(mutex);
      refusal = error;
      return;
    } catch (const std::exception& lost) {
      if (backoff == kFirstBackoff) {
        options.tell(concat(lost.what(), " It is tried again."));
      }
    }
    std::uniform_real_distribution<double> jitter(0.5, 1.0);
    const auto pause = std::chrono::duration_cast<Clock::duration>(backoff * jitter(random));
    backoff = std::min(2 * backoff, kLongestBackoff);
    reconnect_at = Clock::now() + pause;
  }

  void tick_loop() {
    keeper->tick();
    if (reconnect_at && Clock::now() >= *reconnect_at) {
      reconnect_at.reset();
      std::shared_ptr<control::Stream> old;
      {
        const std::lock_guard lock(mutex);
        old = std::move(stream);
      }
      old.reset();
      connect();
    }
    if (has_session()) {
      let_measure();
    }
    std::string now = keeper->describe();
    const std::lock_guard lock(mutex);
    line = is_greeted ? std::move(now) : concat("the server is away; ", now);
  }

  const AgentOptions options;
  // Two in one folder would be one member, and end each other's sessions.
  NewFolder folder;  // who cannot enrol leaves none
  const FolderLock folder_lock;
  std::unique_ptr<control::ReachTest> reach_test;  // until the server has looked
  const int port;
  const trust::Identity identity;
  const std::shared_ptr<const control::Client> client;
  relay::Outward outward;
  relay::Inward inward;
  Measurements measured;
  std::atomic<bool> is_gone = false;
  std::atomic<bool> is_leaving = false;
  Clock::time_point beat_at;
  Clock::time_point leave_by;

  mutable std::mutex mutex;  // guards what follows
  std::shared_ptr<control::Stream> stream;
  bool is_greeted = false;
  bool is_over = false;
  std::exception_ptr refusal;
  std::string line = "joins";

  // Of the loop's thread.
  std::string self;
  bool is_reached = true;
  std::int64_t connections = 0;
  std::chrono::milliseconds backoff = kFirstBackoff;
  std::optional<Clock::time_point> reconnect_at;
  std::mt19937 random{std::random_device{}()};
  std::unique_ptr<Keeper> keeper;
  std::unique_ptr<relay::Probe> probe;  // while there is no stage
  std::stop_source measuring;
  std::unique_ptr<Workers> slow = std::make_unique<Workers>(1);

  Workers loop{1};
  // What it does stops for a stage, but not always at once: a stage does not wait for it.
  std::unique_ptr<Workers> prober = std::make_unique<Workers>(1);
};

Agent::Agent(AgentOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Agent::~Agent() = default;

bool Agent::tick() {
  const auto now = Clock::now();
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->refusal) {
      std::rethrow_exception(impl_->refusal);
    }
    if (impl_->is_leaving && !impl_->is_greeted) {
      impl_->is_gone = true;
    }
  }
  if (now >= impl_->beat_at) {
    impl_->beat_at = now + kBeat;
    impl_->say(StillHere{});
  }
  impl_->loop.post([impl = impl_.get()] { impl->tick_loop(); });
  return !impl_->is_gone && !(impl_->is_leaving && now > impl_->leave_by);
}

void Agent::leave() {
  impl_->leave_by = Clock::now() + kLeaveTime;
  impl_->is_leaving = true;
  impl_->say(WantsToLeave{});
}

void Agent::keep_checkpoint() {
  impl_->loop.post([impl = impl_.get()] { impl->keeper->keep_checkpoint(); });
}

const Measurements& Agent::measured() const { return impl_->measured; }

std::string Agent::describe() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->line;
}

}  // namespace ravnest::agent
