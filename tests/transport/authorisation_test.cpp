// Every method of every service in proto/, called with every kind of credentials: the list is made
// from the .proto files, so that a method that is added is tried too, and fails here until it is
// said whom it serves.

#include <enrol.pb.h>

#include <set>

#include "ravnest/transport/grpc/credentials.h"
#include "ravnest/transport/grpc/enrolment_server.h"
#include "ravnest/transport/grpc/frame_format.h"
#include "ravnest/trust/token_record.h"
#include "tests/transport/grpc_call.h"
#include "tests/transport/protocols.h"
#include "tests/transport/raw_stream.h"
#include "tests/transport/self_signed.h"
#include "tests/transport/tls_world.h"

namespace ravnest::transport {
namespace {

enum class Shown {
  kNoCertificate,
  kPlainText,
  kSelfSigned,
  kExpired,
  kNotYetValid,
  kOtherAuthority,
  kNotInPlan,
  kOtherJob,
  kAnothersName,
  kRight,
};

const std::vector<std::pair<Shown, std::string>> kShown{
    {Shown::kNoCertificate, "NoCertificate"}, {Shown::kPlainText, "PlainText"},
    {Shown::kSelfSigned, "SelfSigned"},       {Shown::kExpired, "Expired"},
    {Shown::kNotYetValid, "NotYetValid"},     {Shown::kOtherAuthority, "OtherAuthority"},
    {Shown::kNotInPlan, "NotInPlan"},         {Shown::kOtherJob, "OtherJob"},
    {Shown::kAnothersName, "AnothersName"},   {Shown::kRight, "Right"}};

// Enrolment is for who is no member yet: the token decides there, but a certificate that is shown
// must be good.
const std::set<Shown> kAnybody{Shown::kNoCertificate, Shown::kNotInPlan, Shown::kOtherJob,
                               Shown::kAnothersName, Shown::kRight};

// Whom a method serves.
const std::map<std::string, std::set<Shown>> kServed{{"/ravnest.wire.Wire/Carry", {Shown::kRight}},
                                                     {"/ravnest.enrol.Enrolment/Greet", kAnybody},
                                                     {"/ravnest.enrol.Enrolment/Enrol", kAnybody}};

std::vector<std::string> methods() {
  std::vector<std::string> found = all_methods();
  std::erase_if(found, is_of_server);
  return found;
}

trust::Identity identity_for(Shown shown) {
  using std::chrono::days;
  const auto now = std::chrono::system_clock::now();
  const trust::Member right{.id = TlsWorld::member_of("raw")};
  switch (shown) {
    case Shown::kSelfSigned:
      return self_signed(TlsWorld::authority().make_identity(right, valid_now()));
    case Shown::kExpired:
      return TlsWorld::authority().make_identity(right,
                                                 {.from = now - days(9), .until = now - days(1)});
    case Shown::kNotYetValid:
      return TlsWorld::authority().make_identity(right,
                                                 {.from = now + days(1), .until = now + days(9)});
    case Shown::kOtherAuthority: {
      trust::Identity other = trust::Authority::make(now).make_identity(right, valid_now());
      other.authority = TlsWorld::authority().certificate();  // knows whom it calls
      return other;
    }
    case Shown::kAnothersName:
      return TlsWorld::identity_of("node_3");
    case Shown::kNotInPlan:
      return TlsWorld::identity_of("stranger");
    default:
      return TlsWorld::identity_of("raw");
  }
}

std::shared_ptr<::grpc::ChannelCredentials> credentials_for(Shown shown) {
  if (shown == Shown::kPlainText) {
    return ::grpc::InsecureChannelCredentials();
  }
  if (shown == Shown::kNoCertificate) {
    return make_channel_credentials(TlsWorld::authority().certificate());
  }
  return make_channel_credentials(identity_for(shown));
}

// A node and a server that enrols.
class Doors : public ::testing::Test {
 protected:
  Doors() {
    const auto now = std::chrono::system_clock::now();
    record_ = trust::record_of(token_, {.expires = now + std::chrono::hours(1), .uses = 1});
    receiver_ = node_.transport->receive({"raw", ""}, "forward", inbox_.handler());
    const auto admit = [this](const trust::Digest& hash, const std::string&) -> trust::Admission {
      const auto role =
          trust::redeem(std::span(&record_, 1), hash, std::chrono::system_clock::now()).role;
      return {.member = role ? std::optional(trust::Member{.id = "new"}) : std::nullopt,
              .reason = "no"};
    };
    enrolment_ = std::make_unique<EnrolmentServer>(
        TlsWorld::authority().make_identity({.id = "s", .role = trust::Role::kServer}, valid_now()),
        std::make_shared<trust::EnrolmentDesk>(TlsWorld::authority(), admit),
        EnrolmentServerOptions{});
  }

  std::string wire_hello(Shown shown) const {
    Hello hello = hello_to("node_1");
    hello.plan = shown == Shown::kOtherJob ? "another job" : "plan";
    hello.from = shown == Shown::kNotInPlan ? "stranger" : "raw";
    return write_head(hello, 0);
  }
  std::string enrol_form() const {
    enrol::EnrolRequest request;
    request.set_secret(token_.secret.bytes().data(), token_.secret.bytes().size());
    request.set_name("box");
    request.set_certificate_request(trust::Request::make(trust::PrivateKey::make()).to_pem());
    return request.SerializeAsString();
  }
  static std::optional<FrameHead> frame_of(const std::optional<std::string>& answer) {
    if (!answer) {
      return std::nullopt;
    }
    const auto bytes = std::as_bytes(std::span(*answer));
    const std::vector<std::span<const std::byte>> parts{bytes};
    return read_frame(parts).head;
  }

  struct Result {
    bool is_served = false;
    std::string said;
  };
  Result call(const std::string& method, Shown shown) {
    const bool is_wire = method.starts_with("/ravnest.wire.");
    GrpcCall call(is_wire ? node_.transport->address() : enrolment_->address(),
                  credentials_for(shown),
                  is_wire ? trust::tls_name_of(TlsWorld::member_of("node_1"))
                          : std::string(trust::kServerTlsName));
    const auto answer = call.ask(method, is_wire ? wire_hello(shown) : enrol_form());
    Result result{.said = call.status().error_message()};
    if (method.ends_with("/Greet")) {
      enrol::GreetReply reply;
      result.is_served = answer && reply.ParseFromString(*answer) && !reply.program().empty();
    } else if (!is_wire) {
      enrol::EnrolReply reply;
      result.is_served = answer && reply.ParseFromString(*answer) && !reply.certificate().empty();
    } else if (const auto head = frame_of(answer)) {
      result.is_served = std::holds_alternative<Welcome>(*head);
      if (const auto* refusal = std::get_if<Refusal>(&*head)) {
        result.said = refusal->text;
      }
    }
    return result;
  }

  TlsWorld world_;
  TestNode node_{world_, "node_1"};
  Inbox inbox_;
  std::unique_ptr<Receiver> receiver_;
  const trust::Token token_ = trust::make_token(trust::Role::kProvider, {});
  trust::TokenRecord record_;
  std::unique_ptr<EnrolmentServer> enrolment_;
};

class Authorisation
    : public Doors,
      public ::testing::WithParamInterface<std::tuple<std::string, std::pair<Shown, std::string>>> {
};

TEST_P(Authorisation, ServesWhomItShouldAndNobodyElse) {
  const auto& [method, shown] = GetParam();
  ASSERT_TRUE(kServed.contains(method)) << "whom does " << method << " serve?";
  const Result result = call(method, shown.first);
  EXPECT_EQ(result.is_served, kServed.at(method).contains(shown.first)) << result.said;
  if (!result.is_served) {
    // It stands, and serves who is right; a token that was refused was not used.
    EXPECT_EQ(record_.uses_left, 1U);
    EXPECT_EQ(node_.count(NoticeKind::kOpen), 0U);
    EXPECT_TRUE(call(method, Shown::kRight).is_served);
  }
}

TEST_F(Doors, SayWhyWhereAnHonestUserMayBeHelped) {
  const std::map<Shown, std::string> sentences{
      {Shown::kNotInPlan, "stranger is not in the plan; it must be started from the same one."},
      {Shown::kOtherJob,
       "node_1 runs plan plan, raw plan another job; both must be started from the same plan."},
      {Shown::kAnothersName,
       "raw is member member-raw by the plan, and who connects is member member-node-3."}};
  for (const auto& [shown, sentence] : sentences) {
    EXPECT_EQ(call("/ravnest.wire.Wire/Carry", shown).said, sentence);
  }
}

INSTANTIATE_TEST_SUITE_P(Matrix, Authorisation,
                         ::testing::Combine(::testing::ValuesIn(methods()),
                                            ::testing::ValuesIn(kShown)),
                         [](const auto& made) {
                           const std::string& method = std::get<0>(made.param);
                           return method.substr(method.rfind('/') + 1) +
                                  std::get<1>(made.param).second;
                         });

TEST(AuthorisationMatrix, HasARowForEveryMethod) {
  std::vector<std::string> known;
  for (const auto& [method, served] : kServed) {
    known.push_back(method);
  }
  EXPECT_EQ(methods(), known);
}

}  // namespace
}  // namespace ravnest::transport
