// The server's decisions with 1,000 providers: beats and ticks, the log, and a plan over all of
// them. Prints a table; one core. With --quick a shorter one.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <random>
#include <string>

#include "ravnest/base/error.h"
#include "ravnest/coordinator/coordinator.h"
#include "ravnest/coordinator/plan_job.h"
#include "ravnest/coordinator/view.h"
#include "ravnest/coordinator/words.h"
#include "ravnest/graph/pt2/pt2.h"
#include "ravnest/graph/text/text.h"
#include "ravnest/planner/plan.h"
#include "ravnest/trust/digest.h"

namespace {

using namespace ravnest;
using namespace ravnest::coordinator;

constexpr int kProviders = 1000;

double seconds_of(const auto& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void print(const char* what, double value, const char* unit) {
  std::printf("%-64s %10.3f %s\n", what, value, unit);
  std::fflush(stdout);
}

// 200 layers of slightly different width.
graph::Program make_model() {
  std::string weights;
  std::string inputs;
  std::string ops;
  const auto width = [](int i) { return 64 + 8 * (i % 5); };
  for (int i = 0; i < 200; ++i) {
    const std::string type = concat("f32[", width(i), ", ", width(i + 1), "]");
    weights += concat("weight parameter \"layer", i, ".weight\" : ", type, "\n");
    inputs += concat("  parameter %w", i, " : ", type, " = \"layer", i, ".weight\"\n");
    ops += concat("  %h", i + 1, " : f32[16, ", width(i + 1), "] = aten.mm.default(self=%h", i,
                  ", mat2=%w", i, ")\n");
  }
  graph::Program program = graph::parse_text(
      concat(weights, "graph\n", inputs, "  input %h0 : f32[16, 64]\n", ops, "  return %h200\n"));
  for (int i = 0; i < 200; ++i) {
    const auto nbytes = static_cast<std::size_t>(4 * width(i) * width(i + 1));
    program.weights[static_cast<std::size_t>(i)].storage =
        Bytes::take(std::vector<std::byte>(nbytes));
  }
  return program;
}

Measurements random_machine(std::mt19937& random) {
  const auto between = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  return {.ram_gb = between(2, 64), .gflops = between(10, 900), .mbps = between(5, 1000)};
}

Now now_at(std::int64_t milliseconds) {
  return {.steady = Milliseconds{milliseconds}, .wall = 1'700'000'000 + milliseconds / 1000};
}

struct Pool {
  std::vector<MemberId> ids;
  std::vector<std::int64_t> sessions;
};

Pool join_all(Coordinator& coordinator) {
  const Hash token = trust::to_hex(trust::sha256("token"));
  coordinator.handle(MakeToken{{.hash = token, .uses = kProviders, .expires_at = 2'000'000'000}},
                     now_at(0));
  Pool pool;
  std::mt19937 random(1);
  const double enrolling = seconds_of([&] {
    for (int i = 0; i < kProviders; ++i) {
      pool.ids.push_back(concat("provider-", i));
      coordinator.handle(Enrol{token, pool.ids.back(), pool.ids.back()}, now_at(0));
    }
  });
  print("enrol, each synced to disk", enrolling / kProviders * 1e3, "ms each");
  const double joining = seconds_of([&] {
    for (const MemberId& id : pool.ids) {
      pool.sessions.push_back(
          coordinator
              .handle(
                  Join{.provider = id, .address = id + ":9000", .measured = random_machine(random)},
                  now_at(0))
              .session);
    }
  });
  print("join", joining / kProviders * 1e6, "us each");
  return pool;
}

void measure_beats(Coordinator& coordinator, const Pool& pool) {
  constexpr int kSeconds = 200;
  const double beating = seconds_of([&] {
    for (std::int64_t second = 1; second <= kSeconds; ++second) {
      for (std::size_t i = 0; i < pool.ids.size(); ++i) {
        coordinator.handle(Beat{pool.ids[i], pool.sessions[i]}, now_at(1000 * second));
      }
      for (std::int64_t quarter = 0; quarter < 4; ++quarter) {
        coordinator.handle(Tick{}, now_at(1000 * second + 250 * quarter));
      }
    }
  });
  print("1,000 providers beating every second, four ticks a second", 100.0 * beating / kSeconds,
        "% of a core");
  print("view for the dashboard",
        seconds_of([&] { static_cast<void>(view(coordinator.state(), now_at(0))); }) * 1e3, "ms");
}

// A job over all of them, from its submission to the last provider's assignment.
void measure_job(Coordinator& coordinator, const std::filesystem::path& folder) {
  const Hash token = trust::to_hex(trust::sha256("requester"));
  coordinator.handle(
      MakeToken{{.hash = token, .role = Role::kRequester, .uses = 1, .expires_at = 2'000'000'000}},
      now_at(200'000));
  coordinator.handle(Enrol{token, "requester", "requester"}, now_at(200'000));
  const auto asks = coordinator.handle(
      SubmitJob{.requester = "requester",
                .name = "job",
                .program = coordinator.artifacts().take_file(folder / "model.pt2"),
                .options = {}},
      now_at(200'000));
  const auto ask = std::ranges::find_if(
      asks.actions, [](const Action& action) { return std::holds_alternative<MakePlan>(action); });
  RAVNEST_CHECK(ask != asks.actions.end());
  PlanAnswer answer;
  const double planning = seconds_of([&] {
    answer = plan_job(std::get<MakePlan>(*ask), coordinator.artifacts(),
                      {.scratch = folder / "scratch"});
  });
  if (const auto* failed = std::get_if<PlanFailed>(&answer)) {
    throw_invalid(failed->reason);
  }
  const auto& made = std::get<PlanMade>(answer);
  print("plan over 1,000 providers, with every stage's files, synced", planning, "s");
  print("  clusters", static_cast<double>(made.clusters.size()), "");
  print("  ways to cut the model", static_cast<double>(made.plan.shapes.size()), "");
  print("  deciding on it", seconds_of([&] { coordinator.handle(made, now_at(200'000)); }) * 1e3,
        "ms");
  std::size_t nbytes = 0;
  const double telling = seconds_of([&] {
    for (const auto& [provider, seat] : coordinator.state().durable.seats) {
      nbytes += to_text(ServerWord(Hold{*make_assignment(coordinator.state(), provider)})).size();
    }
  });
  print("  the words of everybody's assignment", telling * 1e3, "ms");
  print("  the same", static_cast<double>(nbytes) / 1e6, "MB");
}

void measure_plans(const Coordinator& coordinator, const Pool& ids, const graph::Program& program,
                   bool is_quick) {
  std::vector<planner::Machine> pool;
  for (const MemberId& id : ids.ids) {
    const Measurements& measured = coordinator.state().live.providers.at(id).measured;
    pool.push_back({.id = static_cast<std::int64_t>(pool.size()),
                    .ram_gb = measured.ram_gb,
                    .mbps = measured.mbps,
                    .gflops = measured.gflops});
  }
  const auto plan = [&](const char* what, const planner::PlanOptions& options) {
    print(what, seconds_of([&] { static_cast<void>(planner::make_plan(program, pool, options)); }),
          "s");
  };
  plan("make_plan alone", {});
  if (!is_quick) {
    plan("the same, in 100 clusters", {.clusters = std::size_t{100}});
    plan("the same, in one cluster", {.clusters = std::size_t{1}});
  }
}

void run(const std::filesystem::path& folder, bool is_quick) {
  Coordinator coordinator({.data = folder}, now_at(0));
  const Pool pool = join_all(coordinator);
  measure_beats(coordinator, pool);
  graph::write_pt2(make_model(), folder / "model.pt2");
  measure_plans(coordinator, pool, graph::read_pt2(folder / "model.pt2"), is_quick);
  measure_job(coordinator, folder);
}

}  // namespace

int main(int count, char** words) {
  const auto folder = std::filesystem::temp_directory_path() / concat("ravnest_bench_", ::getpid());
  std::filesystem::create_directories(folder);
  run(folder, count > 1 && std::string(words[1]) == "--quick");
  std::filesystem::remove_all(folder);
}
