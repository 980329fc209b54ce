// A machine becomes a member, over the network, and nobody else does.

#include <enrol.grpc.pb.h>
#include <grpcpp/server_builder.h>

#include <thread>

#include "ravnest/base/version.h"
#include "ravnest/transport/grpc/credentials.h"
#include "ravnest/transport/grpc/enrolment_client.h"
#include "ravnest/transport/grpc/enrolment_server.h"
#include "ravnest/transport/grpc/guarded_server.h"
#include "ravnest/transport/grpc/pinned_authority.h"
#include "ravnest/trust/token_record.h"
#include "tests/base/has.h"
#include "tests/transport/grpc_call.h"
#include "tests/transport/tcp_client.h"
#include "tests/transport/tls_world.h"

namespace ravnest::transport {
namespace {

using trust::Authority;
using trust::Role;
using trust::Token;

constexpr const char* kMethod = "/ravnest.enrol.Enrolment/Enrol";

trust::WallTime wall_now() { return std::chrono::system_clock::now(); }

trust::Identity server_identity(const Authority& authority) {
  return authority.make_identity({.id = "server-1", .role = Role::kServer}, valid_now());
}

// Says yes to everybody, and remembers what it was told: the man in the middle.
class Thief final : public enrol::Enrolment::Service {
 public:
  ::grpc::Status Enrol(::grpc::ServerContext*, const enrol::EnrolRequest* request,
                       enrol::EnrolReply*) override {
    stolen.add(request->secret());
    return ::grpc::Status::OK;
  }
  Log<std::string> stolen;
};

class Enrolling : public ::testing::Test {
 protected:
  explicit Enrolling(trust::EnrolmentOptions options = {})
      : desk_(std::make_shared<trust::EnrolmentDesk>(
            authority_,
            [this](const trust::Digest& hash, const std::string& name) {
              return admit(hash, name);
            },
            std::move(options))) {}

  trust::Admission admit(const trust::Digest& hash, const std::string& name) {
    asked_.add(name);
    const auto redeemed = trust::redeem(records_, hash, wall_now());
    if (!redeemed.role) {
      return {.member = {}, .reason = redeemed.reason};
    }
    return {.member = trust::Member{.id = trust::make_member_id(), .role = *redeemed.role},
            .reason = {}};
  }
  Token make_token(Role role, std::uint32_t uses = 1,
                   std::chrono::minutes lasting = std::chrono::minutes(10)) {
    Token token = trust::make_token(role, authority_.certificate().fingerprint());
    records_.push_back(trust::record_of(token, {.expires = wall_now() + lasting, .uses = uses}));
    return token;
  }
  trust::Identity enrol_at(const std::string& address, const Token& token,
                           const std::string& name = "box") const {
    return enrol(token, {.server = address, .name = name, .timeout = kPatience});
  }
  std::string refusal_of(const Token& token, const std::string& name = "box") const {
    return text_thrown<std::invalid_argument>([&] { enrol_at(server_.address(), token, name); });
  }

  const Authority authority_ = Authority::make(wall_now());
  std::vector<trust::TokenRecord> records_;  // of the desk's callback
  Log<std::string> asked_;
  std::shared_ptr<trust::EnrolmentDesk> desk_;
  EnrolmentServer server_{server_identity(authority_), desk_, {}};
};

TEST_F(Enrolling, AMachineBecomesAMember) {
  const Token token = make_token(Role::kRequester);
  const trust::Identity identity = enrol_at(server_.address(), token, "laptop-3.local");
  EXPECT_EQ(identity.certificate.member().role, Role::kRequester);
  EXPECT_EQ(identity.authority.fingerprint(), authority_.certificate().fingerprint());
  trust::check_identity(identity, wall_now());
  EXPECT_EQ(asked_.entries(), std::vector<std::string>{"laptop-3.local"});
}

TEST_F(Enrolling, AnybodyIsToldTheTimeAndTheVersion) {
  const ServerGreeting greeting = greet(server_.address(), authority_.certificate(), kPatience);
  EXPECT_EQ(greeting.program, version());
  const auto now = std::chrono::floor<std::chrono::seconds>(wall_now());
  EXPECT_LE(std::abs(now.time_since_epoch().count() - greeting.seconds), 60);
  EXPECT_GT(greeting.latency_ms, 0.0);
  const Authority other = Authority::make(wall_now());
  EXPECT_THROW(greet(server_.address(), other.certificate(), kPatience), Error);
}

TEST_F(Enrolling, WhoHasEnrolledCanTalk) {
  const Token token = make_token(Role::kProvider, 2);
  const auto first = enrol_at(server_.address(), token);
  const auto second = enrol_at(server_.address(), token);
  const Members members{{"node_0", first.certificate.member().id},
                        {"node_1", second.certificate.member().id}};
  const auto make = [&](const char* name, const trust::Identity& identity) {
    return make_grpc_transport({.credentials = make_tls_credentials(identity)},
                               {.name = name, .plan = "plan", .members = members});
  };
  const auto a = make("node_0", first);
  const auto b = make("node_1", second);
  Inbox inbox;
  const auto receiver = b->receive({"node_0", ""}, "forward", inbox.handler());
  const auto sender = a->open({"node_1", b->address()}, "forward");
  sender->send(numbered(1, 100'000), kPatience);
  EXPECT_EQ(take_passes(inbox, 1), passes_to(1));
}

TEST_F(Enrolling, AnotherSecretOpensNothing) {
  make_token(Role::kProvider);
  const Token other = trust::make_token(Role::kProvider, authority_.certificate().fingerprint());
  EXPECT_TRUE(has(refusal_of(other), "refused: the token is not known here.")) << refusal_of(other);
}

TEST_F(Enrolling, ATokenIsGoodForItsUsesAlone) {
  const Token token = make_token(Role::kProvider, 2);
  EXPECT_NE(enrol_at(server_.address(), token).certificate.member().id,
            enrol_at(server_.address(), token).certificate.member().id);
  EXPECT_TRUE(has(refusal_of(token), "the token has been used up"));
}

TEST_F(Enrolling, AnExpiredTokenSaysSo) {
  const Token token = make_token(Role::kProvider, 1, std::chrono::minutes(-1));
  EXPECT_TRUE(has(refusal_of(token), "the token expired on "));
}

TEST_F(Enrolling, NamesAreCheckedBeforeAnythingIsSent) {
  const Token token = make_token(Role::kProvider);
  EXPECT_TRUE(has(refusal_of(token, "box\x1b[2J"), "expected a name"));
  EXPECT_TRUE(asked_.entries().empty());
}

TEST_F(Enrolling, NothingThatIsSaidHasTheSecretInIt) {
  const Token token = trust::make_token(Role::kProvider, authority_.certificate().fingerprint());
  const std::string said = refusal_of(token);
  const std::string text = to_text(token);
  for (std::size_t at = 8; at + 6 <= text.size(); ++at) {
    EXPECT_FALSE(has(said, text.substr(at, 6)));
  }
}

TEST_F(Enrolling, ManyMayComeAtOnce) {
  const Token token = make_token(Role::kProvider, 5);
  std::atomic<int> admitted = 0;
  {
    std::vector<std::jthread> machines;
    for (int i = 0; i < 8; ++i) {
      machines.emplace_back([&] {
        try {
          static_cast<void>(enrol_at(server_.address(), token));
          ++admitted;
        } catch (const std::invalid_argument&) {  // used up
        }
      });
    }
  }
  EXPECT_EQ(admitted, 5);
}

// A server of another authority, which wants to know the secret.
class Thieves : public Enrolling {
 protected:
  void listen(const std::shared_ptr<::grpc::ServerCredentials>& credentials) {
    ::grpc::ServerBuilder builder;
    builder.RegisterService(&thief_);
    server_of_thief_.start(builder, credentials);
  }
  std::string said_at_thief() {
    const Token token = make_token(Role::kProvider);
    return text_thrown<std::invalid_argument>(
        [&] { static_cast<void>(enrol_at(server_of_thief_.address(), token)); });
  }

  Thief thief_;
  GuardedServer server_of_thief_{"127.0.0.1:0", {}, Milliseconds(3000)};
};

TEST_F(Thieves, WithAnAuthorityOfTheirOwnAreToldNothing) {
  const Authority other = Authority::make(wall_now());
  listen(make_server_credentials(server_identity(other), Callers::kAnybody));
  EXPECT_TRUE(has(said_at_thief(), "got another, with another authority; it was told nothing"));
  EXPECT_TRUE(thief_.stolen.entries().empty());
}

TEST_F(Thieves, ThatShowOurAuthorityBehindTheirOwnCertificateAreToldNothing) {
  trust::Identity mixed = server_identity(Authority::make(wall_now()));
  mixed.authority = authority_.certificate();
  listen(make_server_credentials(mixed, Callers::kAnybody));
  EXPECT_TRUE(has(said_at_thief(), "expected a certificate of our authority"));
  EXPECT_TRUE(thief_.stolen.entries().empty());
}

TEST_F(Thieves, ThatAreMembersThemselvesAreToldNothing) {
  const auto member = authority_.make_identity({.id = "server"}, valid_now());
  listen(make_server_credentials(member, Callers::kAnybody));
  EXPECT_TRUE(has(said_at_thief(), "got another member of its pool; it was told nothing"));
  EXPECT_TRUE(thief_.stolen.entries().empty());
}

TEST_F(Thieves, ThatTakeOverAfterTheFirstLookAreToldNothing) {
  // What enrol does second: gRPC, with the authority that was found, to whoever answers now.
  const Authority other = Authority::make(wall_now());
  const auto member = authority_.make_identity({.id = "server"}, valid_now());
  for (const auto& identity : {server_identity(other), member}) {
    Thief thief;
    GuardedServer server("127.0.0.1:0", {}, Milliseconds(3000));
    ::grpc::ServerBuilder builder;
    builder.RegisterService(&thief);
    server.start(builder, make_server_credentials(identity, Callers::kAnybody));
    GrpcCall call(server.address(), make_channel_credentials(authority_.certificate()),
                  trust::kServerTlsName);
    EXPECT_FALSE(call.ask(kMethod, "\n\x06secret"));
    EXPECT_EQ(call.status().error_code(), ::grpc::StatusCode::UNAVAILABLE);
    EXPECT_TRUE(thief.stolen.entries().empty());
  }
}

TEST_F(Thieves, WithoutTlsAreToldNothing) {
  listen(::grpc::InsecureServerCredentials());
  const Token token = make_token(Role::kProvider);
  const std::string said =
      text_thrown<Error>([&] { static_cast<void>(enrol_at(server_of_thief_.address(), token)); });
  EXPECT_TRUE(has(said, "it does not speak TLS as ours do") ||
              has(said, "it closed the connection"))
      << said;
  EXPECT_TRUE(thief_.stolen.entries().empty());
}

TEST_F(Enrolling, AServerWhoseOwnCertificateHasExpiredIsToldNothing) {
  const auto late = authority_.make_identity(
      {.id = "server-1", .role = Role::kServer},
      {.from = wall_now() - std::chrono::days(9), .until = wall_now() - std::chrono::days(1)});
  EXPECT_THROW(EnrolmentServer(late, desk_, {}), std::invalid_argument);
  GuardedServer server("127.0.0.1:0", {}, Milliseconds(3000));
  Thief thief;
  ::grpc::ServerBuilder builder;
  builder.RegisterService(&thief);
  server.start(builder, make_server_credentials(late, Callers::kAnybody));
  const Token token = make_token(Role::kProvider);
  EXPECT_TRUE(has(text_thrown<std::invalid_argument>(
                      [&] { static_cast<void>(enrol_at(server.address(), token)); }),
                  "expired on "));
  EXPECT_TRUE(thief.stolen.entries().empty());
}

TEST_F(Enrolling, OnlyAServerOfItsOwnAuthorityMayOpenADesk) {
  const auto provider = authority_.make_identity({.id = "p"}, valid_now());
  EXPECT_THROW(EnrolmentServer(provider, desk_, {}), std::invalid_argument);
  const auto other = server_identity(Authority::make(wall_now()));
  EXPECT_THROW(EnrolmentServer(other, desk_, {}), std::invalid_argument);
}

TEST_F(Enrolling, SaysWhenNobodyAnswers) {
  const ReservedPort nobody;
  const Token token = make_token(Role::kProvider);
  EXPECT_EQ(kind_thrown([&] { static_cast<void>(enrol_at(nobody.address(), token)); }),
            ErrorKind::kPeerLost);
  EXPECT_THROW(static_cast<void>(enrol_at("no address", token)), std::invalid_argument);
}

TEST_F(Enrolling, DoesNotWaitForEverForAMuteServer) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(listener, 1), 0);
  socklen_t size = sizeof(address);
  ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  EXPECT_EQ(kind_thrown([&] {
              static_cast<void>(
                  fetch_authority("127.0.0.1:" + std::to_string(ntohs(address.sin_port)),
                                  authority_.certificate().fingerprint(), Milliseconds(50)));
            }),
            ErrorKind::kTimeout);
  ::close(listener);
}

// Forms that no client of ours sends.
class Forged : public Enrolling {
 protected:
  ::grpc::Status send(const std::string& bytes) const {
    GrpcCall call(server_.address(), make_channel_credentials(authority_.certificate()),
                  trust::kServerTlsName);
    EXPECT_FALSE(call.ask(kMethod, bytes));
    return call.status();
  }
  enrol::EnrolRequest form(const Token& token) const {
    enrol::EnrolRequest request;
    request.set_secret(token.secret.bytes().data(), token.secret.bytes().size());
    request.set_name("box");
    request.set_certificate_request(trust::Request::make(trust::PrivateKey::make()).to_pem());
    return request;
  }
};

TEST_F(Forged, FormsAreRefusedAndCostNoUse) {
  const Token token = make_token(Role::kProvider);
  std::vector<enrol::EnrolRequest> forms(6, form(token));
  forms[0].set_name(std::string("b\0x", 3));
  forms[1].set_name("box\r\n\x1b[31m");
  forms[2].set_certificate_request("no request");
  forms[3].set_certificate_request(std::string(8000, 'A'));
  forms[4].set_secret("short");
  forms[5].clear_secret();
  for (const auto& form : forms) {
    const ::grpc::Status status = send(form.SerializeAsString());
    EXPECT_EQ(status.error_code(), ::grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
    EXPECT_FALSE(has(status.error_message(), "\x1b"));
  }
  EXPECT_TRUE(asked_.entries().empty());
  static_cast<void>(enrol_at(server_.address(), token));
}

TEST_F(Forged, FormsThatAreTooLargeOrNoFormsAreRefused) {
  const Token token = make_token(Role::kProvider);
  enrol::EnrolRequest large = form(token);
  large.set_certificate_request(std::string(1 << 20, 'A'));
  EXPECT_EQ(send(large.SerializeAsString()).error_code(), ::grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_FALSE(send("\xff\xff\xff\xff").ok());
  EXPECT_FALSE(send(std::string(10'000, '\n')).ok());
  EXPECT_TRUE(asked_.entries().empty());
  static_cast<void>(enrol_at(server_.address(), token));
}

class Guessing : public Enrolling {
 protected:
  Guessing() : Enrolling(options()) {}
  static trust::EnrolmentOptions options() {
    trust::EnrolmentOptions options;
    options.limits = {.burst = 5, .refill = std::chrono::hours(1)};
    return options;
  }
};

TEST_F(Guessing, IsStoppedBeforeTheTokensAreLookedAt) {
  const Token token = make_token(Role::kProvider);
  int refused = 0;
  int turned_away = 0;
  for (int i = 0; i < 20; ++i) {
    const Token guess = trust::make_token(Role::kProvider, authority_.certificate().fingerprint());
    try {
      static_cast<void>(enrol_at(server_.address(), guess));
    } catch (const std::invalid_argument&) {
      ++refused;
    } catch (const Error& error) {
      EXPECT_TRUE(has(error.what(), "too many attempts failed")) << error.what();
      ++turned_away;
    }
  }
  EXPECT_EQ(refused, 5);
  EXPECT_EQ(turned_away, 15);
  EXPECT_EQ(asked_.entries().size(), 5U);
  EXPECT_EQ(records_[0].uses_left, 1U);
}

TEST_F(Guessing, OfOneHostDoesNotHoldUpAnother) {
  const EnrolmentServer both(server_identity(authority_), desk_, {.listen = "[::]:0"});
  const std::string port = both.address().substr(both.address().rfind(':'));
  const Token guess = trust::make_token(Role::kProvider, authority_.certificate().fingerprint());
  for (int i = 0; i < 5; ++i) {
    EXPECT_THROW(static_cast<void>(enrol_at("127.0.0.1" + port, guess)), std::invalid_argument);
  }
  const Token token = make_token(Role::kProvider);
  EXPECT_THROW(static_cast<void>(enrol_at("127.0.0.1" + port, token)), Error);
  static_cast<void>(enrol_at("[::1]" + port, token));
}

TEST_F(Enrolling, EndsConnectionsThatSayNothing) {
  const EnrolmentServer impatient(server_identity(authority_), desk_,
                                  {.handshake = Milliseconds(300)});
  std::vector<TcpClient> slow;
  for (int i = 0; i < 10; ++i) {
    slow.emplace_back(impatient.address());
    slow.back().write(std::string("\x16\x03\x01\x02").substr(0, static_cast<std::size_t>(i) % 5));
  }
  for (const TcpClient& client : slow) {
    EXPECT_TRUE(client.wait_for_end());
  }
  const Token token = make_token(Role::kProvider);
  static_cast<void>(enrol_at(impatient.address(), token));
}

}  // namespace
}  // namespace ravnest::transport
