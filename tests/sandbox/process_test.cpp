#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <csignal>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "tests/sandbox/inside.h"
#include "tests/transport/sanitizers.h"

namespace ravnest::sandbox {

namespace {

TEST(Process, BecomesNoOtherProgram) {
  const auto attempt = [] {
    char name[] = "/bin/true";
    char* arguments[] = {name, nullptr};
    return answer(::execve(name, arguments, nullptr));
  };
  EXPECT_EQ(inside({}, attempt), EPERM);
  EXPECT_EQ(in_child(attempt), 0);
}

TEST(Process, ReachesNoOtherProcess) {
  const auto signal = [] { return answer(::kill(::getppid(), 0)); };
  EXPECT_EQ(inside({}, signal), EPERM);
  EXPECT_EQ(in_child(signal), 0);
  EXPECT_EQ(inside({}, [] { return answer(::kill(0, 0)); }), EPERM);
  EXPECT_EQ(inside({}, [] { return answer(::syscall(SYS_pidfd_open, ::getppid(), 0)); }), EPERM);
  EXPECT_EQ(inside({}, [] { return answer(::ptrace(PTRACE_SEIZE, ::getppid(), 0, 0)); }), EPERM);
  EXPECT_EQ(inside({},
                   [] {
                     char byte = 0;
                     iovec here{.iov_base = &byte, .iov_len = 1};
                     return answer(::process_vm_readv(::getppid(), &here, 1, &here, 1, 0));
                   }),
            EPERM);
  const auto limit_parent = [] {
    const rlimit little{.rlim_cur = 1 << 30, .rlim_max = RLIM_INFINITY};
    return answer(::prlimit(::getppid(), RLIMIT_FSIZE, &little, nullptr));
  };
  EXPECT_EQ(inside({}, limit_parent), EPERM);
}

TEST(Process, SignalsItself) {
  EXPECT_EQ(inside({}, [] { return answer(::kill(::getpid(), 0)); }), 0);
  EXPECT_EQ(inside({}, [] { return ::raise(SIGCHLD); }), 0);
  EXPECT_EQ(inside({}, [] { return ::raise(SIGKILL); }), kKilled);
}

TEST(Process, GetsNoNamespaceAndNoInnerParts) {
  EXPECT_EQ(inside({}, [] { return answer(::unshare(CLONE_NEWUSER)); }), EPERM);
  EXPECT_EQ(inside({}, [] { return answer(::syscall(SYS_clone, CLONE_NEWUSER, 0, 0, 0, 0)); }),
            EPERM);
  for (const long call :
       {SYS_bpf, SYS_perf_event_open, SYS_userfaultfd, SYS_io_uring_setup, SYS_keyctl, SYS_mount,
        SYS_setns, SYS_finit_module, SYS_kexec_load, SYS_reboot, SYS_open_by_handle_at}) {
    EXPECT_EQ(inside({}, [&] { return answer(::syscall(call, 0, 0, 0, 0, 0)); }), EPERM) << call;
  }
}

TEST(Process, HasThreads) {
  EXPECT_EQ(inside({},
                   [] {
                     int sum = 0;
                     std::mutex mutex;
                     {
                       std::vector<std::jthread> threads;
                       for (int i = 0; i < 8; ++i) {
                         threads.emplace_back([&] {
                           const std::lock_guard lock(mutex);
                           ++sum;
                         });
                       }
                     }
                     return sum;
                   }),
            8);
}

TEST(Process, IsRefusedWithASecondThread) {
  EXPECT_EQ(in_child([] {
              std::mutex mutex;
              std::unique_lock hold(mutex);
              const std::jthread second([&mutex] { const std::lock_guard wait(mutex); });
              int result = 1;
              try {
                enter({});
              } catch (const std::invalid_argument&) {
                result = 0;
              }
              hold.unlock();
              return result;
            }),
            0);
}

TEST(Process, LeavesNoTraceOfItsMemory) {
  EXPECT_EQ(inside({}, [] { return ::prctl(PR_GET_DUMPABLE); }), 0);
  EXPECT_EQ(inside({},
                   [] {
                     rlimit core{.rlim_cur = 1, .rlim_max = 1};
                     ::getrlimit(RLIMIT_CORE, &core);
                     return core.rlim_max == 0 ? 0 : 1;
                   }),
            0);
}

#if !RAVNEST_IS_SANITIZED

int allocate(std::size_t nbytes) {
  char* volatile bytes = static_cast<char*>(std::malloc(nbytes));
  return bytes == nullptr ? ENOMEM : 0;
}

TEST(Process, AllocatesUpToItsLimit) {
  const SandboxOptions options{.memory_bytes = 256 << 20};
  EXPECT_EQ(inside(options, [] { return allocate(64 << 20); }), 0);
  EXPECT_EQ(inside(options, [] { return allocate(512 << 20); }), ENOMEM);
  EXPECT_EQ(in_child([] { return allocate(512 << 20); }), 0);
}

#endif

TEST(Process, CannotLiftItsLimits) {
  const SandboxOptions options{.file_bytes = 1 << 20};
  EXPECT_EQ(inside(options,
                   [] {
                     const rlimit more{.rlim_cur = 2 << 20, .rlim_max = 2 << 20};
                     return answer(::setrlimit(RLIMIT_FSIZE, &more));
                   }),
            EPERM);
}

TEST(Report, SaysWhatIsLacking) {
  EXPECT_EQ(in_child([] {
              const SandboxReport report = enter({});
              const bool is_whole = report.closes_files && report.closes_ports &&
                                    report.closes_signals && report.filters_calls;
              return report.lacking.empty() == is_whole ? 0 : 1;
            }),
            0);
}

}  // namespace

}  // namespace ravnest::sandbox
