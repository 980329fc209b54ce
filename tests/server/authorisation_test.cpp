// Every method of proto/control.proto, called with every kind of credentials: the list is made from
// the .proto file, so that a method that is added fails here until it is said whom it serves.

#include <control.pb.h>
#include <grpcpp/create_channel_posix.h>

#include <map>

#include "ravnest/transport/grpc/credentials.h"
#include "ravnest/transport/grpc/local_socket.h"
#include "tests/server/world.h"
#include "tests/transport/grpc_call.h"
#include "tests/transport/protocols.h"
#include "tests/transport/self_signed.h"

namespace ravnest::server {
namespace {

using ::grpc::StatusCode;

enum class Shown {
  kNoCertificate,
  kPlainText,
  kSelfSigned,
  kExpired,
  kOtherAuthority,
  kRemovedProvider,
  kRemovedRequester,
  kProvider,
  kRequester,
  kOwner,
  // By the local socket, where nobody shows a certificate, but may say who it is.
  kLocalNobody,
  kLocalNonsense,
  kLocalTwo,
  kLocalRemoved,
  kLocalProvider,
  kLocalOwner,
};

const std::vector<std::pair<Shown, std::string>> kShown{
    {Shown::kNoCertificate, "NoCertificate"},
    {Shown::kPlainText, "PlainText"},
    {Shown::kSelfSigned, "SelfSigned"},
    {Shown::kExpired, "Expired"},
    {Shown::kOtherAuthority, "OtherAuthority"},
    {Shown::kRemovedProvider, "RemovedProvider"},
    {Shown::kRemovedRequester, "RemovedRequester"},
    {Shown::kProvider, "Provider"},
    {Shown::kRequester, "Requester"},
    {Shown::kOwner, "Owner"},
    {Shown::kLocalNobody, "LocalNobody"},
    {Shown::kLocalNonsense, "LocalNonsense"},
    {Shown::kLocalTwo, "LocalTwo"},
    {Shown::kLocalRemoved, "LocalRemoved"},
    {Shown::kLocalProvider, "LocalProvider"},
    {Shown::kLocalOwner, "LocalOwner"}};

// What each role is told. A provider without a place sends no file; Get and Pipe name what is not
// theirs, and are refused for that alone.
struct Row {
  StatusCode provider = StatusCode::OK;
  StatusCode requester = StatusCode::OK;
  StatusCode owner = StatusCode::OK;
};
constexpr StatusCode kDenied = StatusCode::PERMISSION_DENIED;
constexpr StatusCode kInvalid = StatusCode::INVALID_ARGUMENT;
constexpr StatusCode kNotPutThrough = StatusCode::FAILED_PRECONDITION;
const std::map<std::string, Row> kRows{
    {"/ravnest.control.Control/Ask", {}},
    {"/ravnest.control.Control/Attend", {.requester = kDenied, .owner = kDenied}},
    {"/ravnest.control.Control/Feed", {.provider = kDenied, .owner = kDenied}},
    {"/ravnest.control.Files/Find", {.provider = kInvalid}},
    {"/ravnest.control.Files/Get", {.provider = kInvalid, .requester = kInvalid}},
    {"/ravnest.control.Files/Probe", {}},
    {"/ravnest.control.Files/Put", {.provider = kInvalid}},
    {"/ravnest.control.Relay/Pipe",
     {.provider = kNotPutThrough, .requester = kNotPutThrough, .owner = kDenied}}};

std::vector<std::string> methods() {
  std::vector<std::string> found = transport::all_methods();
  std::erase_if(found, [](const std::string& method) { return !transport::is_of_server(method); });
  return found;
}

// What is believed of who comes by the local socket.
bool is_for_local(const std::string& method) { return method == "/ravnest.control.Files/Get"; }

// What a caller is told, by what it shows.
StatusCode wanted(const std::string& method, Shown shown) {
  const Row& row = kRows.at(method);
  if (shown >= Shown::kLocalRemoved && !is_for_local(method)) {
    return StatusCode::UNAUTHENTICATED;
  }
  switch (shown) {
    case Shown::kNoCertificate:
    case Shown::kLocalNobody:
    case Shown::kLocalNonsense:
    case Shown::kLocalTwo:
      return StatusCode::UNAUTHENTICATED;
    case Shown::kRemovedProvider:
    case Shown::kRemovedRequester:
    case Shown::kLocalRemoved:
      return kDenied;
    case Shown::kProvider:
    case Shown::kLocalProvider:
      return row.provider;
    case Shown::kRequester:
      return row.requester;
    case Shown::kOwner:
    case Shown::kLocalOwner:
      return row.owner;
    default:
      return StatusCode::UNAVAILABLE;  // the handshake fails
  }
}

class Doors : public World {
 protected:
  trust::Identity identity_for(Shown shown) const {
    using std::chrono::days;
    const auto now = std::chrono::system_clock::now();
    const trust::Member member = box_.identity.certificate.member();
    switch (shown) {
      case Shown::kSelfSigned:
        return transport::self_signed(box_.identity);
      case Shown::kExpired:
        return authority().make_identity(member, {.from = now - days(9), .until = now - days(1)});
      case Shown::kOtherAuthority: {
        trust::Identity other =
            trust::Authority::make(now).make_identity(member, trust::valid_for(days(1), now));
        other.authority = authority().certificate();  // knows whom it calls
        return other;
      }
      case Shown::kRemovedProvider:
      case Shown::kLocalRemoved:
        return removed("gone", Role::kProvider);
      case Shown::kRemovedRequester:
        return removed("gone", Role::kRequester);
      case Shown::kRequester:
        return rita_.identity;
      case Shown::kOwner:
      case Shown::kLocalOwner:
        return owner().identity;
      default:
        return box_.identity;
    }
  }
  trust::Identity removed(const std::string& name, Role role) const {
    const Person person = make(name, role);
    owner().client->ask(WantsMemberGone{name});
    return person.identity;
  }
  std::shared_ptr<::grpc::ChannelCredentials> credentials_for(Shown shown) const {
    if (shown == Shown::kPlainText) {
      return ::grpc::InsecureChannelCredentials();
    }
    return shown == Shown::kNoCertificate
               ? transport::make_channel_credentials(authority().certificate())
               : transport::make_channel_credentials(identity_for(shown));
  }

  static std::string word(const std::string& text) {
    control::Word word;
    word.set_text(text);
    return word.SerializeAsString();
  }
  // What an honest caller would say.
  std::string message_for(const std::string& method) const {
    const std::string bytes = "some bytes";
    control::FileName name;
    name.set_hash(hash_of(bytes));
    name.set_size(bytes.size());
    const std::string last = method.substr(method.rfind('/') + 1);
    if (last == "Attend") {
      return word(to_text(ProviderWord(hello())));
    }
    if (last == "Feed") {
      return word(to_text(RequesterWord(Offer{.job = job_, .reach = hello().reach})));
    }
    if (last == "Ask") {
      return word(to_text(Question(WantsTime{})));
    }
    if (last == "Put") {
      control::FilePart part;
      *part.mutable_name() = name;
      part.set_payload(bytes);
      return part.SerializeAsString();
    }
    if (last == "Get") {
      name.set_hash(program_);
      return name.SerializeAsString();
    }
    if (last == "Probe") {
      control::FileSize size;
      size.set_nbytes(1);
      return size.SerializeAsString();
    }
    if (last == "Pipe") {
      control::PipePart part;
      part.set_connect(box_.id());
      return part.SerializeAsString();
    }
    return name.SerializeAsString();
  }

  struct Result {
    StatusCode code;
    std::string said;
  };
  std::unique_ptr<transport::GrpcCall> make_call(Shown shown) const {
    if (shown < Shown::kLocalNobody) {
      return std::make_unique<transport::GrpcCall>(server->address(), credentials_for(shown),
                                                   trust::kServerTlsName);
    }
    const int descriptor = transport::connect_locally(server->address());
    EXPECT_GE(descriptor, 0);
    auto call = std::make_unique<transport::GrpcCall>(
        ::grpc::CreateInsecureChannelFromFd("server", descriptor));
    if (shown == Shown::kLocalNonsense) {
      call->context().AddMetadata("ravnest-member", "ravnest:server:../owner");
    } else if (shown != Shown::kLocalNobody) {
      const trust::Member member = identity_for(shown).certificate.member();
      for (int i = 0; i < (shown == Shown::kLocalTwo ? 2 : 1); ++i) {
        transport::say_member(member, call->context());
      }
    }
    return call;
  }
  Result call(const std::string& method, Shown shown) const {
    const auto made = make_call(shown);
    transport::GrpcCall& call = *made;
    const auto answer = call.ask(method, message_for(method), true);
    return {.code = answer ? StatusCode::OK : call.status().error_code(),
            .said = call.status().error_message()};
  }

  const Person box_ = provider("box");
  const Person rita_ = requester("rita");
  const JobId job_ = submit(rita_);
  const Hash program_ = trust::to_hex(trust::sha256_file(file("model.pt2")));
};

class ServerAuthorisation
    : public Doors,
      public ::testing::WithParamInterface<std::tuple<std::string, std::pair<Shown, std::string>>> {
};

TEST_P(ServerAuthorisation, TellsEveryoneWhatItMayKnow) {
  const auto& [method, shown] = GetParam();
  ASSERT_TRUE(kRows.contains(method)) << "whom does " << method << " serve?";
  const Result result = call(method, shown.first);
  EXPECT_EQ(result.code, wanted(method, shown.first)) << result.said;
  if (result.code != StatusCode::OK) {
    EXPECT_NE(result.said, "");  // a sentence for people
  }
}

INSTANTIATE_TEST_SUITE_P(Matrix, ServerAuthorisation,
                         ::testing::Combine(::testing::ValuesIn(methods()),
                                            ::testing::ValuesIn(kShown)),
                         [](const auto& made) {
                           const std::string& method = std::get<0>(made.param);
                           return method.substr(method.rfind('/') + 1) +
                                  std::get<1>(made.param).second;
                         });

TEST(ServerAuthorisationMatrix, HasARowForEveryMethod) {
  std::vector<std::string> known;
  for (const auto& [method, row] : kRows) {
    known.push_back(method);
  }
  EXPECT_EQ(methods(), known);
}

}  // namespace
}  // namespace ravnest::server
