#include "ravnest/base/new_folder.h"

#include <gtest/gtest.h>

#include <fstream>

#include "ravnest/base/error.h"

namespace ravnest {
namespace {

namespace fs = std::filesystem;

class NewFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string text = testing::TempDir() + "new_folder.XXXXXX";
    ASSERT_NE(::mkdtemp(text.data()), nullptr);
    root_ = text;
  }
  void TearDown() override { fs::remove_all(root_); }

  fs::path root_;
};

TEST_F(NewFolderTest, IsTakenAwayWithThoseAboveIt) {
  {
    const NewFolder folder(root_ / "a" / "b" / "");
    std::ofstream(root_ / "a" / "b" / "file") << "text";
  }
  EXPECT_FALSE(fs::exists(root_ / "a"));
  EXPECT_TRUE(fs::exists(root_));
}

TEST_F(NewFolderTest, StaysWhereItIsKept) {
  {
    NewFolder folder(root_ / "a" / "b");
    folder.keep();
  }
  EXPECT_TRUE(fs::is_directory(root_ / "a" / "b"));
}

TEST_F(NewFolderTest, StaysWhereItWasThere) {
  std::ofstream(root_ / "file") << "text";
  {
    const NewFolder folder(root_);
  }
  EXPECT_TRUE(fs::exists(root_ / "file"));
}

TEST_F(NewFolderTest, SaysWhatCannotBeMade) {
  std::ofstream(root_ / "file") << "text";
  for (const fs::path& path : {root_ / "file", root_ / "file" / "below", fs::path("/proc/nope")}) {
    try {
      const NewFolder folder(path);
      FAIL() << path << " was made";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kIo);
      EXPECT_NE(std::string(error.what()).find("cannot make the folder '" + path.string()),
                std::string::npos)
          << error.what();
    }
  }
  EXPECT_TRUE(fs::is_regular_file(root_ / "file"));
}

}  // namespace
}  // namespace ravnest
