#include "ravnest/base/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "ravnest/base/error.h"
#include "tests/base/temporary_folder.h"

namespace ravnest {
namespace {

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::ptrdiff_t files_in(const TemporaryFolder& folder) {
  return std::distance(std::filesystem::directory_iterator(folder.path()), {});
}

// The sentence of the Error(kIo) that `run` throws.
template <typename Run>
std::string io_error_of(Run&& run) {
  try {
    run();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    return error.what();
  }
  return "no error";
}

// Makes files of this process end at `nbytes`, until the end of the scope.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t nbytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{nbytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST(AtomicFile, AppearsWithAllItsBytesAtCommit) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "file";
  AtomicFile file(path);
  file.write("one ");
  file.write(std::string(100000, 'x'));
  EXPECT_FALSE(std::filesystem::exists(path));
  file.commit();
  EXPECT_EQ(content_of(path), "one " + std::string(100000, 'x'));
  EXPECT_EQ(files_in(folder), 1);
}

TEST(AtomicFile, LeavesNothingWithoutCommit) {
  const TemporaryFolder folder;
  {
    AtomicFile file(folder.path() / "file");
    file.write("half");
    EXPECT_EQ(files_in(folder), 1);
  }
  EXPECT_EQ(files_in(folder), 0);
}

TEST(AtomicFile, KeepsTheOldFileUntilCommit) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "file";
  std::ofstream(path) << "old";
  {
    AtomicFile file(path);
    file.write("abandoned");
  }
  EXPECT_EQ(content_of(path), "old");
  AtomicFile file(path);
  file.write("new");
  file.commit();
  EXPECT_EQ(content_of(path), "new");
  EXPECT_EQ(files_in(folder), 1);
}

TEST(AtomicFile, TheLastOfTwoWritersWins) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "file";
  AtomicFile first(path);
  AtomicFile second(path);
  first.write("first");
  second.write("second");
  second.commit();
  first.commit();
  EXPECT_EQ(content_of(path), "first");
  EXPECT_EQ(files_in(folder), 1);
}

TEST(AtomicFile, HasThePermissionsOfAnOrdinaryFile) {
  const TemporaryFolder folder;
  const mode_t before = ::umask(027);
  AtomicFile file(folder.path() / "file");
  file.commit();
  ::umask(before);
  const auto permissions = std::filesystem::status(folder.path() / "file").permissions();
  EXPECT_EQ(permissions, static_cast<std::filesystem::perms>(0640));
}

TEST(AtomicFile, NamesTheTargetWhereThereIsNoFolder) {
  const std::string path = "/nonexistent/folder/file";
  EXPECT_NE(io_error_of([&] { AtomicFile{path}; }).find("'" + path + "'"), std::string::npos);
}

TEST(AtomicFile, NamesTheTargetWhereItMayNotWrite) {
  const std::string path = "/proc/file";
  EXPECT_NE(io_error_of([&] { AtomicFile{path}; }).find("'" + path + "'"), std::string::npos);
}

TEST(AtomicFile, RefusesToReplaceAFolder) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "taken";
  std::filesystem::create_directory(path);
  const std::string error = io_error_of([&] {
    AtomicFile file(path);
    file.write("x");
    file.commit();
  });
  EXPECT_NE(error.find(path.string()), std::string::npos) << error;
  EXPECT_EQ(files_in(folder), 1);
}

TEST(AtomicFile, LeavesNothingWhenTheDiskRefuses) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "file";
  std::string error;
  {
    const FileSizeLimit limit(4096);
    error = io_error_of([&] {
      AtomicFile file(path);
      file.write(std::string(10000, 'x'));
      file.commit();
    });
  }
  EXPECT_NE(error.find(path.string()), std::string::npos) << error;
  EXPECT_EQ(files_in(folder), 0);
}

}  // namespace
}  // namespace ravnest
