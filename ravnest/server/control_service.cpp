#include "ravnest/server/control_service.h"

#include <control.grpc.pb.h>

#include "ravnest/base/error.h"
#include "ravnest/server/answers.h"
#include "ravnest/server/caller.h"
#include "ravnest/server/sessions.h"

namespace ravnest::server {

namespace {

using ::grpc::StatusCode;
using trust::Role;

// Of a member at a time. A provider has one, and those before it that are not known to be lost yet.
constexpr std::size_t kMostSessions = 16;
constexpr std::size_t kMostFeeds = 64;
// Each has an answer before long; what waits is in memory, and in everybody's way.
constexpr std::size_t kMostQuestions = 16;
constexpr std::size_t kLongestQuestion = std::size_t{1} << 20;

coordinator::Question read_short(const std::string& text) {
  if (text.size() > kLongestQuestion) {
    throw_invalid("Expected a question of at most ", kLongestQuestion, " bytes, got more.");
  }
  return coordinator::read_question(text);
}

// A question that waits for its turn at the desk.
struct Asked {
  Asked(Turnstile& turnstile, Caller by, const std::string& text)
      : caller(std::move(by)), pass(turnstile, caller.member.id), question(read_short(text)) {}

  const Caller caller;
  const Turnstile::Pass pass;
  const coordinator::Question question;
};

class ControlService final : public control::Control::CallbackService {
 public:
  ControlService(Desk& desk, trust::Authority authority)
      : desk_(desk), authority_(std::move(authority)) {}

  ::grpc::ServerBidiReactor<control::Word, control::Word>* Attend(
      ::grpc::CallbackServerContext* context) override {
    return WordStream::start(
        make_session(desk_, identify(*context->auth_context(), context->peer(), {Role::kProvider})),
        sessions_, *context);
  }

  ::grpc::ServerBidiReactor<control::Word, control::Word>* Feed(
      ::grpc::CallbackServerContext* context) override {
    return WordStream::start(
        make_feed(desk_, identify(*context->auth_context(), context->peer(), {Role::kRequester})),
        feeds_, *context);
  }

  ::grpc::ServerUnaryReactor* Ask(::grpc::CallbackServerContext* context,
                                  const control::Word* question, control::Word* answer) override {
    auto* reactor = context->DefaultReactor();
    const Verdict verdict = identify(*context->auth_context(), context->peer(),
                                     {Role::kServer, Role::kProvider, Role::kRequester});
    if (!verdict.caller) {
      reactor->Finish(verdict.status);
      return reactor;
    }
    try {
      auto asked = std::make_shared<const Asked>(questions_, *verdict.caller, question->text());
      desk_.post([this, reactor, answer,
                  asked = std::move(asked)] { reactor->Finish(reply(*asked, *answer)); },
                 [reactor] { reactor->Finish(server_ends()); });
    } catch (const std::invalid_argument& error) {
      reactor->Finish({StatusCode::INVALID_ARGUMENT, error.what()});
    } catch (const Error& error) {
      reactor->Finish({StatusCode::RESOURCE_EXHAUSTED, error.what()});
    }
    return reactor;
  }

 private:
  ::grpc::Status reply(const Asked& asked, control::Word& out) const {
    try {
      if (!is_member(desk_, asked.caller)) {
        return no_member();
      }
      out.set_text(answer(desk_, authority_, asked.caller, asked.question));
      return ::grpc::Status::OK;
    } catch (const Forbidden& error) {
      return {StatusCode::PERMISSION_DENIED, error.what()};
    } catch (const std::invalid_argument& error) {
      return {StatusCode::INVALID_ARGUMENT, error.what()};
    }
  }

  Desk& desk_;
  const trust::Authority authority_;
  Turnstile sessions_{kMostSessions};
  Turnstile feeds_{kMostFeeds};
  Turnstile questions_{kMostQuestions};
};

}  // namespace

std::unique_ptr<::grpc::Service> make_control_service(Desk& desk, trust::Authority authority) {
  return std::make_unique<ControlService>(desk, std::move(authority));
}

}  // namespace ravnest::server
