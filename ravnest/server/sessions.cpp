#include "ravnest/server/sessions.h"

#include <functional>
#include <utility>

#include "ravnest/base/address.h"
#include "ravnest/base/error.h"
#include "ravnest/base/table.h"
#include "ravnest/base/version.h"
#include "ravnest/relay/reach.h"

namespace ravnest::server {

using namespace coordinator;  // its words are what is spoken here

namespace {

constexpr Milliseconds kReachTime{1000};
// Of a first word, which is kept while that is found out; of those that follow, of which there are
// many.
constexpr std::size_t kLongestHello = std::size_t{1} << 20;
constexpr std::size_t kLongestWord = std::size_t{64} << 10;

void check_length(const std::string& word, bool is_first) {
  const std::size_t most = is_first ? kLongestHello : kLongestWord;
  if (word.size() > most) {
    throw_invalid("Expected a ", is_first ? "first " : "", "word of at most ", most,
                  " bytes, got more.");
  }
}

void check_protocol(std::int64_t protocol, const std::string& program) {
  if (protocol != kControlProtocol) {
    throw_invalid("Expected protocol ", kControlProtocol, " of ravnest ", version(), ", got ",
                  protocol, " of ravnest ", printable(program.substr(0, 32)),
                  ": install the same version.");
  }
}

// Where somebody says it can be reached, seen from here.
std::string address_of(const Reach& reach, const std::string& host) {
  const std::string address = concat(reach.host.empty() ? host : reach.host, ":", reach.port);
  parse_address(address);  // throws
  return address;
}

// Asks whether others reach it, beside the desk, and goes on at the desk. It connects to the host
// that the member's own connection came from, whatever host it names: that could be any machine of
// the server's own network.
template <typename Then>
void find_out(Desk& desk, const Reach& reach, const std::string& host, Then then,
              std::function<void()> dropped) {
  if (reach.nonce.empty()) {
    then(reach.was_reached);
    return;
  }
  desk.reach_tests().post([&desk, nonce = relay::read_nonce(reach.nonce),
                           address = concat(host, ":", reach.port), then = std::move(then),
                           dropped = std::move(dropped)] {
    const bool is_reached = !desk.is_ending() && relay::answers(address, nonce, kReachTime);
    desk.post([then, is_reached] { then(is_reached); }, dropped);
  });
}

class Session final : public WordStream {
 public:
  using WordStream::WordStream;

 private:
  Handling read(const std::string& text) override {
    check_length(text, session_ == 0);
    return [this, word = read_provider_word(text)] {
      if (session_ == 0) {
        const auto* hello = std::get_if<Hello>(&word);
        if (hello == nullptr) {
          throw_invalid("Expected hello first, got another word.");
        }
        greet(*hello);
        return false;
      }
      std::visit([this](const auto& each) { handle(each); }, word);
      return true;
    };
  }

  void greet(const Hello& hello) {
    check_protocol(hello.protocol, hello.program);
    const std::string address = address_of(hello.reach, caller().host);
    auto self = std::static_pointer_cast<Session>(shared_from_this());
    find_out(
        desk(), hello.reach, caller().host,
        [self, hello, address](bool is_reached) { self->join(hello, address, is_reached); },
        [self] { self->finish(server_ends()); });
  }

  void join(const Hello& hello, const std::string& address, bool is_reached) {
    const Decision decision = desk().join({.provider = caller().member.id,
                                           .address = address,
                                           .is_relayed = !is_reached,
                                           .measured = hello.measured,
                                           .holds = hello.holds},
                                          shared_from_this());
    if (!decision.is_accepted) {
      refuse(decision.reason);
      return;
    }
    session_ = decision.session;
    read_next();
  }

  void on_closed() override {
    if (const std::int64_t session = std::exchange(session_, 0); session != 0) {
      desk().forget(session);
      desk().handle(Closed{caller().member.id, session});
    }
  }

  FromStage from(const Post& post) const {
    return {.provider = caller().member.id,
            .session = session_,
            .job = post.seat.job,
            .cluster = post.seat.cluster,
            .epoch = post.epoch,
            .stage = post.seat.stage};
  }

  void handle(const Hello& /*word*/) { throw_invalid("Expected hello once, got it again."); }
  void handle(const StillHere& /*word*/) { desk().handle(Beat{caller().member.id, session_}); }
  void handle(const WantsToLeave& /*word*/) { desk().handle(Leave{caller().member.id, session_}); }
  // A word of an epoch that has passed is refused by the decision, and that is all.
  void handle(const IsReady& word) { desk().handle(StageReady{from(word.post)}); }
  void handle(const Tells& word) { desk().handle(StageReport{from(word.post), word.report}); }
  void handle(const HasKept& word) { desk().handle(StageKept{from(word.post), word.versions}); }
  void handle(const HasCheckpoint& word) {
    // One that is gone was the same as another cluster's, which has a newer restore point by now.
    if (is_there(word.artifact)) {
      desk().handle(StageCheckpoint{from(word.post), word.version, word.artifact});
    }
  }
  void handle(const HasResult& word) {
    if (!is_there(word.artifact)) {
      end("A result is gone that was the same as another's: it is to come again.");
      return;
    }
    desk().handle(StageResult{from(word.post), word.artifact});
  }
  void handle(const HasFailed& word) {
    desk().handle(
        StageFailed{from(word.post), word.reason, word.is_memory, word.is_final, word.suspect});
  }
  void handle(const CannotReach& word) {
    desk().handle(StageUnreached{from(word.post), word.peer, word.reason});
  }

  void handle(const IsMeasurable& word) {
    desk().handle(Measurable{caller().member.id, session_, word.probe});
  }
  void handle(const HasMeasured& word) {
    desk().handle(LinksMeasured{caller().member.id, session_, word.links});
  }

  bool is_there(const Hash& hash) {
    if (!is_hash(hash)) {
      throw_invalid("Expected the name of a file, got another word.");
    }
    return desk().artifacts().has(hash);
  }

  std::int64_t session_ = 0;
};

class FeedStream final : public WordStream {
 public:
  using WordStream::WordStream;

 private:
  Handling read(const std::string& text) override {
    check_length(text, job_ == 0);
    return [this, word = read_requester_word(text)] { return take(word); };
  }

  bool take(const RequesterWord& word) {
    const auto* offer = std::get_if<Offer>(&word);
    if (job_ != 0) {
      if (offer != nullptr) {
        throw_invalid("Expected one offer, got another.");
      }
      return true;
    }
    if (offer == nullptr) {
      throw_invalid("Expected an offer first, got another word.");
    }
    check_protocol(offer->protocol, offer->program);
    const std::string address = address_of(offer->reach, caller().host);
    auto self = std::static_pointer_cast<FeedStream>(shared_from_this());
    find_out(
        desk(), offer->reach, caller().host,
        [self, job = offer->job, address](bool is_reached) {
          self->offer(job, {.requester = {}, .address = address, .is_relayed = !is_reached});
        },
        [self] { self->finish(server_ends()); });
    return false;
  }

  void offer(JobId job, const coordinator::Feed& feed) {
    const Decision decision =
        desk().handle(FeedOffered{.job = job, .requester = caller().member.id, .feed = feed});
    const Job* found = find_job(desk().state().durable, job);
    const bool is_known = found != nullptr && found->requester == caller().member.id;
    if (!decision.is_accepted && !is_known) {
      refuse(decision.reason);
      return;
    }
    job_ = job;  // one that is over is told how it ended
    desk().watch(job, shared_from_this());
    read_next();
  }

  void on_closed() override {
    if (const JobId job = std::exchange(job_, 0); job != 0 && desk().unwatch(job, *this)) {
      desk().handle(FeedGone{.job = job, .requester = caller().member.id});
    }
  }

  JobId job_ = 0;
};

}  // namespace

std::shared_ptr<WordStream> make_session(Desk& desk, Verdict verdict) {
  return std::make_shared<Session>(desk, std::move(verdict));
}

std::shared_ptr<WordStream> make_feed(Desk& desk, Verdict verdict) {
  return std::make_shared<FeedStream>(desk, std::move(verdict));
}

}  // namespace ravnest::server
