// Tokens and members: token, pause, resume, remove.
#include <memory>
#include <nlohmann/json.hpp>

#include "ravnest/cli/validators.h"
#include "ravnest/front/commands.h"
#include "ravnest/front/owner.h"

namespace ravnest::front {

namespace {

std::string reason_of(const std::string& answer) {
  return nlohmann::json::parse(answer).at("reason").get<std::string>() + "\n";
}

Command add_pausing(CLI::App& app, const char* name, const char* description, bool is_paused) {
  const auto who = std::make_shared<WhoFlags>();
  const auto member = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(name, description);
  command->add_option("name", *member, "The provider; as the server's owner alone");
  command
      ->add_option("--data", who->data,
                   "Of this machine's provider, or of the server; default: the one that is here")
      ->type_name("FOLDER");
  return {.app = command, .run = [who, member, is_paused] {
            who->usual = {member->empty() ? "ravnest-provider" : "ravnest-server"};
            cli::write_out(reason_of(connect(*who)->ask(
                coordinator::WantsPause{.member = *member, .is_paused = is_paused})));
          }};
}

}  // namespace

Command add_token(CLI::App& app) {
  struct Flags {
    WhoFlags who;
    coordinator::WantsToken wanted;
    std::string role = "provider";
  };
  const auto flags = std::make_shared<Flags>();
  CLI::App* command =
      app.add_subcommand("token", "Print a token to join a server with, on its machine");
  flags->who.usual = {"ravnest-server"};
  command->add_option("--data", flags->who.data, "The server's folder; default: ravnest-server")
      ->type_name("FOLDER");
  command->add_option("--uses", flags->wanted.uses, "How many may use it")
      ->check(cli::whole_number(1, 4096))
      ->capture_default_str();
  command->add_option("--minutes", flags->wanted.minutes, "How long it is good for")
      ->check(cli::whole_number(1, 60 * 24 * 366))
      ->capture_default_str();
  command->add_option("--role", flags->role, "provider or requester")
      ->check(cli::one_of({"provider", "requester"}))
      ->capture_default_str();
  return {.app = command, .run = [flags] {
            flags->wanted.role = flags->role == "provider" ? coordinator::Role::kProvider
                                                           : coordinator::Role::kRequester;
            const std::string answer = connect(flags->who)->ask(flags->wanted);
            cli::write_out(nlohmann::json::parse(answer).at("token").get<std::string>() + "\n");
          }};
}

Command add_pause(CLI::App& app) {
  return add_pausing(app, "pause", "Take this machine back for a while; its stage is handed over",
                     true);
}

Command add_resume(CLI::App& app) {
  return add_pausing(app, "resume", "Lend this machine again", false);
}

Command add_remove(CLI::App& app) {
  const auto who = std::make_shared<WhoFlags>();
  const auto member = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("remove", "Let a member go for good, as the owner");
  command->add_option("name", *member, "The member")->required();
  who->usual = {"ravnest-server"};
  command->add_option("--data", who->data, "The server's folder; default: ravnest-server")
      ->type_name("FOLDER");
  return {.app = command, .run = [who, member] {
            cli::write_out(
                reason_of(connect(*who)->ask(coordinator::WantsMemberGone{.member = *member})));
          }};
}

}  // namespace ravnest::front
