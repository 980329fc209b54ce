#include "ravnest/base/bytes.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "ravnest/base/error.h"
#include "tests/base/temporary_folder.h"

namespace ravnest {
namespace {

std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Bytes bytes_of(const std::string& text) { return Bytes::copy_of(std::as_bytes(std::span(text))); }

TEST(Bytes, AreEmptyByDefault) {
  EXPECT_TRUE(Bytes().empty());
  EXPECT_EQ(Bytes().size(), 0U);
}

TEST(Bytes, CopiesItsSource) {
  std::string source = "hello";
  const Bytes bytes = bytes_of(source);
  source[0] = 'j';
  EXPECT_EQ(text_of(bytes), "hello");
}

TEST(Bytes, TakesAVectorWithoutCopyingIt) {
  std::vector<std::byte> source(100);
  const std::byte* data = source.data();
  EXPECT_EQ(Bytes::take(std::move(source)).data(), data);
}

TEST(Bytes, CopiesAndSlicesShareMemory) {
  const Bytes bytes = bytes_of("hello");
  const Bytes copy = bytes;
  EXPECT_EQ(copy.data(), bytes.data());
  EXPECT_EQ(bytes.slice(1, 3).data(), bytes.data() + 1);
  EXPECT_EQ(text_of(bytes.slice(1, 3)), "ell");
  EXPECT_EQ(text_of(bytes.slice(1, 3).slice(1, 1)), "l");
}

TEST(Bytes, ASliceOutlivesTheWhole) {
  Bytes slice;
  {
    const Bytes whole = bytes_of(std::string(1000, 'x') + "end");
    slice = whole.slice(1000, 3);
  }
  EXPECT_EQ(text_of(slice), "end");
}

TEST(Bytes, RefusesASliceOutside) {
  const Bytes bytes = bytes_of("hello");
  EXPECT_EQ(bytes.slice(5, 0).size(), 0U);
  EXPECT_EQ(bytes.slice(0, 5).size(), 5U);
  EXPECT_THROW(bytes.slice(0, 6), std::out_of_range);
  EXPECT_THROW(bytes.slice(6, 0), std::out_of_range);
  EXPECT_THROW(bytes.slice(2, SIZE_MAX), std::out_of_range);
  EXPECT_THROW(bytes.slice(SIZE_MAX, 1), std::out_of_range);
}

TEST(Bytes, MapsAFile) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "file";
  std::ofstream(path) << "mapped";
  EXPECT_EQ(text_of(Bytes::map_file(path)), "mapped");
}

TEST(Bytes, AMapStaysAfterTheFileIsRemoved) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "file";
  std::ofstream(path) << "mapped";
  const Bytes bytes = Bytes::map_file(path);
  std::filesystem::remove(path);
  EXPECT_EQ(text_of(bytes), "mapped");
}

TEST(Bytes, WritesToAMapStayInTheProcess) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "file";
  std::ofstream(path) << "mapped";
  const Bytes bytes = Bytes::map_file(path);
  *const_cast<std::byte*>(bytes.data()) = std::byte{'M'};
  EXPECT_EQ(text_of(bytes), "Mapped");
  EXPECT_EQ(text_of(Bytes::map_file(path)), "mapped");
}

TEST(Bytes, MapsAnEmptyFile) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "empty";
  std::ofstream{path};
  EXPECT_TRUE(Bytes::map_file(path).empty());
}

TEST(Bytes, SaysWhichFileCannotBeMapped) {
  const TemporaryFolder folder;
  for (const auto& path : {folder.path() / "missing", folder.path()}) {
    try {
      Bytes::map_file(path);
      ADD_FAILURE() << "mapped " << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kIo);
      EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace ravnest
