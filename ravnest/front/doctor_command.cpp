// Why does it not work here? One look after the other, each with a line.
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "ravnest/agent/child.h"
#include "ravnest/agent/machine.h"
#include "ravnest/base/address.h"
#include "ravnest/base/error.h"
#include "ravnest/base/table.h"
#include "ravnest/base/version.h"
#include "ravnest/cli/validators.h"
#include "ravnest/control/client.h"
#include "ravnest/control/identities.h"
#include "ravnest/control/reached.h"
#include "ravnest/front/commands.h"
#include "ravnest/front/findings.h"
#include "ravnest/front/owner.h"
#include "ravnest/relay/socket.h"
#include "ravnest/transport/grpc/enrolment_client.h"
#include "ravnest/transport/grpc/pinned_authority.h"
#include "ravnest/trust/token.h"

namespace ravnest::front {

namespace fs = std::filesystem;

namespace {

using Json = nlohmann::json;

constexpr std::chrono::seconds kAnswerTime{5};
constexpr std::chrono::seconds kMeasureTime{60};
constexpr std::chrono::milliseconds kLinkTime{500};
constexpr std::chrono::days kSoon{30};

struct DoctorFlags {
  std::string server;
  std::string token;
  fs::path data;
  int port = 0;
};

// One machine and one server. Later looks use what earlier ones have found.
class Doctor {
 public:
  explicit Doctor(const DoctorFlags& flags) : flags_(flags) {}

  // How many things are wrong.
  int look() {
    look_at("port", [this] { return port(); });
    look_at("identity", [this] { return identity(); });
    look_at("server", [this] { return server(); });
    look_at("clock", [this] { return clock(); });
    look_at("version", [this] { return program(); });
    look_at("link", [this] { return link(); });
    look_at("machine", [] { return judge_machine(agent::look_at_machine()); });
    look_at("reach", [this] { return reach(); });
    look_at("engine", &Doctor::engine);
    return wrong_;
  }

 private:
  void look_at(const char* what, const std::function<Finding()>& check) {
    Finding finding;
    try {
      finding = check();
    } catch (const std::exception& error) {
      finding = wrong(error.what());
    }
    constexpr const char* kWords[] = {"ok   ", "poor ", "-    ", "wrong"};
    wrong_ += finding.kind == Finding::Kind::kWrong ? 1 : 0;
    std::string name = what;
    name.resize(10, ' ');
    cli::write_out(
        concat(kWords[static_cast<int>(finding.kind)], "  ", name, printable(finding.text), "\n"));
  }

  Finding port() {
    const auto deadline = std::chrono::steady_clock::now() + kAnswerTime;
    is_there_ = relay::connect_to(flags_.server, deadline) != nullptr;
    return is_there_ ? ok(concat(flags_.server, " answers"))
                     : wrong(concat("nobody answers at ", flags_.server,
                                    ": is `ravnest serve` running there, with a --listen that is ",
                                    "not 127.0.0.1, and is the port open in its firewall?"));
  }

  Finding identity() {
    fs::path place = flags_.data;
    if (place.empty()) {
      place = "ravnest-provider";
    }
    identity_ = find_identity(place);
    if (!identity_ && flags_.data.empty()) {
      place = control::requester_file(flags_.server);
      if (fs::exists(place)) {
        identity_ = trust::read_identity(place, std::chrono::system_clock::now());
      }
    }
    if (!flags_.token.empty()) {
      token_ = trust::parse_token(flags_.token);
    }
    if (!identity_) {
      return token_ ? ok(concat("none yet; the token makes this machine a ",
                                trust::name_of(token_->role)))
                    : wrong(
                          "none here, and no --token: `ravnest token` on the server prints one; "
                          "or give the folder of before with --data");
    }
    const std::string who = concat("a ", trust::name_of(identity_->certificate.member().role),
                                   ", by '", place.string(), "'");
    if (identity_->certificate.member().role == trust::Role::kServer) {
      return ok(concat("the server's owner, by '", place.string(), "'"));
    }
    const auto until = identity_->certificate.validity().until;
    return until - std::chrono::system_clock::now() < kSoon
               ? poor(concat(who, ", until ", trust::to_text(until),
                             " alone: remove the file and join with a new token before that"))
               : ok(who);
  }

  // That TLS is spoken, and by whom.
  Finding server() {
    if (!is_there_) {
      return unknown("nobody answers");
    }
    std::optional<trust::Certificate> authority;
    try {
      authority = transport::fetch_authority(flags_.server, fingerprint(), kAnswerTime);
      clock_ = judge_validity(authority->validity(), std::chrono::system_clock::now());
      if (clock_->kind == Finding::Kind::kWrong) {
        identity_.reset();
        return unknown("it speaks TLS; without the right time nobody can say more");
      }
    } catch (const std::invalid_argument&) {
      if (!token_ && !identity_) {
        return unknown("it speaks TLS; without --token or --data nobody knows whose it should be");
      }
      identity_.reset();
      throw;
    } catch (const std::exception&) {
      identity_.reset();
      throw;
    }
    greeting_ = transport::greet(flags_.server, *authority, kAnswerTime);
    if (!identity_) {
      return ok("a server of ravnest, and the one that the token is of");
    }
    auto client = std::make_unique<control::Client>(flags_.server, *identity_);
    client->ask(coordinator::WantsTime{});
    client_ = std::move(client);
    return ok("a server of ravnest, of the same authority, and it knows this member");
  }

  trust::Digest fingerprint() const {
    return token_      ? token_->fingerprint
           : identity_ ? identity_->authority.fingerprint()
                       : trust::Digest{};
  }

  Finding clock() {
    if (!greeting_) {
      return clock_ && clock_->kind == Finding::Kind::kWrong ? *clock_ : not_asked();
    }
    const std::int64_t here = std::chrono::duration_cast<std::chrono::seconds>(
                                  std::chrono::system_clock::now().time_since_epoch())
                                  .count();
    return judge_clock(here, greeting_->seconds);
  }

  Finding program() {
    return greeting_ ? judge_version(version(), greeting_->program) : not_asked();
  }

  Finding link() {
    if (!greeting_) {
      return not_asked();
    }
    if (!client_) {
      return judge_distance(greeting_->latency_ms);
    }
    const auto speed = client_->measure(kLinkTime);
    return judge_link(speed.mbps, speed.latency_ms);
  }

  Finding reach() {
    if (const auto seen = seen_by_server()) {
      return judge_reach(seen->at("is_relayed").get<bool>(),
                         seen->at("address").get<std::string>());
    }
    const control::ReachTest test(flags_.port);  // throws where the port is taken
    return ok(concat("port ", test.port(), " can be listened at; whether others reach it is found ",
                     "out at `join`, and otherwise the server relays"));
  }

  // This provider, if it has joined.
  std::optional<Json> seen_by_server() const {
    if (!client_) {
      return std::nullopt;
    }
    const Json view = Json::parse(client_->ask(coordinator::WantsView{}));
    for (const Json& each : view.at("providers")) {
      if (each.at("id") == identity_->certificate.member().id && each.at("presence") != "away") {
        return each;
      }
    }
    return std::nullopt;
  }

  static Finding engine() {
    const std::string program = agent::find_program("ravnest-engine").string();
    const auto json = Json::parse(
        agent::run_program({program, "provider", "--measure"}, kMeasureTime), nullptr, false);
    if (!json.is_object() || !json.contains("gflops") || !json["gflops"].is_number()) {
      return wrong(concat("'", program, "' does not tell its speed: install ravnest anew"));
    }
    return ok(
        concat(program, " runs, with ", format_number(json["gflops"].get<double>()), " GFLOP/s"));
  }

  Finding not_asked() const {
    return unknown(is_there_ ? "the server was not asked" : "nobody answers");
  }

  const DoctorFlags flags_;
  int wrong_ = 0;
  bool is_there_ = false;
  std::optional<trust::Token> token_;
  std::optional<trust::Identity> identity_;
  std::unique_ptr<control::Client> client_;  // of a member that the server knows
  std::optional<Finding> clock_;             // as far as certificates tell
  std::optional<transport::ServerGreeting> greeting_;
};

void run_doctor(const DoctorFlags& flags) {
  parse_address(flags.server);
  if (const int count = Doctor(flags).look(); count > 0) {
    throw Error(ErrorKind::kIo, concat(count, count == 1 ? " thing is" : " things are", " wrong."));
  }
}

}  // namespace

Command add_doctor(CLI::App& app) {
  const auto flags = std::make_shared<DoctorFlags>();
  CLI::App* command =
      app.add_subcommand("doctor", "Look why this machine and a server do not work");
  command->add_option("server", flags->server, "Where the server is")
      ->required()
      ->type_name("HOST:PORT");
  command->add_option("--token", flags->token, "Whose server it should be; it is not used up")
      ->envname("RAVNEST_TOKEN")
      ->type_name("TOKEN");
  command
      ->add_option("--data", flags->data,
                   "Of this machine's provider, or of the server; default: ravnest-provider, else "
                   "this user's identity as a requester")
      ->type_name("FOLDER");
  command->add_option("--port", flags->port, "Where its stage shall listen, as for join")
      ->check(cli::whole_number(0, 65535));
  return {.app = command, .run = [flags] { run_doctor(*flags); }};
}

}  // namespace ravnest::front
