#include <control.grpc.pb.h>

#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "ravnest/base/error.h"
#include "ravnest/relay/switchboard.h"
#include "ravnest/server/caller.h"
#include "ravnest/server/control_service.h"
#include "ravnest/server/patience.h"
#include "ravnest/server/turnstile.h"

namespace ravnest::server {

using namespace coordinator;  // its words are what is spoken here

namespace {

using ::grpc::Status;
using ::grpc::StatusCode;
constexpr std::chrono::seconds kRelaySweep{1};
constexpr std::size_t kMostPipes = 128;       // of a member
constexpr std::size_t kMostPipesInAll = 256;  // half of the server's threads
constexpr std::chrono::seconds kFirstWord{10};

using Stream = ::grpc::ServerReaderWriter<control::PipePart, control::PipePart>;

// The server's end of a call, for as long as its handler runs.
class StreamPipe final : public relay::Pipe {
 public:
  StreamPipe(Stream& stream, ::grpc::ServerContext& context)
      : stream_(&stream), context_(&context) {}

  bool write(std::span<const std::byte> bytes) override {
    const std::lock_guard lock(mutex_);
    if (stream_ == nullptr) {
      return false;
    }
    control::PipePart part;
    part.set_payload(bytes.data(), bytes.size());
    return stream_->Write(part);
  }

  void close() override {
    const std::lock_guard lock(context_mutex_);
    if (context_ != nullptr) {
      context_->TryCancel();
    }
  }

  // The handler is about to return.
  void end() {
    close();  // who writes returns
    {
      const std::lock_guard lock(mutex_);
      stream_ = nullptr;
    }
    const std::lock_guard lock(context_mutex_);
    context_ = nullptr;
  }

 private:
  std::mutex mutex_;  // guards the stream, while somebody writes
  Stream* stream_;
  std::mutex context_mutex_;
  ::grpc::ServerContext* context_;
};

// Members of one job: its providers, and its requester.
std::set<JobId> jobs_of(const State& state, const MemberId& id) {
  std::set<JobId> jobs;
  if (const auto seat = state.durable.seats.find(id); seat != state.durable.seats.end()) {
    jobs.insert(seat->second.job);
  }
  for (const auto& [number, job] : state.durable.jobs) {
    if (job.requester == id && is_active(job.phase)) {
      jobs.insert(number);
    }
  }
  return jobs;
}

std::set<JobId> common_jobs(const State& state, const MemberId& from, const MemberId& to) {
  const std::set<JobId> theirs = jobs_of(state, to);
  std::set<JobId> jobs = jobs_of(state, from);
  std::erase_if(jobs, [&](JobId job) { return !theirs.contains(job); });
  return jobs;
}

// Each pipe has a thread of its own: those who need the relay are few.
class RelayService final : public control::Relay::Service {
 public:
  explicit RelayService(Desk& desk)
      : desk_(desk), switchboard_([&desk](const MemberId& from, const MemberId& to) {
          return desk.ask([&] { return !common_jobs(desk.state(), from, to).empty(); });
        }) {}

  Status Pipe(::grpc::ServerContext* context, Stream* stream) override {
    const Verdict verdict = identify(*context->auth_context(), context->peer(),
                                     {trust::Role::kProvider, trust::Role::kRequester});
    if (!verdict.caller) {
      return verdict.status;
    }
    try {
      if (!desk_.ask([&] { return is_member(desk_, *verdict.caller); })) {
        return no_member();
      }
      const Turnstile::Pass pass(turnstile_, verdict.caller->member.id);
      const auto pipe = std::make_shared<StreamPipe>(*stream, *context);
      carry(verdict.caller->member.id, *context, *stream, pipe);
      pipe->end();
      return Status::OK;
    } catch (const std::invalid_argument& error) {  // it was not put through: nobody has the pipe
      return {StatusCode::FAILED_PRECONDITION, error.what()};
    } catch (const std::exception& error) {
      return {StatusCode::UNAVAILABLE, error.what()};
    }
  }

 private:
  void carry(const MemberId& member, ::grpc::ServerContext& context, Stream& stream,
             const std::shared_ptr<StreamPipe>& pipe) {
    control::PipePart part;
    {
      const Patience::Waiting first_word(patience_, context);
      if (!stream.Read(&part)) {
        return;
      }
    }
    relay::PipeEvents events;
    if (part.has_connect()) {
      const MemberId& to = part.connect();
      auto placed = switchboard_.call(member, to, pipe, std::chrono::steady_clock::now());
      events = std::move(placed.events);
      desk_.post(
          [this, member, to, id = static_cast<std::int64_t>(placed.id)] { tell(member, to, id); });
    } else if (part.has_answer()) {
      events = switchboard_.answer(part.answer(), member, pipe);
    } else {
      throw_invalid("Expected whom to connect to, or which call to answer, got bytes.");
    }
    while (stream.Read(&part)) {
      events.on_bytes(std::as_bytes(std::span(part.payload())));
    }
    events.on_end();
  }

  void tell(const MemberId& from, const MemberId& to, std::int64_t call) {
    if (const auto listener = desk_.find(to)) {
      listener->say(to_text(ServerWord(Called{call})));
    }
    // A requester has a process for each of its jobs: another than the one meant would refuse.
    for (const auto& listener : desk_.find_feeds(to, common_jobs(desk_.state(), from, to))) {
      listener->say(to_text(FeedWord(Called{call})));
    }
  }

  // Calls that nobody answers, or that may no longer be, are ended.
  void sweep_again_and_again(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any waiting;
    std::unique_lock lock(mutex);
    while (!stop.stop_requested()) {
      waiting.wait_for(lock, stop, kRelaySweep, [] { return false; });
      try {
        switchboard_.sweep(std::chrono::steady_clock::now());
      } catch (const Error&) {  // the desk ends
      }
    }
  }

  Desk& desk_;
  Turnstile turnstile_{kMostPipes, kMostPipesInAll};
  Patience patience_{kFirstWord};
  relay::Switchboard switchboard_;
  std::jthread sweeping_{[this](const std::stop_token& stop) { sweep_again_and_again(stop); }};
};

}  // namespace

std::unique_ptr<::grpc::Service> make_relay_service(Desk& desk) {
  return std::make_unique<RelayService>(desk);
}

}  // namespace ravnest::server
