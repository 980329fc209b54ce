#include "ravnest/server/answers.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "ravnest/base/error.h"
#include "ravnest/base/version.h"
#include "ravnest/coordinator/view.h"
#include "ravnest/trust/token_record.h"

namespace ravnest::server {

using namespace coordinator;  // its words are what is spoken here

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kLongestMinutes = 60 * 24 * 366;

struct Answering {
  Desk& desk;
  const trust::Authority& authority;
  const Caller& caller;

  std::string operator()(const WantsToken& question) const {
    only({trust::Role::kServer});
    if (question.minutes < 1 || question.minutes > kLongestMinutes) {
      throw_invalid("Expected a token for 1 minute to a year, got ", question.minutes, " minutes.");
    }
    const trust::Role role = question.role == coordinator::Role::kProvider
                                 ? trust::Role::kProvider
                                 : trust::Role::kRequester;
    const trust::Token token = trust::make_token(role, authority.certificate().fingerprint());
    const auto record = trust::record_of(token, {.expires = {}, .uses = 1});
    accept(MakeToken{{.hash = trust::to_hex(record.secret_hash),
                      .role = question.role,
                      .uses = question.uses,
                      .expires_at = Desk::now().wall + 60 * question.minutes}});
    return Json{{"token", trust::to_text(token)}}.dump();
  }

  std::string operator()(const WantsMemberGone& question) const {
    only({trust::Role::kServer});
    return accept(RemoveMember{find_member(desk.state(), question.member).id});
  }

  std::string operator()(const WantsPause& question) const {
    MemberId id = caller.member.id;
    if (!question.member.empty()) {
      only({trust::Role::kServer});
      id = find_member(desk.state(), question.member).id;
    } else {
      only({trust::Role::kProvider});
    }
    return question.is_paused ? accept(PauseProvider{id}) : accept(ResumeProvider{id});
  }

  std::string operator()(const WantsJob& question) const {
    only({trust::Role::kRequester});
    if (!is_hash(question.program) || !desk.artifacts().has(question.program)) {
      throw_invalid("Expected a Program that was sent before, got another.");
    }
    const Decision decision = desk.handle(SubmitJob{.requester = caller.member.id,
                                                    .name = question.name,
                                                    .program = question.program,
                                                    .options = question.options,
                                                    .key = question.key});
    check(decision);
    return Json{{"job", decision.job}}.dump();
  }

  std::string operator()(const WantsCancel& question) const {
    return accept(CancelJob{.job = question.job, .by = requester()});
  }
  std::string operator()(const WantsForget& question) const {
    return accept(ForgetJob{.job = question.job, .by = requester()});
  }

  std::string operator()(const WantsResults& question) const {
    const Job* job = find_job(desk.state().durable, question.job);
    const MemberId by = requester();
    if (job == nullptr || (!by.empty() && job->requester != by)) {
      throw_invalid("Expected a job ", by.empty() ? "that is known" : "of yours", ", got ",
                    question.job, ".");
    }
    const bool has_weights = is_over(job->phase) && job->plan;
    if (!has_weights) {
      throw_invalid("Expected a job that is done, or ended with a restore point, got one that is ",
                    to_string(job->phase), ": ", job->reason);
    }
    Results results{.plan = job->plan->id};
    for (const Piece& piece : job->restore ? job->restore->pieces : job->results) {
      results.pieces.push_back({piece, files_of(*job, piece)});
    }
    return to_text(results);
  }

  std::string operator()(const WantsView& /*question*/) const {
    return view(desk.state(), Desk::now(), 0, viewer());
  }
  std::string operator()(const WantsJobView& question) const {
    const Job* job = find_job(desk.state().durable, question.job);
    if (job != nullptr && !may_see(desk.state(), viewer(), *job)) {
      throw_invalid("Expected a job of yours, got ", question.job, ".");
    }
    return job_view(desk.state(), question.job);
  }
  std::string operator()(const WantsPool& /*question*/) const { return pool(); }
  std::string operator()(const WantsTime& /*question*/) const {
    return Json{{"seconds", Desk::now().wall}, {"program", version()}}.dump();
  }

 private:
  void only(std::initializer_list<trust::Role> roles) const {
    if (std::ranges::find(roles, caller.member.role) == roles.end()) {
      throw Forbidden(concat("This is not for a ", trust::name_of(caller.member.role), " to do."));
    }
  }

  Viewer viewer() const { return {.is_owner = caller.is_owner(), .member = caller.member.id}; }

  // Empty for the owner, whose word counts for every job.
  MemberId requester() const {
    only({trust::Role::kServer, trust::Role::kRequester});
    return caller.is_owner() ? "" : caller.member.id;
  }

  static void check(const Decision& decision) {
    if (!decision.is_accepted) {
      throw_invalid(decision.reason);
    }
  }

  std::string accept(const Event& event) const {
    const Decision decision = desk.handle(event);
    check(decision);
    return Json{{"reason", decision.reason}}.dump();
  }

  static std::vector<File> files_of(const Job& job, const Piece& piece) {
    for (const ClusterShape& shape : job.plan->shapes) {
      for (const StageShape& stage : shape.stages) {
        if (stage.first_op == piece.first_op && stage.last_op == piece.last_op) {
          return stage.files;
        }
      }
    }
    return {};
  }

  // As node_configs.json has it.
  std::string pool() const {
    std::map<MemberId, std::string> numbers;
    for (const auto& [id, provider] : desk.state().live.providers) {
      if (provider.presence == Presence::kPresent || provider.presence == Presence::kSilent) {
        numbers.emplace(id, std::to_string(numbers.size()));
      }
    }
    Json nodes = Json::object();
    for (const auto& [id, number] : numbers) {
      const Provider& provider = desk.state().live.providers.at(id);
      nodes[number] = {{"IP", provider.address},
                       {"benchmarks", benchmarks_of(provider.measured, numbers)},
                       {"name", desk.state().durable.members.at(id).name}};
    }
    return nodes.dump();
  }

  static Json benchmarks_of(const Measurements& measured,
                            const std::map<MemberId, std::string>& numbers) {
    Json benchmarks = {
        {"ram", measured.ram_gb}, {"bandwidth", measured.mbps}, {"latency", measured.latency_ms}};
    if (measured.gflops > 0.0) {
      benchmarks["speed"] = measured.gflops;
    }
    for (const auto& [peer, link] : measured.links) {
      if (const auto number = numbers.find(peer); number != numbers.end()) {
        benchmarks["links"][number->second] = {{"bandwidth", link.mbps},
                                               {"latency", link.latency_ms}};
      }
    }
    return benchmarks;
  }
};

}  // namespace

std::string answer(Desk& desk, const trust::Authority& authority, const Caller& caller,
                   const Question& question) {
  return std::visit(Answering{desk, authority, caller}, question);
}

const Member& find_member(const State& state, const std::string& name) {
  for (const auto& [id, member] : state.durable.members) {
    if (id == name || member.name == name) {
      return member;
    }
  }
  throw_invalid("Expected the name of a member, got '", name, "': `ravnest status` lists them.");
}

}  // namespace ravnest::server
