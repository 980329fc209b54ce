#pragma once

namespace ravnest::cli {

// Prints how fast this machine multiplies matrices, {"gflops": x, "threads": n}, after a fraction
// of a second. Without `threads`, on all cores.
void measure_machine(int threads);

}  // namespace ravnest::cli
