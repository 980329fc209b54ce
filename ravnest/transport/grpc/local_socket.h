#pragma once

#include <sys/types.h>

#include <string>

#include "ravnest/transport/grpc/socket_address.h"

namespace ravnest::transport {

// A second way to a port for processes of one user on one machine: a Unix socket, named after the
// port's address, which costs the kernel less than TCP. The name lives in the network namespace, as
// the port does, and goes with the process. Who calls owns the descriptors.

// A socket that listens for who connects to the TCP address; -1 where it cannot be had.
int listen_locally(const SocketAddress& where);

// A connection to who listens at "host:port", or at all addresses of the port; -1 where nobody of
// our user does, or the host is a name (but localhost).
int connect_locally(const std::string& address);

bool is_local_socket(int descriptor);

// Whether a process of that user made the other end.
bool is_of_user(int descriptor, uid_t user);

}  // namespace ravnest::transport
