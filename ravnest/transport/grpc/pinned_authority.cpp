#include "ravnest/transport/grpc/pinned_authority.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "ravnest/base/error.h"
#include "ravnest/transport/grpc/socket_address.h"

namespace ravnest::transport {

namespace {

// A handshake takes a few KiB; somebody who sends more is no server of ours.
constexpr std::size_t kMaxHandshakeBytes = std::size_t{256} << 10;
constexpr std::array<unsigned char, 3> kAlpn{2, 'h', '2'};

template <auto Free>
struct FreeWith {
  template <typename Kind>
  void operator()(Kind* object) const {
    Free(object);
  }
};
using ContextPtr = std::unique_ptr<SSL_CTX, FreeWith<&::SSL_CTX_free>>;
using TlsPtr = std::unique_ptr<SSL, FreeWith<&::SSL_free>>;

// A TCP connection of which every step ends by a deadline.
class Connection {
 public:
  Connection(std::string address, TimePoint deadline)
      : address_(std::move(address)), deadline_(deadline) {
    int error = 0;
    for (const SocketAddress& where : resolve(split_address(address_))) {
      error = try_connect(where);
      if (error == 0) {
        return;
      }
    }
    fail(std::strerror(error));
  }
  ~Connection() { close(); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void write(std::span<const char> bytes) const {
    while (!bytes.empty()) {
      const ssize_t size = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (size > 0) {
        bytes = bytes.subspan(static_cast<std::size_t>(size));
      } else if (errno == EAGAIN || errno == EINTR) {
        wait(POLLOUT);
      } else {
        fail(std::strerror(errno));
      }
    }
  }
  // What has come, at least one byte.
  std::size_t read(std::span<char> into) const {
    while (true) {
      wait(POLLIN);
      const ssize_t size = ::recv(descriptor_, into.data(), into.size(), 0);
      if (size > 0) {
        return static_cast<std::size_t>(size);
      }
      if (size == 0) {
        fail("it closed the connection");
      }
      if (errno != EAGAIN && errno != EINTR) {
        fail(std::strerror(errno));
      }
    }
  }
  [[noreturn]] void fail(const std::string& reason) const {
    throw Error(ErrorKind::kPeerLost,
                concat("[transport] no server of ours answers at ", address_, ": ", reason, "."));
  }

 private:
  // 0, or an errno.
  int try_connect(const SocketAddress& where) {
    close();
    descriptor_ = ::socket(where.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor_ < 0) {
      return errno;
    }
    if (::connect(descriptor_, where.get(), where.size) == 0) {
      return 0;
    }
    if (errno != EINPROGRESS) {
      return errno;
    }
    wait(POLLOUT);
    int error = 0;
    socklen_t size = sizeof(error);
    ::getsockopt(descriptor_, SOL_SOCKET, SO_ERROR, &error, &size);
    return error;
  }
  void wait(short events) const {
    pollfd wanted{.fd = descriptor_, .events = events};
    int ready = 0;
    do {
      const auto left =
          std::chrono::duration_cast<Milliseconds>(deadline_ - std::chrono::steady_clock::now());
      ready = left.count() <= 0 ? 0 : ::poll(&wanted, 1, static_cast<int>(left.count()));
    } while (ready < 0 && errno == EINTR);
    if (ready <= 0) {
      throw Error(ErrorKind::kTimeout,
                  concat("[transport] the server at ", address_, " does not answer."));
    }
  }
  void close() {
    if (descriptor_ >= 0) {
      ::close(std::exchange(descriptor_, -1));
    }
  }

  const std::string address_;
  const TimePoint deadline_;
  int descriptor_ = -1;
};

// A client that believes nobody and everybody: who the other side is, is looked at afterwards.
TlsPtr make_tls() {
  const ContextPtr context(::SSL_CTX_new(::TLS_client_method()));
  RAVNEST_CHECK(context != nullptr);
  RAVNEST_CHECK(SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) == 1);
  RAVNEST_CHECK(::SSL_CTX_set_alpn_protos(context.get(), kAlpn.data(), kAlpn.size()) == 0);
  ::SSL_CTX_set_verify(context.get(), SSL_VERIFY_NONE, nullptr);
  TlsPtr tls(::SSL_new(context.get()));
  RAVNEST_CHECK(tls != nullptr);
  // Through memory, so that our own calls write, which raise no signal.
  ::SSL_set_bio(tls.get(), ::BIO_new(::BIO_s_mem()), ::BIO_new(::BIO_s_mem()));
  return tls;
}

void flush(SSL* tls, const Connection& connection) {
  std::array<char, 4096> part{};
  int size = 0;
  while ((size = ::BIO_read(::SSL_get_wbio(tls), part.data(), part.size())) > 0) {
    connection.write(std::span(part).first(static_cast<std::size_t>(size)));
  }
}

void shake_hands(SSL* tls, const Connection& connection) {
  std::array<char, 4096> part{};
  std::size_t received = 0;
  while (true) {
    ::ERR_clear_error();
    const int result = ::SSL_connect(tls);
    flush(tls, connection);
    if (result == 1) {
      return;
    }
    if (::SSL_get_error(tls, result) != SSL_ERROR_WANT_READ || received > kMaxHandshakeBytes) {
      ::ERR_clear_error();
      connection.fail("it does not speak TLS as ours do");
    }
    const std::size_t size = connection.read(part);
    received += size;
    RAVNEST_CHECK(::BIO_write(::SSL_get_rbio(tls), part.data(), static_cast<int>(size)) > 0);
  }
}

trust::Certificate shared(X509* certificate) {
  ::X509_up_ref(certificate);
  return trust::Certificate(std::shared_ptr<X509>(certificate, &::X509_free));
}

// From the server's own to the root, as it showed them.
std::vector<trust::Certificate> chain_of(const SSL* tls) {
  std::vector<trust::Certificate> chain;
  STACK_OF(X509)* shown = ::SSL_get_peer_cert_chain(tls);
  for (int i = 0; shown != nullptr && i < sk_X509_num(shown); ++i) {
    chain.push_back(shared(sk_X509_value(shown, i)));
  }
  return chain;
}

}  // namespace

trust::Certificate fetch_authority(const std::string& address, const trust::Digest& fingerprint,
                                   Milliseconds timeout) {
  const Connection connection(address, deadline_in(timeout));
  const TlsPtr tls = make_tls();
  shake_hands(tls.get(), connection);
  const auto chain = chain_of(tls.get());
  if (chain.empty() || chain.back().fingerprint() != fingerprint) {
    throw_invalid("[trust] expected the server that printed the token at ", address,
                  ", got another, with another authority; it was told nothing. Is the address ",
                  "right, and the token that server's?");
  }
  try {
    trust::check_issued(chain.front(), chain.back(), std::chrono::system_clock::now());
  } catch (const std::invalid_argument& error) {
    throw_invalid(error.what(), " It is the server's at ", address, ".");
  }
  if (chain.front().member().role != trust::Role::kServer) {
    throw_invalid("[trust] expected a server at ", address,
                  ", got another member of its pool; it was told nothing.");
  }
  return chain.back();
}

}  // namespace ravnest::transport
