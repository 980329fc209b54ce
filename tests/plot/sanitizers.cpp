// What libraries that are not ours do, and sanitizers remark on.

// NOLINTBEGIN(readability-identifier-naming): a name that the sanitizer looks for
extern "C" {

const char* __lsan_default_suppressions();

// The font that cairo has chosen is kept to the end.
const char* __lsan_default_suppressions() { return "leak:libfontconfig\n"; }

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
