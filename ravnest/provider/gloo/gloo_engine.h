#pragma once

#include <string>

#include "ravnest/reduce/engine.h"

namespace ravnest::provider {

// c10d's Gloo, which libtorch brings, in place of our own ring: for machines on one network that is
// trusted, since its connections are neither encrypted nor does anybody prove who they are; on
// others it keeps to this machine. Plain means of values that travel as they are;
// std::invalid_argument for others, and where the host cannot be listened at: that of `listen`
// ("host:port"; empty, or any: that of the plan).
//
// A group of connections is made when a round has other participants than the one before, or after
// a failure, and kept otherwise. Owns a thread, which waits for Gloo.
reduce::MakeEngine gloo_engine(bool is_network_trusted, const std::string& listen = {});

}  // namespace ravnest::provider
