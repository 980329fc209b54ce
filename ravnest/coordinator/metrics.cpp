#include <array>
#include <map>
#include <sstream>

#include "ravnest/coordinator/view.h"

namespace ravnest::coordinator {

namespace {

using Labels = std::vector<std::pair<std::string_view, std::string>>;

// Prometheus text, one family after the other.
class Text {
 public:
  void family(std::string_view name, std::string_view kind, std::string_view help) {
    name_ = name;
    out_ << "# HELP ravnest_" << name << ' ' << help << "\n# TYPE ravnest_" << name << ' ' << kind
         << '\n';
  }
  template <typename Number>
  void sample(const Labels& labels, Number value) {
    out_ << "ravnest_" << name_;
    const char* before = "{";
    for (const auto& [key, text] : labels) {
      out_ << before << key << "=\"" << escape_label(text) << '"';
      before = ",";
    }
    out_ << (labels.empty() ? " " : "} ") << value << '\n';
  }
  std::string str() const { return out_.str(); }

 private:
  std::ostringstream out_;
  std::string name_;
};

void write_providers(const State& state, Text& text) {
  std::map<Presence, std::int64_t> counts;
  for (const auto& [id, provider] : state.live.providers) {
    ++counts[provider.presence];
  }
  text.family("providers", "gauge", "Providers by presence.");
  for (const Presence presence :
       {Presence::kPresent, Presence::kSilent, Presence::kAwaited, Presence::kAway}) {
    text.sample({{"presence", std::string(to_string(presence))}}, counts[presence]);
  }
  text.family("providers_with_a_stage", "gauge", "Providers that hold a stage.");
  text.sample({}, state.durable.seats.size());
}

void write_jobs(const State& state, Text& text) {
  std::array<std::int64_t, static_cast<std::size_t>(Phase::kCancelled) + 1> counts{};
  for (const auto& [id, job] : state.durable.jobs) {
    ++counts[static_cast<std::size_t>(job.phase)];
  }
  text.family("jobs", "gauge", "Jobs by phase.");
  for (std::size_t phase = 0; phase < counts.size(); ++phase) {
    text.sample({{"phase", std::string(to_string(static_cast<Phase>(phase)))}}, counts[phase]);
  }
  text.family("job_loss", "gauge", "The last loss that a job's leaf reported.");
  for (const auto& [id, curve] : state.live.curves) {
    if (!curve.empty()) {
      text.sample({{"job", std::to_string(id)}}, curve.back().loss);
    }
  }
  text.family("job_restore_version", "gauge", "The version of a job's restore point.");
  for (const auto& [id, job] : state.durable.jobs) {
    if (job.restore) {
      text.sample({{"job", std::to_string(id)}}, job.restore->version);
    }
  }
}

template <typename Value>
void write_stages(const State& state, Text& text, const Value& value) {
  for (const auto& [id, report] : state.live.reports) {
    const auto seat = state.durable.seats.find(id);
    const auto member = state.durable.members.find(id);
    if (seat != state.durable.seats.end() && member != state.durable.members.end()) {
      text.sample({{"job", std::to_string(seat->second.job)},
                   {"cluster", std::to_string(seat->second.cluster)},
                   {"stage", std::to_string(seat->second.stage)},
                   {"provider", member->second.name}},
                  value(report));
    }
  }
}

}  // namespace

std::string escape_label(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\n') {
      escaped += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') {
      escaped += '\\';
    }
    escaped += c;
  }
  return escaped;
}

std::string metrics(const State& state) {
  Text text;
  text.family("boots", "gauge", "How often the server was started with this log.");
  text.sample({}, state.durable.boot);
  text.family("epoch", "gauge", "The last membership epoch.");
  text.sample({}, state.durable.epoch);
  text.family("members", "gauge", "Providers and requesters that enrolled.");
  text.sample({}, state.durable.members.size());
  text.family("artifacts_in_use", "gauge", "Artifacts that something refers to.");
  text.sample({}, state.durable.references.size());
  write_providers(state, text);
  write_jobs(state, text);
  text.family("stage_samples_per_second", "gauge", "Samples that a stage learns from, a second.");
  write_stages(state, text, [](const Report& report) { return report.samples_per_second; });
  text.family("stage_delay", "gauge", "Updates between a pass's forward and its own update.");
  write_stages(state, text, [](const Report& report) { return report.delay; });
  text.family("stage_memory_bytes", "gauge", "Memory that a stage takes.");
  write_stages(state, text, [](const Report& report) { return report.memory_bytes; });
  text.family("stage_send_mbps", "gauge", "What a stage sends.");
  write_stages(state, text, [](const Report& report) { return report.send_mbps; });
  return text.str();
}

}  // namespace ravnest::coordinator
