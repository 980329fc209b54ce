#pragma once

#include <memory>

#include "ravnest/server/word_stream.h"

namespace ravnest::server {

// A provider's session; a requester's feed.
std::shared_ptr<WordStream> make_session(Desk& desk, Verdict verdict);
std::shared_ptr<WordStream> make_feed(Desk& desk, Verdict verdict);

}  // namespace ravnest::server
