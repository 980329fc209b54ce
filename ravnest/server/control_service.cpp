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
    desk_.post([this, reactor, question, answer,
                caller = *verdict.caller] { reactor->Finish(reply(caller, *question, *answer)); },
               [reactor] { reactor->Finish(server_ends()); });
    return reactor;
  }

 private:
  ::grpc::Status reply(const Caller& caller, const control::Word& question,
                       control::Word& out) const {
    try {
      if (!is_member(desk_, caller)) {
        return no_member();
      }
      out.set_text(answer(desk_, authority_, caller, coordinator::read_question(question.text())));
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
};

}  // namespace

std::unique_ptr<::grpc::Service> make_control_service(Desk& desk, trust::Authority authority) {
  return std::make_unique<ControlService>(desk, std::move(authority));
}

}  // namespace ravnest::server
