#include "ravnest/sandbox/calls.h"

#include <linux/sched.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>

#include "ravnest/base/error.h"

namespace ravnest::sandbox {

namespace {

// What is newer than the library; such numbers are the same on all machines.
constexpr int kFchmodat2 = 452;
constexpr int kSetxattrat = 463;
constexpr int kRemovexattrat = 466;
constexpr int kFileSetattr = 469;

constexpr int kRefused[] = {
    // to become another program
    SCMP_SYS(execve), SCMP_SYS(execveat), SCMP_SYS(uselib),
    // other processes
    SCMP_SYS(ptrace), SCMP_SYS(process_vm_readv), SCMP_SYS(process_vm_writev),
    SCMP_SYS(process_madvise), SCMP_SYS(process_mrelease), SCMP_SYS(kcmp), SCMP_SYS(tkill),
    SCMP_SYS(pidfd_open), SCMP_SYS(pidfd_getfd), SCMP_SYS(pidfd_send_signal), SCMP_SYS(move_pages),
    SCMP_SYS(migrate_pages),
    // the pace of other processes
    SCMP_SYS(setpriority), SCMP_SYS(ioprio_set), SCMP_SYS(sched_setscheduler),
    SCMP_SYS(sched_setparam), SCMP_SYS(sched_setattr),
    // modes, owners, times and attributes of files, which Landlock does not see
    SCMP_SYS(chmod), SCMP_SYS(fchmod), SCMP_SYS(fchmodat), kFchmodat2, SCMP_SYS(chown),
    SCMP_SYS(fchown), SCMP_SYS(lchown), SCMP_SYS(fchownat), SCMP_SYS(utime), SCMP_SYS(utimes),
    SCMP_SYS(futimesat), SCMP_SYS(utimensat), SCMP_SYS(setxattr), SCMP_SYS(lsetxattr),
    SCMP_SYS(fsetxattr), kSetxattrat, SCMP_SYS(removexattr), SCMP_SYS(lremovexattr),
    SCMP_SYS(fremovexattr), kRemovexattrat, kFileSetattr,
    // memory and queues that processes share by a key
    SCMP_SYS(shmget), SCMP_SYS(shmat), SCMP_SYS(semget), SCMP_SYS(msgget), SCMP_SYS(mq_open),
    // namespaces and mounts
    SCMP_SYS(setns), SCMP_SYS(unshare), SCMP_SYS(mount), SCMP_SYS(umount), SCMP_SYS(umount2),
    SCMP_SYS(pivot_root), SCMP_SYS(chroot), SCMP_SYS(fsopen), SCMP_SYS(fsconfig), SCMP_SYS(fsmount),
    SCMP_SYS(fspick), SCMP_SYS(open_tree), SCMP_SYS(move_mount), SCMP_SYS(mount_setattr),
    SCMP_SYS(open_by_handle_at), SCMP_SYS(name_to_handle_at), SCMP_SYS(fanotify_init),
    SCMP_SYS(mknod), SCMP_SYS(mknodat),
    // the kernel's inner parts
    SCMP_SYS(bpf), SCMP_SYS(perf_event_open), SCMP_SYS(userfaultfd), SCMP_SYS(io_uring_setup),
    SCMP_SYS(io_uring_enter), SCMP_SYS(io_uring_register), SCMP_SYS(add_key), SCMP_SYS(request_key),
    SCMP_SYS(keyctl), SCMP_SYS(modify_ldt), SCMP_SYS(vmsplice),
    // the machine
    SCMP_SYS(init_module), SCMP_SYS(finit_module), SCMP_SYS(delete_module), SCMP_SYS(kexec_load),
    SCMP_SYS(kexec_file_load), SCMP_SYS(reboot), SCMP_SYS(swapon), SCMP_SYS(swapoff),
    SCMP_SYS(acct), SCMP_SYS(quotactl), SCMP_SYS(quotactl_fd), SCMP_SYS(syslog), SCMP_SYS(iopl),
    SCMP_SYS(ioperm), SCMP_SYS(settimeofday), SCMP_SYS(clock_settime), SCMP_SYS(clock_adjtime),
    SCMP_SYS(adjtimex), SCMP_SYS(sethostname), SCMP_SYS(setdomainname), SCMP_SYS(vhangup),
    SCMP_SYS(lookup_dcookie), SCMP_SYS(nfsservctl)};

constexpr std::uint64_t kNamespaces[] = {CLONE_NEWNS,  CLONE_NEWUTS, CLONE_NEWIPC,   CLONE_NEWUSER,
                                         CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWCGROUP};
constexpr std::uint64_t kTypeMask = 0xf;  // of a socket's type; what is above are flags
constexpr std::uint64_t kWord = 0xffffffff;

scmp_arg_cmp compare(unsigned argument, scmp_compare how, std::uint64_t a, std::uint64_t b = 0) {
  return {.arg = argument, .op = how, .datum_a = a, .datum_b = b};
}

scmp_arg_cmp masked(unsigned argument, std::uint64_t mask, std::uint64_t value) {
  return compare(argument, SCMP_CMP_MASKED_EQ, mask, value);
}

class Filter {
 public:
  Filter() : context_(seccomp_init(SCMP_ACT_ALLOW), seccomp_release) {
    RAVNEST_CHECK(context_ != nullptr);
    check(seccomp_attr_set(get(), SCMP_FLTATR_CTL_TSYNC, 1));
  }

  void refuse(int call, unsigned error = EPERM) const {
    check(seccomp_rule_add_array(get(), SCMP_ACT_ERRNO(error), call, 0, nullptr));
  }

  void refuse_where(int call, const scmp_arg_cmp& condition) const {
    check(seccomp_rule_add_array(get(), SCMP_ACT_ERRNO(EPERM), call, 1, &condition));
  }

  // Refuses all values of an argument but these.
  void allow_only(int call, unsigned argument, std::initializer_list<std::uint64_t> values) const {
    for (std::uint64_t value = 0; value < std::max(values); ++value) {
      if (std::ranges::find(values, value) == values.end()) {
        refuse_where(call, compare(argument, SCMP_CMP_EQ, value));
      }
    }
    refuse_where(call, compare(argument, SCMP_CMP_GT, std::max(values)));
  }

  void allow_only_types(int call, std::initializer_list<std::uint64_t> types) const {
    for (std::uint64_t type = 0; type <= kTypeMask; ++type) {
      if (std::ranges::find(types, type) == types.end()) {
        refuse_where(call, masked(1, kTypeMask, type));
      }
    }
  }

  void refuse_flag(int call, unsigned argument, std::uint64_t flag) const {
    refuse_where(call, masked(argument, flag, flag));
  }

  void load() const { check(seccomp_load(get())); }

 private:
  scmp_filter_ctx get() const { return context_.get(); }

  static void check(int result) {
    if (result != 0) {
      throw Error(ErrorKind::kIo, concat("[sandbox] the kernel refuses to filter system calls: ",
                                         std::strerror(-result), "."));
    }
  }

  std::unique_ptr<void, void (*)(scmp_filter_ctx)> context_;
};

void filter_signals(const Filter& filter) {
  const auto self = static_cast<std::uint64_t>(::getpid());
  for (const int call :
       {SCMP_SYS(kill), SCMP_SYS(tgkill), SCMP_SYS(rt_sigqueueinfo), SCMP_SYS(rt_tgsigqueueinfo)}) {
    filter.refuse_where(call, compare(0, SCMP_CMP_NE, self));
  }
  filter.refuse_where(SCMP_SYS(prlimit64), compare(0, SCMP_CMP_NE, 0));
  // Typing into the terminal that the process was started from.
  filter.refuse_where(SCMP_SYS(ioctl), masked(1, kWord, TIOCSTI));
  filter.refuse_where(SCMP_SYS(ioctl), masked(1, kWord, TIOCLINUX));
}

void filter_clones(const Filter& filter) {
  for (const std::uint64_t flag : kNamespaces) {
    filter.refuse_flag(SCMP_SYS(clone), 0, flag);
  }
  // Its flags lie in memory, where a filter does not see them; the C library then uses clone.
  filter.refuse(SCMP_SYS(clone3), ENOSYS);
}

// TCP and UDP alone. Landlock sees neither Unix sockets that have a path (behind which there may
// be somebody who starts programs) nor TCP by another name: MPTCP, or data sent along with a
// connection that is being opened.
void filter_sockets(const Filter& filter) {
  filter.allow_only(SCMP_SYS(socket), 0, {AF_INET, AF_INET6});
  filter.allow_only_types(SCMP_SYS(socket), {SOCK_STREAM, SOCK_DGRAM});
  filter.allow_only(SCMP_SYS(socket), 2, {0, IPPROTO_TCP, IPPROTO_UDP});
  filter.allow_only(SCMP_SYS(socketpair), 0, {AF_UNIX});
  filter.allow_only_types(SCMP_SYS(socketpair), {SOCK_STREAM});
  filter.refuse_flag(SCMP_SYS(sendto), 3, MSG_FASTOPEN);
  filter.refuse_flag(SCMP_SYS(sendmsg), 2, MSG_FASTOPEN);
  filter.refuse_flag(SCMP_SYS(sendmmsg), 3, MSG_FASTOPEN);
}

}  // namespace

bool filter_calls() {
  // The kernel looks at the address first, where it has filters at all.
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, nullptr) != 0 && errno == EINVAL) {
    return false;
  }
  const Filter filter;
  for (const int call : kRefused) {
    filter.refuse(call);
  }
  filter_signals(filter);
  filter_clones(filter);
  filter_sockets(filter);
  filter.load();
  return true;
}

}  // namespace ravnest::sandbox
