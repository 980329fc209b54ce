#include "ravnest/coordinator/artifacts.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <thread>

#include "ravnest/base/error.h"
#include "tests/base/temporary_folder.h"
#include "tests/coordinator/world.h"

namespace ravnest::coordinator {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Hash put(Artifacts& artifacts, const std::string& text) {
  const Hash hash = sha256_of(text);
  const auto size = static_cast<std::int64_t>(text.size());
  const auto upload = artifacts.begin(hash, size);
  const std::int64_t at = Artifacts::received(*upload);
  if (at < size) {
    artifacts.put(*upload, at, bytes_of(text).subspan(static_cast<std::size_t>(at)));
  }
  EXPECT_EQ(artifacts.received(hash, size), size);
  return hash;
}

std::set<std::string> tree(const std::filesystem::path& folder) {
  std::set<std::string> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    found.insert(entry.path().string());
  }
  return found;
}

TEST(Artifacts, WhatIsPutCanBeGot) {
  const TemporaryFolder folder;
  Artifacts artifacts(folder.path());
  const Hash hash = put(artifacts, "hello");
  EXPECT_TRUE(artifacts.has(hash));
  EXPECT_EQ(text_of(artifacts.get(hash)), "hello");
  EXPECT_EQ(artifacts.nbytes(), 5);
  EXPECT_EQ(put(artifacts, "hello"), hash);
  EXPECT_EQ(artifacts.nbytes(), 5);
  EXPECT_TRUE(artifacts.get(put(artifacts, "")).empty());
  EXPECT_THROW(artifacts.get(sha256_of("other")), std::invalid_argument);
}

TEST(Artifacts, AnUploadGoesOnWhereItWasCutOff) {
  const TemporaryFolder folder;
  const std::string text = "the whole of it";
  const Hash hash = sha256_of(text);
  {
    Artifacts artifacts(folder.path());
    EXPECT_EQ(artifacts.received(hash, 15), 0);
    EXPECT_EQ(artifacts.put(*artifacts.begin(hash, 15), 0, bytes_of("the w")), 5);
    EXPECT_FALSE(artifacts.has(hash));
  }
  Artifacts artifacts(folder.path());
  EXPECT_EQ(artifacts.received(hash, 15), 5);
  EXPECT_EQ(artifacts.put(*artifacts.begin(hash, 15), 5, bytes_of("hole of it")), 15);
  EXPECT_EQ(text_of(artifacts.get(hash)), text);
  EXPECT_EQ(artifacts.received(hash, 15), 15);
  EXPECT_EQ(artifacts.nbytes(), 15);
}

TEST(Artifacts, PartsOutOfPlaceAreRefused) {
  const TemporaryFolder folder;
  Artifacts artifacts(folder.path());
  const Hash hash = sha256_of("abcdef");
  const auto upload = artifacts.begin(hash, 6);
  artifacts.put(*upload, 0, bytes_of("abc"));
  EXPECT_THROW(artifacts.put(*upload, 0, bytes_of("abc")), std::invalid_argument);
  EXPECT_THROW(artifacts.put(*upload, 4, bytes_of("ef")), std::invalid_argument);
  EXPECT_THROW(artifacts.put(*upload, 3, bytes_of("defg")), std::invalid_argument);
  EXPECT_THROW(artifacts.put(*upload, -1, bytes_of("d")), std::invalid_argument);
  EXPECT_EQ(artifacts.put(*upload, 3, bytes_of("def")), 6);
  EXPECT_THROW(artifacts.put(*upload, 6, bytes_of("g")), std::invalid_argument);
}

TEST(Artifacts, TwoWhoSendTheSameShareIt) {
  const TemporaryFolder folder;
  Artifacts artifacts(folder.path());
  const Hash hash = sha256_of("abcdef");
  const auto one = artifacts.begin(hash, 6);
  const auto other = artifacts.begin(hash, 6);
  artifacts.put(*one, 0, bytes_of("abc"));
  EXPECT_THROW(artifacts.put(*other, 0, bytes_of("abc")), std::invalid_argument);
  EXPECT_THROW(artifacts.begin(hash, 2), std::invalid_argument) << "it would cut the other's off";
  EXPECT_EQ(Artifacts::received(*other), 3);
  EXPECT_EQ(artifacts.put(*other, 3, bytes_of("def")), 6);
  EXPECT_EQ(text_of(artifacts.get(hash)), "abcdef");
  EXPECT_THROW(artifacts.put(*one, 3, bytes_of("def")), std::invalid_argument);
  EXPECT_EQ(artifacts.nbytes(), 6);
}

TEST(Artifacts, AFileOfOursMayBeOnItsWayFromSomebodyElse) {
  const TemporaryFolder folder;
  Artifacts artifacts(folder.path() / "artifacts");
  std::ofstream(folder.path() / "file") << "abcdef";
  const Hash hash = sha256_of("abcdef");
  const auto upload = artifacts.begin(hash, 6);
  artifacts.put(*upload, 0, bytes_of("abc"));
  EXPECT_EQ(artifacts.take_file(folder.path() / "file"), hash);
  EXPECT_EQ(artifacts.put(*upload, 3, bytes_of("def")), 6);
  EXPECT_EQ(text_of(artifacts.get(hash)), "abcdef");
  EXPECT_EQ(artifacts.nbytes(), 6);
}

TEST(Artifacts, AFileOfOursIsOnTheDiskOnce) {
  const TemporaryFolder folder;
  Artifacts artifacts(folder.path() / "artifacts");
  for (int i = 0; i < 2; ++i) {
    std::ofstream(folder.path() / "file") << "abcdef";
    EXPECT_EQ(artifacts.take_file(folder.path() / "file"), sha256_of("abcdef"));
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "file"));
  }
  EXPECT_EQ(text_of(artifacts.get(sha256_of("abcdef"))), "abcdef");
  EXPECT_EQ(artifacts.nbytes(), 6);
}

TEST(Artifacts, AFileOfOursMayComeFromAnotherDisk) {
  const TemporaryFolder folder;
  const auto file = std::filesystem::path("/dev/shm") / folder.path().filename();
  std::ofstream(file) << "abcdef";
  Artifacts artifacts(folder.path());
  EXPECT_EQ(artifacts.take_file(file), sha256_of("abcdef"));
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_EQ(text_of(artifacts.get(sha256_of("abcdef"))), "abcdef");
}

TEST(Artifacts, AFileOfOursIsAsOldAsItsStayHere) {
  const TemporaryFolder folder;
  Artifacts artifacts(folder.path() / "artifacts");
  std::ofstream(folder.path() / "file") << "abcdef";
  const auto long_ago = std::filesystem::file_time_type::clock::now() - std::chrono::hours(2);
  std::filesystem::last_write_time(folder.path() / "file", long_ago);
  artifacts.take_file(folder.path() / "file");
  EXPECT_EQ(artifacts.sweep({}, std::chrono::hours(1)), 0U) << "its plan is still being written";
}

// Of a provider that was killed while it sent, and of one that only asks.
TEST(Artifacts, AnUploadThatIsLetGoTakesNoPlace) {
  const TemporaryFolder folder;
  Artifacts artifacts(folder.path(), {.most_uploads = 2});
  for (int i = 0; i < 10; ++i) {
    const Hash hash = sha256_of(std::to_string(i));
    EXPECT_EQ(artifacts.received(hash, 9), 0);
    artifacts.put(*artifacts.begin(hash, 9), 0, bytes_of("a part"));
    EXPECT_EQ(artifacts.received(hash, 9), 6) << "what has come stays";
  }
  const auto held = artifacts.begin(sha256_of("0"), 9);
  EXPECT_EQ(artifacts.sweep({}, std::chrono::seconds(-1)), 9U) << "all that nobody sends";
  EXPECT_EQ(artifacts.nbytes(), 6);
}

TEST(Artifacts, BytesWithAnotherHashAreRefusedAndGone) {
  const TemporaryFolder folder;
  Artifacts artifacts(folder.path());
  const Hash hash = sha256_of("right");
  EXPECT_THROW(artifacts.put(*artifacts.begin(hash, 5), 0, bytes_of("wrong")),
               std::invalid_argument);
  EXPECT_FALSE(artifacts.has(hash));
  EXPECT_EQ(artifacts.nbytes(), 0);
  EXPECT_EQ(artifacts.received(hash, 5), 0);
  EXPECT_THROW(artifacts.begin(hash, -1), std::invalid_argument);
}

TEST(Artifacts, OddNamesAreRefusedAndTouchNothing) {
  const TemporaryFolder folder;
  Artifacts artifacts(folder.path() / "artifacts");
  const std::string good = sha256_of("x");
  const auto before = tree(folder.path());
  std::vector<std::string> names = {
      "",           ".",          "..",        "/", "parts", "parts/" + good, "/etc/passwd",
      "../" + good, good + "/..", good + '\0', "~", "con",   "a\\b"};
  for (std::size_t i = 0; i < 64; ++i) {  // one character that is none
    std::string name = good;
    name[i] = "/.\\\0 Gg~"[i % 8];
    names.push_back(name);
    name[i] = static_cast<char>(0x80 + i);
    names.push_back(name);
  }
  for (std::size_t i = 0; i < 64; ++i) {  // too short, too long
    names.push_back(i % 2 == 0 ? good.substr(0, i) : good + std::string(i, 'a'));
  }
  ASSERT_GE(names.size(), 200U);
  for (const std::string& name : names) {
    EXPECT_THROW(artifacts.has(name), std::invalid_argument);
    EXPECT_THROW(artifacts.begin(name, 1), std::invalid_argument);
    EXPECT_THROW(artifacts.received(name, 1), std::invalid_argument);
    EXPECT_THROW(artifacts.get(name), std::invalid_argument);
    EXPECT_THROW(artifacts.verify(name), std::invalid_argument);
    EXPECT_THROW(artifacts.drop(name), std::invalid_argument);
  }
  EXPECT_EQ(tree(folder.path()), before);
}

TEST(Artifacts, ThereIsAnEndToAllBytesAndUploads) {
  const TemporaryFolder folder;
  Artifacts artifacts(folder.path(), {.most_bytes = 10, .most_uploads = 2});
  put(artifacts, "sixsix");
  const Hash hash = sha256_of("eight---");
  EXPECT_THROW(artifacts.begin(hash, 11), std::invalid_argument);
  const auto upload = artifacts.begin(hash, 8);
  EXPECT_EQ(artifacts.put(*upload, 0, bytes_of("eigh")), 4);
  EXPECT_THROW(artifacts.put(*upload, 4, bytes_of("t---")), Error);
  EXPECT_EQ(Artifacts::received(*upload), 4) << "what has come stays";
  const auto second = artifacts.begin(sha256_of("2"), 1);
  EXPECT_THROW(artifacts.begin(sha256_of("3"), 1), Error);
  artifacts.drop(sha256_of("sixsix"));
  EXPECT_EQ(artifacts.put(*upload, 4, bytes_of("t---")), 8);
}

TEST(Artifacts, TheDiskIsNotFilled) {
  const TemporaryFolder folder;
  Artifacts artifacts(folder.path(), {.free_bytes = std::int64_t{1} << 60});
  EXPECT_THROW(put(artifacts, "a"), Error);
  EXPECT_EQ(artifacts.nbytes(), 0);
}

TEST(Artifacts, AMemberTakesNoMoreThanHalfOfTheRoom) {
  const TemporaryFolder folder;
  Artifacts artifacts(folder.path(), {.most_bytes = 100});
  const auto send = [&](const std::string& text, const std::string& member) {
    const Hash hash = sha256_of(text);
    const auto upload = artifacts.begin(hash, static_cast<std::int64_t>(text.size()), member);
    artifacts.put(*upload, Artifacts::received(*upload), bytes_of(text));
    return hash;
  };
  const std::string half(50, 'e');
  EXPECT_THROW(send(half + "x", "eve"), Error);
  send(half, "eve");
  EXPECT_THROW(send("more", "eve"), Error);
  EXPECT_THROW(artifacts.begin(sha256_of("claimed"), 7, "eve"), Error);
  const Hash kept = send(std::string(20, 'c'), "carl");
  EXPECT_THROW(send(std::string(20, 'd'), "carl"), Error);
  artifacts.settle(kept, "eve", false);
  EXPECT_TRUE(artifacts.has(kept)) << "it is not hers";
  artifacts.settle(kept, "carl", true);
  EXPECT_TRUE(artifacts.has(kept));
  const Hash refused = send(std::string(10, 'd'), "carl");
  artifacts.settle(refused, "carl", false);
  EXPECT_FALSE(artifacts.has(refused));
  EXPECT_NO_THROW(send(std::string(15, 'd'), "carl"));
  artifacts.drop(sha256_of(half));
  EXPECT_NO_THROW(send("more", "eve"));
}

TEST(Artifacts, AnUploadThatGoesOnIsChargedOnce) {
  const TemporaryFolder folder;
  Artifacts artifacts(folder.path(), {.most_bytes = 100});
  const std::string text(50, 'a');
  const Hash hash = sha256_of(text);
  artifacts.put(*artifacts.begin(hash, 50, "rita"), 0, bytes_of(text.substr(0, 30)));
  const auto upload = artifacts.begin(hash, 50, "rita");
  EXPECT_EQ(artifacts.put(*upload, 30, bytes_of(text.substr(30))), 50);
}

TEST(Artifacts, AMembersFilesHaveAnEndHoweverSmall) {
  const TemporaryFolder folder;
  Artifacts artifacts(folder.path(), {.most_sent = 2});
  const auto send = [&](const std::string& text, const std::string& member) {
    artifacts.put(*artifacts.begin(sha256_of(text), 1, member), 0, bytes_of(text));
  };
  send("1", "eve");
  send("2", "eve");
  EXPECT_THROW(send("3", "eve"), Error);
  EXPECT_NO_THROW(send("3", "carl"));
  EXPECT_EQ(artifacts.sweep({}, std::chrono::seconds(-1)), 3U);
  EXPECT_NO_THROW(send("4", "eve"));
}

TEST(Artifacts, DamageIsFoundByTheHash) {
  const TemporaryFolder folder;
  Artifacts artifacts(folder.path());
  const Hash hash = put(artifacts, "as it was");
  EXPECT_TRUE(artifacts.verify(hash));
  std::ofstream(folder.path() / hash) << "as it wos";
  EXPECT_FALSE(artifacts.verify(hash));
  EXPECT_FALSE(artifacts.has(hash));
  EXPECT_EQ(put(artifacts, "as it was"), hash);
}

TEST(Artifacts, BytesThatAreOutStayAfterADrop) {
  const TemporaryFolder folder;
  Artifacts artifacts(folder.path());
  const Hash hash = put(artifacts, "mapped");
  const Bytes bytes = artifacts.get(hash);
  artifacts.drop(hash);
  artifacts.drop(hash);
  EXPECT_EQ(text_of(bytes), "mapped");
  EXPECT_EQ(artifacts.nbytes(), 0);
}

TEST(Artifacts, ASweepTakesWhatNobodyRefersTo) {
  const TemporaryFolder folder;
  Artifacts artifacts(folder.path());
  const Hash used = put(artifacts, "used");
  const Hash unused = put(artifacts, "unused");
  EXPECT_EQ(artifacts.sweep({{used, 1}}, std::chrono::hours(1)), 0U) << "somebody may yet";
  EXPECT_EQ(artifacts.sweep({{used, 1}}, std::chrono::seconds(-1)), 1U);
  EXPECT_TRUE(artifacts.has(used));
  EXPECT_FALSE(artifacts.has(unused));
}

TEST(Artifacts, ManyThreadsMayPutAtOnce) {
  const TemporaryFolder folder;
  Artifacts artifacts(folder.path());
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&artifacts, t] {
        for (int i = 0; i < 20; ++i) {
          put(artifacts, std::string(1000, 'a') + std::to_string(100 * t + i));
        }
      });
    }
  }
  EXPECT_EQ(artifacts.nbytes(), 80 * 1000 + 60 * 3 + 10 * 1 + 10 * 2);
}

}  // namespace
}  // namespace ravnest::coordinator
