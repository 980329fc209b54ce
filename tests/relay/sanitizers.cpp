// AcceptLoop looks by design at descriptors that their new owners close without telling it: a
// number that names something else by then is told apart by its inode.

// NOLINTBEGIN(readability-identifier-naming): a name that the sanitizer looks for
extern "C" {

const char* __tsan_default_suppressions();

const char* __tsan_default_suppressions() {
  return "race:ravnest::transport::AcceptLoop::forget_closed\n";
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
