#include "ravnest/front/job_page.h"

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>

#include "ravnest/base/error.h"

namespace ravnest::front {

namespace {

using Json = nlohmann::json;

constexpr std::size_t kLastNotes = 10;

std::string shown_text(const Json& value) {
  return value.is_string() ? printable(value.get<std::string>()) : "";
}

std::string title(const Json& job, const Style& style) {
  std::string out = painted(concat("job ", job.at("id").get<std::int64_t>(), "  ",
                                   shown_text(job.at("name")), "  ", shown_text(job.at("phase"))),
                            Paint::kBold, style);
  out += concat("\n", shown_text(job.at("reason")), "\n", "submitted by ",
                shown_text(job.at("requester")), " at ",
                clock_time(job.at("submitted_at").get<std::int64_t>()));
  if (const auto ended = job.at("ended_at").get<std::int64_t>(); ended != 0) {
    out += concat(", over at ", clock_time(ended));
  } else if (!job.at("is_fed").get<bool>()) {
    out += "; its data is away: the requester is not connected";
  }
  if (const Json& restore = job.at("restore_point"); !restore.is_null()) {
    out += concat("\nrestore point: version ", restore.at("version").get<std::int64_t>());
  }
  if (const Json& last = job.at("last"); !last.is_null()) {
    out += concat("\nlast loss: ", format_number(last.at("loss").get<double>()), " at version ",
                  last.at("version").get<std::int64_t>());
  }
  if (const Json& accuracy = job.at("accuracy"); !accuracy.empty()) {
    out += concat("\nlast accuracy: ", format_number(accuracy.back().at(1).get<double>()), " %");
  }
  return out + "\n";
}

std::string cluster_table(const Json& cluster, const Style& style) {
  Table table({{},
               {},
               {},
               {Align::kRight},
               {Align::kRight},
               {Align::kRight},
               {Align::kRight},
               {Align::kRight}});
  table.add_header(
      {"stage", "provider", "doing", "version", "loss", "samples/s", "delay", "memory"});
  for (const Json& stage : cluster.at("stages")) {
    std::vector<std::string> row = {
        concat(stage.at("stage").get<std::int64_t>(), " ", shown_text(stage.at("role"))),
        shown_text(stage.at("name")) + (stage.at("is_relayed").get<bool>() ? ", relayed" : ""),
        shown_text(stage.at("doing"))};
    if (const Json& report = stage.at("report"); !report.is_null()) {
      const bool is_leaf = &stage == &cluster.at("stages").back();
      row.insert(row.end(), {std::to_string(report.at("version").get<std::int64_t>()),
                             is_leaf ? format_number(report.at("loss").get<double>()) : "",
                             format_number(report.at("samples_per_second").get<double>()),
                             format_number(report.at("delay").get<double>()),
                             format_bytes(report.at("memory_bytes").get<std::int64_t>())});
    }
    table.add_row(std::move(row));
  }
  std::string averaging;  // of its first stage that has something to say: all do it together
  for (const Json& stage : cluster.at("stages")) {
    if (const Json& report = stage.at("report"); averaging.empty() && !report.is_null()) {
      averaging = shown_text(report.at("averaging"));
    }
  }
  return concat("\ncluster ", cluster.at("id").get<std::int64_t>(), "\n", table.to_string(style),
                averaging, averaging.empty() ? "" : "\n");
}

std::string events(const Json& notes) {
  std::string out = notes.empty() ? "" : "\n";
  for (std::size_t i = notes.size() - std::min(notes.size(), kLastNotes); i < notes.size(); ++i) {
    out += concat(clock_time(notes[i].at("at").get<std::int64_t>()), "  ",
                  shown_text(notes[i].at("text")), "\n");
  }
  return out;
}

}  // namespace

std::string clock_time(std::int64_t seconds) {
  const std::time_t time = seconds;
  std::tm parts{};
  ::localtime_r(&time, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

std::string job_page(const Json& job, const Style& style) {
  std::string out = title(job, style);
  for (const Json& cluster : job.at("clusters")) {
    out += cluster_table(cluster, style);
  }
  return out + events(job.at("notes"));
}

}  // namespace ravnest::front
