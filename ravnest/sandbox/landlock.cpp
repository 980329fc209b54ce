#include "ravnest/sandbox/landlock.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "ravnest/base/error.h"

namespace ravnest::sandbox {

namespace {

// What is newer than the system's header, from the kernel's.
constexpr std::uint64_t kTruncate = 1ULL << 14;       // since 3
constexpr std::uint64_t kDeviceControl = 1ULL << 15;  // since 5
constexpr std::uint64_t kBindTcp = 1ULL << 0;         // since 4
constexpr std::uint64_t kConnectTcp = 1ULL << 1;      // since 4
constexpr std::uint64_t kScopes = 0b11;               // since 6: abstract sockets, signals
constexpr int kPortRule = 2;                          // since 4

struct Handled {
  std::uint64_t files = 0;
  std::uint64_t ports = 0;
  std::uint64_t scopes = 0;
};

struct PortRule {
  std::uint64_t allowed = 0;
  std::uint64_t port = 0;
};

// Nothing is ever to be executed: libraries are only read.
constexpr std::uint64_t kRead = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr std::uint64_t kUseDevice = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE;
// Without links, sockets and devices, which somebody outside could stumble upon.
constexpr std::uint64_t kWrite = kRead | LANDLOCK_ACCESS_FS_WRITE_FILE |
                                 LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
                                 LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
                                 LANDLOCK_ACCESS_FS_REFER | kTruncate;
// What a rule about a file, not a folder, can say.
constexpr std::uint64_t kOfFiles =
    LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | kTruncate;

// Everything that this version knows of.
Handled handled_by(int abi, const LandlockRules& rules) {
  // The bits are given in order: 13 with the first version, then one with the second and so on.
  std::uint64_t files = LANDLOCK_ACCESS_FS_REFER - 1;
  files |= abi >= 2 ? LANDLOCK_ACCESS_FS_REFER : 0;
  files |= abi >= 3 ? kTruncate : 0;
  files |= abi >= 5 ? kDeviceControl : 0;
  const std::uint64_t ports = kBindTcp | (rules.connect_ports ? kConnectTcp : 0);
  return {.files = files, .ports = abi >= 4 ? ports : 0, .scopes = abi >= 6 ? kScopes : 0};
}

[[noreturn]] void throw_refused(const char* step) {
  throw Error(ErrorKind::kIo,
              concat("[sandbox] the kernel refuses to ", step, ": ", std::strerror(errno), "."));
}

// The rules on their way to the kernel.
class Ruleset {
 public:
  explicit Ruleset(const Handled& handled) : handled_(handled) {
    descriptor_ = static_cast<int>(
        ::syscall(SYS_landlock_create_ruleset, &handled_, sizeof(handled_), std::uint32_t{0}));
    if (descriptor_ < 0) {
      throw_refused("make a set of Landlock rules");
    }
  }
  ~Ruleset() { ::close(descriptor_); }
  Ruleset(const Ruleset&) = delete;
  Ruleset& operator=(const Ruleset&) = delete;

  void allow_path(const std::filesystem::path& path, std::uint64_t access) const {
    const int opened = ::open(path.c_str(), O_PATH | O_CLOEXEC);
    if (opened < 0) {
      return;
    }
    struct stat status{};
    ::fstat(opened, &status);
    access &= S_ISDIR(status.st_mode) ? handled_.files : handled_.files & kOfFiles;
    const landlock_path_beneath_attr rule{.allowed_access = access, .parent_fd = opened};
    add(LANDLOCK_RULE_PATH_BENEATH, &rule);
    // An entry of /proc is made anew once the kernel has dropped it from its cache, and the rule
    // would not know the new one. A descriptor keeps it there.
    if (path != "/proc/self") {
      ::close(opened);
    }
  }

  void allow_port(std::uint16_t port, std::uint64_t access) const {
    const PortRule rule{.allowed = access & handled_.ports, .port = port};
    if (rule.allowed != 0) {
      add(kPortRule, &rule);
    }
  }

  void restrict_self() const {
    if (::syscall(SYS_landlock_restrict_self, descriptor_, std::uint32_t{0}) != 0) {
      throw_refused("apply Landlock rules");
    }
  }

 private:
  void add(int type, const void* rule) const {
    if (::syscall(SYS_landlock_add_rule, descriptor_, type, rule, std::uint32_t{0}) != 0) {
      throw_refused("add a Landlock rule");
    }
  }

  const Handled handled_;
  int descriptor_ = -1;
};

}  // namespace

int landlock_abi() {
  const long version = ::syscall(SYS_landlock_create_ruleset, nullptr, std::size_t{0},
                                 std::uint32_t{LANDLOCK_CREATE_RULESET_VERSION});
  return version < 0 ? 0 : static_cast<int>(version);
}

void restrict_to(const LandlockRules& rules, int abi) {
  const Ruleset ruleset(handled_by(abi, rules));
  for (const auto& path : rules.readable) {
    ruleset.allow_path(path, kRead);
  }
  for (const auto& path : rules.devices) {
    ruleset.allow_path(path, kUseDevice);
  }
  for (const auto& path : rules.writable) {
    ruleset.allow_path(path, kWrite);
  }
  for (const std::uint16_t port : rules.bind_ports) {
    ruleset.allow_port(port, kBindTcp);
  }
  for (const std::uint16_t port : rules.connect_ports.value_or(std::vector<std::uint16_t>())) {
    ruleset.allow_port(port, kConnectTcp);
  }
  ruleset.restrict_self();
}

}  // namespace ravnest::sandbox
