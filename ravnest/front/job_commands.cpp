// Jobs and the pool, as their owners see them: status, logs, cancel, fetch, pool.
#include <algorithm>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "ravnest/base/address.h"
#include "ravnest/base/atomic_file.h"
#include "ravnest/base/error.h"
#include "ravnest/base/table.h"
#include "ravnest/cli/validators.h"
#include "ravnest/control/reached.h"
#include "ravnest/control/results.h"
#include "ravnest/front/commands.h"
#include "ravnest/front/job_page.h"
#include "ravnest/front/owner.h"
#include "ravnest/fuse/fuse.h"

namespace ravnest::front {

namespace {

using Json = nlohmann::json;

constexpr int kScriptsPort = 7800;

struct JobFlags {
  WhoFlags who;
  std::int64_t job = 0;
  bool is_json = false;
};

std::string number(const Json& value) {
  return value.is_number() ? format_number(value.get<double>()) : "";
}

std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : ""; }

// What is known of the links between providers, by their ids; either of two may tell of theirs.
std::map<std::string, std::map<std::string, Json>> links_of(const Json& view) {
  std::map<std::string, std::map<std::string, Json>> links;
  for (const Json& each : view.at("providers")) {
    for (const Json& link : each.at("links")) {
      links[text_of(each["id"])][text_of(link["provider"])] = link;
      links[text_of(link["provider"])].emplace(text_of(each["id"]), link);
    }
  }
  return links;
}

// "3 from 94 Mbit/s, up to 12 ms"
std::string describe_links(const std::map<std::string, Json>& links) {
  if (links.empty()) {
    return "";
  }
  double mbps = std::numeric_limits<double>::infinity();
  double latency_ms = 0.0;
  for (const auto& [peer, link] : links) {
    mbps = std::min(mbps, link["mbps"].get<double>());
    latency_ms = std::max(latency_ms, link["latency_ms"].get<double>());
  }
  return concat(links.size(), " from ", format_number(mbps), " Mbit/s, up to ",
                format_number(latency_ms), " ms");
}

std::string providers_table(const Json& view, const Style& style) {
  Table table({{}, {}, {}, {Align::kRight}, {Align::kRight}, {Align::kRight}, {Align::kRight}, {}});
  table.add_header({"provider", "is", "holds", "GFLOP/s", "GB", "Mbit/s", "ms", "peers"});
  auto links = links_of(view);
  for (const Json& each : view.at("providers")) {
    std::string presence = text_of(each["presence"]);
    presence += each["is_paused"].get<bool>() ? ", paused" : "";
    presence += each["is_relayed"].get<bool>() ? ", relayed" : "";
    const Json& place = each["place"];
    const std::string holds = place.is_null()
                                  ? ""
                                  : concat("job ", place["job"].get<std::int64_t>(), ", cluster ",
                                           place["cluster"].get<std::int64_t>(), ", stage ",
                                           place["stage"].get<std::int64_t>());
    table.add_row({text_of(each["name"]), presence, holds, number(each["gflops"]),
                   number(each["ram_gb"]), number(each["mbps"]), number(each["latency_ms"]),
                   describe_links(links[text_of(each["id"])])});
  }
  return table.to_string(style);
}

std::string jobs_table(const Json& view, const Style& style) {
  Table table({{Align::kRight}, {}, {}, {Align::kRight}, {Align::kRight}, {}});
  table.add_header({"job", "name", "is", "version", "loss", "because"});
  for (const Json& each : view.at("jobs")) {
    const Json& last = each["last"];
    table.add_row({std::to_string(each["id"].get<std::int64_t>()), text_of(each["name"]),
                   text_of(each["phase"]), last.is_null() ? "" : last["version"].dump(),
                   last.is_null() ? "" : number(last["loss"]), text_of(each["reason"])});
  }
  return table.to_string(style);
}

void show_status(const JobFlags& flags) {
  const auto client = connect(flags.who);
  const std::string text = flags.job == 0
                               ? client->ask(coordinator::WantsView{})
                               : client->ask(coordinator::WantsJobView{.job = flags.job});
  if (flags.is_json) {
    cli::write_out(text + "\n");
    return;
  }
  const Json view = Json::parse(text);
  const Style style = detect_style();
  if (flags.job != 0) {
    cli::write_out(job_page(view, style));
    return;
  }
  cli::write_out(view.at("providers").empty()
                     ? "no providers yet: `ravnest join` on a machine lends it\n"
                     : providers_table(view, style));
  cli::write_out(view["jobs"].empty() ? "no jobs yet\n" : "\n" + jobs_table(view, style));
}

void show_logs(const JobFlags& flags) {
  const auto client = connect(flags.who);
  const Json json =
      Json::parse(flags.job == 0 ? client->ask(coordinator::WantsView{})
                                 : client->ask(coordinator::WantsJobView{.job = flags.job}));
  for (const Json& note : json.at(flags.job == 0 ? "lines" : "notes")) {
    cli::write_out(concat(clock_time(note["at"].get<std::int64_t>()), "  ",
                          printable(text_of(note["text"])), "\n"));
  }
}

void fetch(const JobFlags& flags, const std::filesystem::path& out) {
  const auto client = connect(flags.who);
  const auto node_data = out / "node_data";
  const std::size_t cluster = control::fetch_results(*client, flags.job, node_data);
  const auto file = out / "trained_state_dict.pt";
  const auto state = fuse::fuse_cluster(node_data, cluster);
  fuse::write_state_dict(state, file);
  cli::write_out(concat(file.string(), ": ", state.tensors.size(), " tensors, ",
                        format_bytes(state.nbytes), "\n"));
}

std::set<std::string> relayed_providers(const control::Client& client) {
  std::set<std::string> names;
  const Json view = Json::parse(client.ask(coordinator::WantsView{}));
  for (const Json& each : view.at("providers")) {
    if (each.at("is_relayed").get<bool>()) {
      names.insert(text_of(each.at("name")));
    }
  }
  return names;
}

// What scripts need to meet each other there: while a machine is lent, the port that it is lent
// with is taken, and the relay serves members alone.
Json pool_for_scripts(const control::Client& client, int first_port) {
  const Json all = Json::parse(client.ask(coordinator::WantsPool{}));
  const auto relayed = relayed_providers(client);
  std::map<std::string, int> ports;  // the next, by host
  std::vector<std::string> left_out;
  Json nodes = Json::object();
  for (const auto& [number, node] : all.items()) {
    const std::string name = text_of(node.at("name"));
    if (relayed.contains(name)) {
      std::cerr << printable(name) << " is left out: others do not reach it.\n";
      left_out.push_back(number);
      continue;
    }
    const Address address =
        parse_address(control::seen_from(client.server(), text_of(node.at("IP"))));
    int& port = ports.try_emplace(address.host, first_port).first->second;
    nodes[number] = node;
    nodes[number]["IP"] = concat(address.host, ":", port++);
  }
  for (const std::string& number : left_out) {
    for (Json& node : nodes) {
      if (Json& benchmarks = node["benchmarks"]; benchmarks.contains("links")) {
        benchmarks["links"].erase(number);
      }
    }
  }
  return nodes;
}

CLI::App* add(CLI::App& app, const char* name, const char* description, JobFlags& flags,
              bool is_job_needed) {
  CLI::App* command = app.add_subcommand(name, description);
  CLI::Option* job = command->add_option("job", flags.job, "The job's number")
                         ->check(cli::whole_number(1, 1'000'000'000'000));
  if (is_job_needed) {
    job->required();
  }
  add_who(*command, flags.who);
  return command;
}

// Its folder may be the first thing that a project of scripts gets.
void write_pool(const std::string& text, const std::filesystem::path& file) {
  if (file.has_parent_path()) {
    std::error_code ignored;  // whoever writes says what is wrong
    std::filesystem::create_directories(file.parent_path(), ignored);
  }
  AtomicFile target(file);
  target.write(text);
  target.commit();
}

}  // namespace

Command add_status(CLI::App& app) {
  const auto flags = std::make_shared<JobFlags>();
  CLI::App* command = add(app, "status", "Show who is there and what is trained", *flags, false);
  command->add_flag("--json", flags->is_json, "As JSON");
  return {.app = command, .run = [flags] { show_status(*flags); }};
}

Command add_logs(CLI::App& app) {
  const auto flags = std::make_shared<JobFlags>();
  CLI::App* command =
      add(app, "logs", "Show what happened to a job, or to the server, and why", *flags, false);
  return {.app = command, .run = [flags] { show_logs(*flags); }};
}

Command add_cancel(CLI::App& app) {
  const auto flags = std::make_shared<JobFlags>();
  CLI::App* command = add(app, "cancel", "End a job; its last checkpoint stays", *flags, true);
  return {.app = command, .run = [flags] {
            const std::string answer =
                connect(flags->who)->ask(coordinator::WantsCancel{.job = flags->job});
            cli::write_out(Json::parse(answer).at("reason").get<std::string>() + "\n");
          }};
}

Command add_fetch(CLI::App& app) {
  const auto flags = std::make_shared<JobFlags>();
  const auto out = std::make_shared<std::filesystem::path>("trained");
  CLI::App* command =
      add(app, "fetch", "Bring a job's trained weights here, as one state dict", *flags, true);
  command->add_option("--out", *out, "Where to")->type_name("FOLDER")->capture_default_str();
  return {.app = command, .run = [flags, out] { fetch(*flags, *out); }};
}

Command add_pool(CLI::App& app) {
  const auto who = std::make_shared<WhoFlags>();
  const auto file = std::make_shared<std::filesystem::path>();
  const auto port = std::make_shared<int>(kScriptsPort);
  CLI::App* command = app.add_subcommand("pool", "Write the machines that are there now as a pool");
  add_who(*command, *who);
  command
      ->add_option("--port", *port,
                   "Where scripts are to listen on their machines; on one that is lent more than "
                   "once, at the ports after it")
      ->check(cli::whole_number(1, 60'000))
      ->capture_default_str();
  command->add_option("--write", *file, "node_configs.json, for clusterize; default: print it")
      ->type_name("FILE");
  return {.app = command, .run = [who, file, port] {
            const std::string text = pool_for_scripts(*connect(*who), *port).dump(2) + "\n";
            if (file->empty()) {
              cli::write_out(text);
              return;
            }
            write_pool(text, *file);
          }};
}

}  // namespace ravnest::front
