// A node in a process of its own, for tests that kill it:
//
//   transport_peer sink   NAME LISTEN PEER PEER_ADDRESS [DESCRIPTORS]
//   transport_peer source NAME LISTEN PEER PEER_ADDRESS
//
// A sink takes messages of channel "forward"; a source sends them without end. Both say what
// happens, a line each: "listening ADDRESS", "got PASS", "sent PASS".

#include <sys/prctl.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "ravnest/transport/grpc/grpc_transport.h"
#include "ravnest/transport/inbox.h"

namespace ravnest::transport {
namespace {

constexpr Milliseconds kForever = Milliseconds::max();

void say(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

void run_sink(Transport& transport, const Peer& peer) {
  Inbox inbox;
  const auto receiver = transport.receive(peer, "forward", inbox.handler());
  while (const auto delivery = inbox.take(kForever)) {
    say("got " + std::to_string(delivery->message.pass));
  }
}

void run_source(Transport& transport, const Peer& peer) {
  const auto sender = transport.open(peer, "forward");
  for (std::int64_t pass = 1;; ++pass) {
    sender->send({.pass = pass}, kForever);
    say("sent " + std::to_string(pass));
  }
}

void limit_descriptors(const char* text) {
  const rlimit limit{.rlim_cur = std::strtoul(text, nullptr, 10),
                     .rlim_max = std::strtoul(text, nullptr, 10)};
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

int run(int count, char** words) {
  if (count < 6) {
    return 2;
  }
  if (count > 6) {
    limit_descriptors(words[6]);
  }
  GrpcOptions grpc{.listen = words[3]};
  grpc.limits.connections_per_host = 256;  // as many as the total: descriptors shall run out first
  TransportOptions options{.name = words[2], .plan = "plan"};
  const auto transport = make_grpc_transport(grpc, options);
  say("listening " + transport->address());
  const Peer peer{.name = words[4], .address = words[5]};
  if (std::string(words[1]) == "sink") {
    run_sink(*transport, peer);
  } else {
    run_source(*transport, peer);
  }
  return 0;
}

}  // namespace
}  // namespace ravnest::transport

int main(int count, char** words) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that fails leaves nobody behind
  try {
    return ravnest::transport::run(count, words);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
