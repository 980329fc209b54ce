#include "ravnest/dashboard/http_server.h"

#include "ravnest/dashboard/connection.h"
#include "ravnest/dashboard/responder.h"
#include "ravnest/dashboard/workers.h"
#include "ravnest/transport/grpc/accept_loop.h"

namespace ravnest::dashboard {

namespace {

// Beside the watchers, who have a thread each.
constexpr std::size_t kThreads = 16;
// Connections that may wait for a thread.
constexpr std::size_t kWaiting = 48;

}  // namespace

class HttpServer::Impl {
 public:
  Impl(const HttpOptions& options, const Source& source)
      : limits_(options.limits),
        listener_(options.listen, {.connections = limits_.watchers + kThreads + kWaiting,
                                   // One host alone does not have all threads.
                                   .connections_per_host = limits_.watchers + kThreads / 2}),
        responder_(listener_.address(), options, source),
        workers_(limits_.watchers + kThreads, [this](int descriptor) {
          Connection connection(descriptor, limits_);
          responder_.serve(connection);
        }) {
    listener_.start([this](int descriptor) { workers_.take(descriptor); });
  }
  ~Impl() {
    listener_.stop();
    responder_.stop();
    workers_.stop();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  const std::string& address() const { return listener_.address(); }
  void notify() { responder_.notify(); }

 private:
  const HttpLimits limits_;
  transport::AcceptLoop listener_;
  Responder responder_;
  Workers workers_;
};

HttpServer::HttpServer(const HttpOptions& options, const Source& source)
    : impl_(std::make_unique<Impl>(options, source)) {}
HttpServer::~HttpServer() = default;

const std::string& HttpServer::address() const { return impl_->address(); }
void HttpServer::notify() { impl_->notify(); }

}  // namespace ravnest::dashboard
