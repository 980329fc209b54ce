#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <fstream>
#include <thread>

#include "tests/base/temporary_folder.h"
#include "tests/sandbox/inside.h"

namespace ravnest::sandbox {

namespace {

namespace fs = std::filesystem;

int open_answer(const fs::path& path, int flags) {
  return answer(::open(path.c_str(), flags, 0600));
}

int write_file(const fs::path& path, std::size_t nbytes) {
  const int opened = ::open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
  if (opened < 0) {
    return errno;
  }
  const std::string bytes(1 << 16, 'x');
  for (std::size_t done = 0; done < nbytes; done += bytes.size()) {
    if (::write(opened, bytes.data(), bytes.size()) < 0) {
      return errno;
    }
  }
  return answer(::close(opened));
}

// Two folders: one is the child's, the other is not.
class Files : public ::testing::Test {
 protected:
  Files() {
    std::ofstream(other_.path() / "file") << "text";
    std::ofstream(own_.path() / "file") << "text";
    options_.writable = {own_.path()};
  }

  // The attempt works outside, and is refused inside.
  void expect_closed(const std::function<int()>& attempt, int refusal = EACCES) {
    EXPECT_EQ(inside(options_, attempt), refusal);
    EXPECT_EQ(in_child(attempt), 0);
  }

  TemporaryFolder own_;
  TemporaryFolder other_;
  SandboxOptions options_;
};

TEST_F(Files, OutsideCannotBeRead) {
  expect_closed([] { return open_answer("/etc/passwd", O_RDONLY); });
  expect_closed([] { return open_answer("/", O_RDONLY | O_DIRECTORY); });
  expect_closed([&] { return open_answer(other_.path() / "file", O_RDONLY); });
  expect_closed([] {
    const std::string parent = "/proc/" + std::to_string(::getppid()) + "/status";
    return open_answer(parent, O_RDONLY);
  });
}

TEST_F(Files, OutsideCannotBeWritten) {
  expect_closed([&] { return open_answer(other_.path() / "file", O_WRONLY); });
  expect_closed([&] { return open_answer(other_.path() / "new", O_CREAT | O_WRONLY | O_EXCL); });
  expect_closed([&] { return answer(::mkdir((other_.path() / "folder").c_str(), 0700)); });
  expect_closed([&] { return answer(::unlink((other_.path() / "file").c_str())); });
}

TEST_F(Files, OutsideCannotBeEmptied) {
  if (abi() >= 3) {
    expect_closed([&] { return answer(::truncate((other_.path() / "file").c_str(), 0)); });
  } else {
    EXPECT_NE(in_child([&] { return enter(options_).lacking.empty() ? 0 : 1; }), 0);
  }
}

TEST_F(Files, ModesOwnersAndTimesStay) {
  const std::string file = other_.path() / "file";
  expect_closed([&] { return answer(::chmod(file.c_str(), 0666)); }, EPERM);
  expect_closed([&] { return answer(::chown(file.c_str(), ::getuid(), ::getgid())); }, EPERM);
  expect_closed([&] { return answer(::utimensat(AT_FDCWD, file.c_str(), nullptr, 0)); }, EPERM);
  const auto newer_chmod = [&] {
    constexpr long kFchmodat2 = 452;
    return answer(::syscall(kFchmodat2, AT_FDCWD, file.c_str(), 0666, 0));
  };
  EXPECT_EQ(inside(options_, newer_chmod), EPERM);
}

TEST_F(Files, NoWayLeadsOutOfTheOwnFolder) {
  fs::create_symlink(other_.path() / "file", own_.path() / "link");
  expect_closed([&] { return open_answer(own_.path() / "link", O_RDONLY); });
  expect_closed([&] {
    return open_answer(own_.path() / ".." / other_.path().filename() / "file", O_RDONLY);
  });
  expect_closed(
      [&] { return answer(::symlink("/etc/passwd", (own_.path() / "for_others").c_str())); });
}

TEST_F(Files, TheOwnFolderIsOpen) {
  EXPECT_EQ(inside(options_,
                   [&] {
                     const fs::path folder = own_.path() / "a" / "b";
                     fs::create_directories(folder);
                     std::ofstream(folder / "new") << "inside";
                     fs::rename(folder / "new", folder / "renamed");
                     fs::remove(own_.path() / "file");
                     return 0;
                   }),
            0);
  std::string word;
  std::ifstream(own_.path() / "a" / "b" / "renamed") >> word;
  EXPECT_EQ(word, "inside");
  EXPECT_FALSE(fs::exists(own_.path() / "file"));
}

TEST_F(Files, WhatIsReadableCannotBeWritten) {
  options_.readable = {other_.path()};
  EXPECT_EQ(inside(options_, [&] { return open_answer(other_.path() / "file", O_RDONLY); }), 0);
  expect_closed([&] { return open_answer(other_.path() / "file", O_WRONLY); });
}

TEST_F(Files, AThreadThatIsStartedLaterIsClosedInToo) {
  expect_closed([] {
    int result = 0;
    std::thread([&result] { result = open_answer("/etc/passwd", O_RDONLY); }).join();
    return result;
  });
}

TEST_F(Files, AFileGrowsToItsLimit) {
  options_.file_bytes = 1 << 20;
  EXPECT_EQ(inside(options_, [&] { return write_file(own_.path() / "whole", 1 << 20); }), 0);
  expect_closed([&] { return write_file(own_.path() / "large", 2 << 20); }, EFBIG);
}

TEST_F(Files, AFolderThatIsMissingIsNamed) {
  options_.writable = {own_.path() / "nowhere"};
  EXPECT_EQ(in_child([&] {
              try {
                enter(options_);
              } catch (const std::invalid_argument& error) {
                return std::string(error.what()).find("nowhere") != std::string::npos ? 0 : 1;
              }
              return 2;
            }),
            0);
}

}  // namespace

}  // namespace ravnest::sandbox
