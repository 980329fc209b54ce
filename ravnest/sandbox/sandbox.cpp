#include "ravnest/sandbox/sandbox.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iterator>

#include "ravnest/base/error.h"
#include "ravnest/sandbox/calls.h"
#include "ravnest/sandbox/landlock.h"
#include "ravnest/sandbox/needs.h"

namespace ravnest::sandbox {

namespace fs = std::filesystem;

namespace {

void check_step(bool is_done, const char* step) {
  if (!is_done) {
    throw Error(ErrorKind::kIo,
                concat("[sandbox] the kernel refuses to ", step, ": ", std::strerror(errno), "."));
  }
}

// Rules hold for the thread that sets them, and for those that it starts.
void check_alone() {
  const auto threads = std::distance(fs::directory_iterator("/proc/self/task"), {});
  if (threads != 1) {
    throw_invalid("[sandbox] expected a process of one thread, got ", threads, " threads.");
  }
}

void check_there(const std::vector<fs::path>& paths) {
  for (const fs::path& path : paths) {
    if (!fs::exists(path)) {
      throw_invalid("[sandbox] expected the file or folder ", path.string(),
                    ", got nothing there.");
    }
  }
}

void limit(int resource, std::uint64_t most) {
  rlimit bound{};
  check_step(::getrlimit(static_cast<__rlimit_resource>(resource), &bound) == 0, "tell a limit");
  bound.rlim_max = std::min<rlim_t>(bound.rlim_max, most);
  bound.rlim_cur = bound.rlim_max;
  check_step(::setrlimit(static_cast<__rlimit_resource>(resource), &bound) == 0, "set a limit");
}

void set_limits(const SandboxOptions& options) {
  limit(RLIMIT_CORE, 0);
  if (options.memory_bytes) {
    limit(RLIMIT_DATA, *options.memory_bytes);
  }
  if (options.file_bytes) {
    limit(RLIMIT_FSIZE, *options.file_bytes);
    std::signal(SIGXFSZ, SIG_IGN);  // who writes beyond it is told so
  }
}

// Root is then no more than the owner of its files, and limits stay as they are.
void drop_privileges() {
  check_step(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "give up new privileges");
  check_step(::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) == 0, "give up privileges");
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  const __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};
  check_step(::syscall(SYS_capset, &header, none) == 0, "give up privileges");
  check_step(::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0, "hide its memory from other processes");
}

std::string describe_lacking(const SandboxReport& report) {
  std::string lacking;
  const auto add = [&lacking](bool is_there, const char* what) {
    lacking += is_there ? "" : concat(lacking.empty() ? "" : ", ", what);
  };
  add(report.closes_files, "files outside its folders");
  add(!report.closes_files || report.landlock_abi >= 3, "emptying files outside its folders");
  add(report.closes_ports, "other TCP ports");
  add(report.closes_signals, "signals and abstract sockets");
  add(report.filters_calls, "system calls");
  if (lacking.empty()) {
    return lacking;
  }
  return concat("[sandbox] this kernel cannot close off: ", lacking,
                ". Linux 6.12 or later with Landlock and seccomp can; until then run only models "
                "whose source you trust.");
}

}  // namespace

SandboxReport enter(const SandboxOptions& options) {
  check_alone();
  check_there(options.writable);
  check_there(options.readable);
  LandlockRules rules{.writable = options.writable,
                      .readable = needed_files(),
                      .devices = {"/dev/null", "/dev/zero"},
                      .bind_ports = options.bind_ports,
                      .connect_ports = options.connect_ports};
  std::ranges::copy(options.readable, std::back_inserter(rules.readable));

  set_limits(options);
  drop_privileges();
  SandboxReport report{.landlock_abi = landlock_abi()};
  if (report.landlock_abi > 0) {
    restrict_to(rules, report.landlock_abi);
  }
  report.closes_files = report.landlock_abi >= 1;
  report.closes_ports = report.landlock_abi >= 4;
  report.closes_signals = report.landlock_abi >= 6;
  report.filters_calls = filter_calls();
  report.lacking = describe_lacking(report);
  return report;
}

}  // namespace ravnest::sandbox
