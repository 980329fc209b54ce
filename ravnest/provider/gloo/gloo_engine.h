#pragma once

#include <memory>

#include "ravnest/reduce/engine.h"

namespace ravnest::provider {

// c10d's Gloo, which libtorch brings, in place of our own ring: for machines on one network that is
// trusted, since its connections are neither encrypted nor does anybody prove who they are; on
// others it keeps to this machine. Plain means of values that travel as they are;
// std::invalid_argument for others.
//
// A group of connections is made when a round has other participants than the one before, or after
// a failure, and kept otherwise. Owns a thread, which waits for Gloo.
reduce::MakeEngine gloo_engine(bool is_network_trusted);

}  // namespace ravnest::provider
