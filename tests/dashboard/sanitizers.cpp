// The accept loop asks of a descriptor whether it is still the connection it handed on, and knows
// that its owner may close it meanwhile (ravnest/transport/grpc/accept_loop.h). The race detector
// remarks on that alone.

// NOLINTBEGIN(readability-identifier-naming): a name that the sanitizer looks for
extern "C" {

const char* __tsan_default_suppressions();

const char* __tsan_default_suppressions() { return "race:AcceptLoop::forget_closed\n"; }

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
