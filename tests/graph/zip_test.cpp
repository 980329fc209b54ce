#include "ravnest/graph/pt2/zip.h"

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>

#include "tests/base/temporary_folder.h"
#include "tests/graph/archive_bytes.h"

namespace ravnest::graph {
namespace {

// Reads the whole archive; the refusal, or "no error".
std::string zip_error(const std::string& archive) {
  try {
    const ZipReader reader(bytes_of(archive), "label.pt2");
    for (const std::string& name : reader.names()) {
      reader.read(name);
    }
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

void expect_zip_refused(const std::string& archive, const std::string& reason) {
  const std::string error = zip_error(archive);
  EXPECT_NE(error.find("'label.pt2'"), std::string::npos) << error;
  EXPECT_NE(error.find(reason), std::string::npos) << error;
  EXPECT_EQ(error.find('\n'), std::string::npos) << error;
}

std::string written(const std::function<void(ZipWriter&)>& fill) {
  const TemporaryFolder folder;
  ZipWriter writer(folder.path() / "a.zip", "root");
  fill(writer);
  writer.finish();
  return text_of(Bytes::map_file(folder.path() / "a.zip"));
}

std::string small_archive() {
  return written([](ZipWriter& writer) {
    writer.add("a", "first");
    writer.add("folder/b", std::string(100, 'b'));
  });
}

// Zip64's field with these numbers.
std::string wide_field(const std::vector<std::uint64_t>& numbers) {
  std::string field;
  put<std::uint16_t>(field, 1);
  put(field, static_cast<std::uint16_t>(8 * numbers.size()));
  for (const std::uint64_t number : numbers) {
    put(field, number);
  }
  return field;
}

// Zip64's two records at the end, for a directory that begins and counts so.
std::string wide_end(std::uint64_t record, std::uint64_t offset, std::uint64_t size,
                     std::uint64_t count) {
  std::string out;
  put<std::uint32_t>(out, 0x06064b50);
  put<std::uint64_t>(out, 44);
  put<std::uint32_t>(out, 0x002d002d);
  put<std::uint64_t>(out, 0);
  put(out, count);
  put(out, count);
  put(out, size);
  put(out, offset);
  put<std::uint32_t>(out, 0x07064b50);
  put<std::uint32_t>(out, 0);
  put(out, record);
  put<std::uint32_t>(out, 1);
  return out;
}

constexpr std::uint64_t kTerabyte = std::uint64_t{1} << 40;

TEST(Zip, GivesBackWhatWasWritten) {
  const ZipReader reader(bytes_of(small_archive()), "label");
  EXPECT_EQ(reader.names(), (std::vector<std::string>{"a", "folder/b"}));
  EXPECT_TRUE(reader.contains("a"));
  EXPECT_FALSE(reader.contains("b"));
  EXPECT_EQ(text_of(reader.read("a")), "first");
  EXPECT_EQ(text_of(reader.read("folder/b")), std::string(100, 'b'));
}

TEST(Zip, ReadsAnArchiveWithoutEntriesAndAnEmptyEntry) {
  EXPECT_EQ(zip_error(written([](ZipWriter&) {})), "no error");
  const std::string archive = written([](ZipWriter& writer) { writer.add("none", ""); });
  EXPECT_TRUE(ZipReader(bytes_of(archive), "label").read("none").empty());
}

TEST(Zip, EntriesAreViewsAlignedTo64Bytes) {
  const std::string archive = written([](ZipWriter& writer) {
    for (std::size_t i = 0; i < 70; ++i) {
      writer.add(std::string(i + 1, 'n'), std::string(i, 'x'));
    }
  });
  const Bytes bytes = bytes_of(archive);
  const ZipReader reader(bytes, "label");
  EXPECT_EQ(reader.names().size(), 70U);
  for (const std::string& name : reader.names()) {
    EXPECT_EQ((reader.read(name).data() - bytes.data()) % 64, 0) << name.size();
    EXPECT_EQ(reader.read(name).size(), name.size() - 1);
  }
}

TEST(Zip, EqualEntriesGiveEqualBytes) { EXPECT_EQ(small_archive(), small_archive()); }

TEST(Zip, ReadsMoreEntriesThanA16BitCount) {
  const std::string archive = written([](ZipWriter& writer) {
    for (int i = 0; i < 65536; ++i) {
      writer.add(std::to_string(i), "");
    }
  });
  EXPECT_EQ(ZipReader(bytes_of(archive), "label").names().size(), 65536U);
}

TEST(Zip, TheFileAppearsAtFinish) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "a.zip";
  ZipWriter writer(path, "root");
  writer.add("a", "x");
  EXPECT_FALSE(std::filesystem::exists(path));
  writer.finish();
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST(Zip, ReadsWhatAnotherWriterMade) {
  EXPECT_EQ(zip_error(handmade_zip({{.name = "r/a", .content = "x"}, {.name = "r/b"}})),
            "no error");
}

TEST(Zip, SaysWhichEntryIsMissing) {
  const ZipReader reader(bytes_of(small_archive()), "label.pt2");
  EXPECT_THROW(reader.read("nobody"), std::invalid_argument);
}

TEST(Zip, RefusesEveryTruncation) {
  const std::string archive = small_archive();
  for (std::size_t size = 0; size < archive.size(); ++size) {
    const std::string error = zip_error(archive.substr(0, size));
    EXPECT_NE(error.find("'label.pt2'"), std::string::npos) << size << ": " << error;
  }
}

TEST(Zip, RefusesEveryMissingBeginning) {
  const std::string archive = small_archive();
  for (std::size_t start = 1; start <= archive.size(); ++start) {
    EXPECT_NE(zip_error(archive.substr(start)), "no error") << start;
  }
}

TEST(Zip, AnyChangedBitIsRefusedOrHarmless) {
  const std::string archive = small_archive();
  for (std::size_t bit = 0; bit < archive.size() * 8; ++bit) {
    std::string changed = archive;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    if (zip_error(changed) == "no error") {
      const ZipReader reader(bytes_of(changed), "label");
      EXPECT_EQ(text_of(reader.read("a")), "first") << bit;
      EXPECT_EQ(text_of(reader.read("folder/b")), std::string(100, 'b')) << bit;
    }
  }
}

TEST(Zip, RefusesTrailingBytes) {
  expect_zip_refused(small_archive() + "x", "does not end like a zip file");
  expect_zip_refused(small_archive() + std::string(22, '\0'), "does not end like a zip file");
}

TEST(Zip, RefusesCompressedAndEncryptedEntries) {
  expect_zip_refused(handmade_zip({{.name = "r/a", .content = "x", .method = 8}}), "compressed");
  expect_zip_refused(handmade_zip({{.name = "r/a", .content = "x", .flags = 1}}), "encrypted");
}

TEST(Zip, RefusesADamagedEntry) {
  expect_zip_refused(handmade_zip({{.name = "r/a", .content = "x", .crc = 7}}), "checksum");
}

TEST(Zip, RefusesNamesThatAreNoPlainRelativePath) {
  for (const char* name : {"", "/etc/passwd", "r/../a", "../a", "r/..", "r//a", "r/a/", "r\\a",
                           "C:/a", "r/\n", "r/\x7f"}) {
    expect_zip_refused(handmade_zip({{.name = name, .content = "x"}}), "plain relative path");
  }
  expect_zip_refused(handmade_zip({{.name = std::string("r/a\0b", 5), .content = "x"}}),
                     "plain relative path");
  expect_zip_refused(handmade_zip({{.name = "r/" + std::string(600, 'n'), .content = "x"}}),
                     "plain relative path");
}

TEST(Zip, RefusesEntriesOutsideOneCommonFolder) {
  expect_zip_refused(handmade_zip({{.name = "a", .content = "x"}}), "common folder");
  expect_zip_refused(
      handmade_zip({{.name = "r/a", .content = "x"}, {.name = "s/a", .content = "x"}}),
      "common folder");
}

TEST(Zip, RefusesTwoEntriesOfOneName) {
  expect_zip_refused(
      handmade_zip({{.name = "r/a", .content = "x"}, {.name = "r/a", .content = "y"}}),
      "there twice");
}

TEST(Zip, RefusesOverlappingEntries) {
  // The second lies in the first, whose content is a local header.
  const std::string inner = handmade_zip({{.name = "r/b", .content = "y"}}).substr(0, 34);
  const std::uint32_t offset = 30 + 3;
  expect_zip_refused(handmade_zip({{.name = "r/a", .content = inner},
                                   {.name = "r/b", .content = "y", .offset = offset}}),
                     "overlap");
  expect_zip_refused(
      handmade_zip({{.name = "r/a", .content = "x"}, {.name = "r/a", .content = "x", .offset = 0}}),
      "");
}

TEST(Zip, RefusesTwoDescriptionsOfOneEntry) {
  expect_zip_refused(handmade_zip({{.name = "r/a", .content = "x", .local_name = "r/b"}}),
                     "two different ways");
  expect_zip_refused(handmade_zip({{.name = "r/a", .content = "x", .packed_size = 2}}),
                     "two different sizes");
}

TEST(Zip, RefusesSizesAndOffsetsOutsideTheFile) {
  expect_zip_refused(handmade_zip({{.name = "r/a", .content = "x", .size = 2}}),
                     "outside the file");
  expect_zip_refused(handmade_zip({{.name = "r/a", .content = "x", .size = 0xfffffffe}}),
                     "outside the file");
  expect_zip_refused(handmade_zip({{.name = "r/a", .content = "x", .offset = 1}}),
                     "outside the file");
  expect_zip_refused(handmade_zip({{.name = "r/a", .content = "x", .offset = 0xfffffff0}}),
                     "outside the file");
}

TEST(Zip, RefusesALyingEnd) {
  const std::vector<HandmadeEntry> one{{.name = "r/a", .content = "x"}};
  expect_zip_refused(handmade_zip(one, {.count = 0}), "size it states");
  expect_zip_refused(handmade_zip(one, {.count = 2}), "more entries than it can hold");
  expect_zip_refused(handmade_zip(one, {.count = 60000}), "more entries than it can hold");
  expect_zip_refused(handmade_zip(one, {.count = 0xffff}), "64-bit directory is missing");
  expect_zip_refused(handmade_zip(one, {.size = 48}), "damaged");
  expect_zip_refused(handmade_zip(one, {.size = 46}), "damaged");
  expect_zip_refused(handmade_zip(one, {.size = 1000}), "outside the file");
  expect_zip_refused(handmade_zip(one, {.offset = 0}), "damaged");
  expect_zip_refused(handmade_zip(one, {.offset = 0xfffffff0}), "outside the file");
}

TEST(Zip, RefusesEntriesThatClaimATerabyte) {
  const auto claiming = [](std::uint64_t size) {
    return handmade_zip({{.name = "r/a",
                          .content = "x",
                          .size = 0xffffffff,
                          .directory_extra = wide_field({size, size})}});
  };
  EXPECT_EQ(zip_error(claiming(1)), "no error");
  expect_zip_refused(claiming(kTerabyte), "outside the file");
  expect_zip_refused(claiming(UINT64_MAX), "outside the file");
  expect_zip_refused(handmade_zip({{.name = "r/a", .content = "x", .size = 0xffffffff}}),
                     "outside the file");
}

TEST(Zip, RefusesExtraFieldsThatReachOutside) {
  std::string field = wide_field({1, 1});
  field[2] = 100;
  expect_zip_refused(handmade_zip({{.name = "r/a", .content = "x", .directory_extra = field}}),
                     "damaged");
}

TEST(Zip, RefusesA64BitDirectoryThatLies) {
  const std::uint64_t start = 30 + 3 + 1;
  const std::uint64_t size = 46 + 3;
  const auto with = [](const std::string& records) {
    return handmade_zip({{.name = "r/a", .content = "x"}}, {.count = 0xffff, .before = records});
  };
  EXPECT_EQ(zip_error(with(wide_end(start + size, start, size, 1))), "no error");
  expect_zip_refused(with(wide_end(kTerabyte, start, size, 1)), "outside the file");
  expect_zip_refused(with(wide_end(UINT64_MAX, start, size, 1)), "outside the file");
  expect_zip_refused(with(wide_end(start + size, kTerabyte, size, 1)), "outside the file");
  expect_zip_refused(with(wide_end(start + size, start, UINT64_MAX, 1)), "outside the file");
  expect_zip_refused(with(wide_end(start + size, start, size, kTerabyte)), "more entries");
  expect_zip_refused(with(wide_end(start + size, start, size, UINT64_MAX)), "more entries");
}

}  // namespace
}  // namespace ravnest::graph
