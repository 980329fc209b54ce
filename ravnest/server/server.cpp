#include "ravnest/server/server.h"

#include <grpcpp/resource_quota.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "ravnest/base/address.h"
#include "ravnest/base/atomic_file.h"
#include "ravnest/base/error.h"
#include "ravnest/base/new_folder.h"
#include "ravnest/coordinator/view.h"
#include "ravnest/dashboard/http_server.h"
#include "ravnest/server/answers.h"
#include "ravnest/server/control_service.h"
#include "ravnest/server/desk.h"
#include "ravnest/transport/grpc/credentials.h"
#include "ravnest/transport/grpc/enrolment_service.h"
#include "ravnest/transport/grpc/guarded_server.h"
#include "ravnest/trust/authority.h"
#include "ravnest/trust/enrolment.h"
#include "ravnest/trust/private_file.h"
#include "ravnest/trust/secret.h"

namespace ravnest::server {

using namespace coordinator;  // its words are what is spoken here

namespace {

constexpr std::chrono::days kServerDays{3650};
constexpr int kMaxWordBytes = 4 << 20;
constexpr int kStreamsPerConnection = 64;
constexpr std::size_t kQuotaBytes = std::size_t{512} << 20;
constexpr int kMostThreads = 512;  // one for each file or pipe on its way
// From a new connection to its first call, and how long one may be without any.
constexpr std::chrono::milliseconds kHandshake{10'000};
constexpr transport::AcceptLimits kAcceptLimits{
    .connections = 4096, .connections_per_host = 2048, .has_local_socket = true};

// The owner's secret crosses the dashboard's connection as it is.
ServerOptions checked(const ServerOptions& options) {
  const std::string host = options.http.substr(0, options.http.rfind(':'));
  const bool is_here = host == "localhost" || host == "[::1]" || host.starts_with("127.");
  if (!options.http.empty() && !is_here && !options.allows_plain_http) {
    throw_invalid("[server] expected a dashboard at 127.0.0.1, since it speaks plain HTTP, got ",
                  options.http, ": put a proxy with TLS before it, or say --allow-plain-http.");
  }
  return options;
}

trust::Identity make_server_identity(const trust::Authority& authority) {
  return authority.make_identity({trust::make_member_id(), trust::Role::kServer},
                                 trust::valid_for(kServerDays, std::chrono::system_clock::now()));
}

// Whether a token opens the door: decided, and durable, before anybody is let in.
trust::Admission admit(Desk& desk, const trust::Digest& secret_hash, const std::string& name) {
  return desk.ask([&]() -> trust::Admission {
    const Hash hash = trust::to_hex(secret_hash);
    const std::string id = trust::make_member_id();
    const Decision decision = desk.handle(Enrol{.token = hash, .id = id, .name = name});
    if (!decision.is_accepted) {
      return {.member = {}, .reason = decision.reason};
    }
    const trust::Role role =
        desk.state().durable.members.at(id).role == coordinator::Role::kProvider
            ? trust::Role::kProvider
            : trust::Role::kRequester;
    return {.member = trust::Member{id, role}, .reason = ""};
  });
}

// Why a wish was not granted; nothing where it was.
std::optional<std::string> grant(Desk& desk, const dashboard::Wish& wish) {
  using Kind = dashboard::Wish::Kind;
  const auto event = [&]() -> Event {
    switch (wish.kind) {
      case Kind::kPauseProvider:
        return PauseProvider{wish.provider};
      case Kind::kResumeProvider:
        return ResumeProvider{wish.provider};
      case Kind::kRemoveProvider:
        return RemoveMember{wish.provider};
      case Kind::kCancelJob:
        return CancelJob{.job = wish.job, .by = ""};
      case Kind::kForgetJob:
        return ForgetJob{.job = wish.job, .by = ""};
    }
    RAVNEST_CHECK(false);
  }();
  const Decision decision = desk.handle(event);
  return decision.is_accepted ? std::nullopt : std::optional(decision.reason);
}

dashboard::Source make_source(Desk& desk, const std::string& secret, std::int64_t port,
                              const std::atomic<bool>& is_ready) {
  return {
      .is_ready = [&is_ready] { return is_ready.load(); },
      .view = [&desk,
               port] { return desk.ask([&] { return view(desk.state(), Desk::now(), port); }); },
      .job_view =
          [&desk](std::int64_t job) {
            return desk.ask([&]() -> std::optional<std::string> {
              if (find_job(desk.state().durable, job) == nullptr) {
                return std::nullopt;
              }
              return job_view(desk.state(), job);
            });
          },
      .metrics = [&desk] { return desk.ask([&] { return metrics(desk.state()); }); },
      .is_owner =
          [&secret](std::string_view shown) {
            return trust::is_equal(std::as_bytes(std::span(shown)),
                                   std::as_bytes(std::span(secret)));
          },
      .change =
          [&desk](const dashboard::Wish& wish) {
            return desk.ask([&] { return grant(desk, wish); });
          }};
}

}  // namespace

struct Server::Impl {
  explicit Impl(const ServerOptions& given)
      : options(checked(given)),
        folder(options.data),
        authority(trust::Authority::open(options.data, std::chrono::system_clock::now())),
        desk({.data = options.data,
              .on_broken = options.on_broken,
              .on_change =
                  [this] {
                    if (is_watched) {
                      http->notify();
                    }
                  }}),
        enrolment(transport::make_enrolment_service(std::make_shared<trust::EnrolmentDesk>(
            authority, [this](const trust::Digest& hash,
                              const std::string& name) { return admit(desk, hash, name); }))),
        control(make_control_service(desk, authority)),
        files(make_files_service(desk)),
        relay(make_relay_service(desk)),
        grpc(options.listen, kAcceptLimits, kHandshake) {
    ::grpc::ServerBuilder builder;
    builder.RegisterService(enrolment.get());
    builder.RegisterService(control.get());
    builder.RegisterService(files.get());
    builder.RegisterService(relay.get());
    builder.SetMaxReceiveMessageSize(kMaxWordBytes);
    ::grpc::ResourceQuota quota("server");
    quota.Resize(kQuotaBytes).SetMaxThreads(kMostThreads);
    builder.SetResourceQuota(quota);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsPerConnection);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
    grpc.start(builder,
               transport::make_server_credentials(make_server_identity(authority),
                                                  transport::Callers::kAnybody),
               transport::make_local_credentials());
    serve_http();
    const nlohmann::json where = {{"address", grpc.address()}};
    AtomicFile file(options.data / "server.json");
    file.write(where.dump(1) + "\n");
    file.commit();
    folder.keep();
    is_ready = true;  // whoever hears so finds all of the folder
  }

  ~Impl() {
    grpc.stop_accepting();
    desk.end();
    grpc.shut_down();
    http.reset();
  }

  void serve_http() {
    if (options.http.empty()) {
      return;
    }
    const auto file = options.data / "owner.secret";
    if (!std::filesystem::exists(file)) {
      trust::write_private_file(file, trust::make_member_id() + "\n");
    }
    secret = trust::read_private_file(file, 256);
    while (!secret.empty() && secret.back() == '\n') {
      secret.pop_back();
    }
    http = std::make_unique<dashboard::HttpServer>(
        dashboard::HttpOptions{.listen = options.http, .hosts = options.http_hosts, .limits = {}},
        make_source(desk, secret, parse_address(grpc.address()).port, is_ready));
    is_watched = true;
  }

  const ServerOptions options;
  NewFolder folder;  // a server that cannot start leaves none
  const trust::Authority authority;
  std::atomic<bool> is_watched = false;
  std::atomic<bool> is_ready = false;
  std::unique_ptr<dashboard::HttpServer> http;
  Desk desk;
  const std::unique_ptr<::grpc::Service> enrolment;  // services outlive the gRPC server
  const std::unique_ptr<::grpc::Service> control;
  const std::unique_ptr<::grpc::Service> files;
  const std::unique_ptr<::grpc::Service> relay;
  transport::GuardedServer grpc;
  std::string secret;
};

Server::Server(const ServerOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Server::~Server() = default;

const std::string& Server::address() const { return impl_->grpc.address(); }
std::string Server::http_address() const { return impl_->http ? impl_->http->address() : ""; }
const std::string& Server::owner_secret() const { return impl_->secret; }

std::string Server::make_token(coordinator::Role role, std::int64_t uses, std::int64_t minutes) {
  const Caller owner{.member = {.id = "owner", .role = trust::Role::kServer}, .host = {}};
  const std::string text = impl_->desk.ask([&] {
    return answer(impl_->desk, impl_->authority, owner,
                  WantsToken{.role = role, .uses = uses, .minutes = minutes});
  });
  return nlohmann::json::parse(text).at("token").get<std::string>();
}

}  // namespace ravnest::server
