#include "ravnest/cli/provider_for_agent.h"

#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "ravnest/base/error.h"
#include "ravnest/base/table.h"
#include "ravnest/cli/agent_talk.h"
#include "ravnest/cli/provider_report.h"

namespace ravnest::cli {

namespace {

using provider::Milliseconds;
using provider::Provider;
using transport::NoticeKind;

constexpr unsigned kRestTicks = 4;

// False where the agent had it end.
bool work_for_agent(Provider& running, AgentTalk& talk, ProviderReport& report) {
  std::int64_t passes = 0;
  unsigned since = 0;  // the tick when they last were others
  for (unsigned tick = 1; !running.is_over(); ++tick) {
    for (const std::string& word : talk.listen(kTick)) {
      if (word == "keep") {
        running.keep();
        return false;
      }
      if (word == "checkpoint") {
        running.ask_for_checkpoint();
      } else {
        talk.note(concat("expected keep or checkpoint, got '", word, "'."));
      }
    }
    const Provider::Status status = running.status();
    if (std::exchange(passes, status.passes) != status.passes) {
      since = tick;
    } else if (tick - since >= kRestTicks && status.loop.in_flight == 0) {
      running.keep_at_rest();
    }
    // A child that hangs says nothing more, and is found by that.
    if (tick % 2 == 0 && running.is_alive()) {
      talk.say(status.samples > 0 ? report.make(running) : nlohmann::json{{"event", "alive"}});
    }
  }
  running.wait_for_training(0, Milliseconds(0));  // throws what ended it
  return true;
}

// A loss is told again and again as long as it lasts; an agent hears it once.
class Losses {
 public:
  bool is_news(const transport::Notice& notice) {
    const std::lock_guard lock(mutex_);
    const auto channel = std::pair(notice.peer, notice.channel);
    if (notice.kind == NoticeKind::kLost) {
      return lost_.insert(channel).second;
    }
    lost_.erase(channel);
    return notice.kind == NoticeKind::kFailed || notice.kind == NoticeKind::kRefused ||
           notice.kind == NoticeKind::kNews || notice.kind == NoticeKind::kWarning;
  }

 private:
  std::mutex mutex_;
  std::set<std::pair<std::string, std::string>> lost_;
};

provider::ProviderCallbacks callbacks_for(const std::string& name, AgentTalk& talk,
                                          ProviderReport& report) {
  provider::ProviderCallbacks callbacks;
  callbacks.on_notice = [&talk, &report,
                         losses = std::make_shared<Losses>()](const transport::Notice& notice) {
    if (notice.channel == "reduce") {
      report.note_averaging(notice.text);
    }
    if (losses->is_news(notice)) {
      talk.note(notice.text);
    }
  };
  callbacks.on_averaged = [name, &report](const provider::AveragingNews& news) {
    report.note_averaging(describe(news, name));
  };
  callbacks.on_unreached = [&talk](const std::string& peer, const std::string& why) {
    talk.say({{"event", "unreached"}, {"peer", peer}, {"reason", printable(why)}});
  };
  callbacks.on_checkpoint = [&talk](const provider::KeptCheckpoint& kept) {
    talk.say({{"event", "checkpoint"}, {"version", kept.passes}, {"file", kept.file.string()}});
  };
  callbacks.on_saved = [&talk](const std::filesystem::path& file, std::int64_t passes) {
    talk.say({{"event", "saved"}, {"version", passes}, {"file", file.string()}});
  };
  return callbacks;
}

}  // namespace

void run_for_agent(const std::function<provider::ProviderOptions()>& make_options,
                   const std::function<std::string()>& close_in) {
  const std::string lacking = close_in ? close_in() : "";
  AgentTalk talk;
  ProviderReport report;
  if (!lacking.empty()) {
    talk.note(lacking);
  }
  std::optional<Provider> running;
  try {
    const provider::ProviderOptions options = make_options();
    running.emplace(options, callbacks_for(options.name, talk, report));
    talk.say({{"event", "ready"}});
    running->start();
    if (work_for_agent(*running, talk, report)) {
      running->close(kGoodbye);
    }
  } catch (...) {
    talk.say(failure_event(std::current_exception(),
                           running ? running->status().loop.suspect : std::string()));
    throw;
  }
}

}  // namespace ravnest::cli
