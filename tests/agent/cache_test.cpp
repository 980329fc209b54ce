#include "ravnest/agent/cache.h"

#include "tests/server/world.h"

namespace ravnest::agent {
namespace {

namespace fs = std::filesystem;
using server::hash_of;
using server::write_file;

class CacheTest : public server::World {
 protected:
  coordinator::Hash put(const std::string& bytes) const {
    return rita_.client->upload(write_file(file("upload"), bytes));
  }
  static std::string text_of(const fs::path& path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  void age(const coordinator::Hash& hash, int minutes) const {
    fs::last_write_time(file("cache") / hash,
                        fs::file_time_type::clock::now() - std::chrono::minutes(minutes));
  }
  bool has(const coordinator::Hash& hash) const { return fs::exists(file("cache") / hash); }

  const server::Person rita_ = requester("rita");
  const server::Person boss_ = owner();
  Cache cache_{file("cache"), 1000};
};

TEST_F(CacheTest, AFileIsFetchedOnce) {
  const auto hash = put("some bytes");
  int parts = 0;
  const auto count = [&](std::int64_t, std::int64_t) { ++parts; };
  EXPECT_EQ(text_of(cache_.get(*boss_.client, hash, {.progress = count})), "some bytes");
  EXPECT_EQ(parts, 1);
  server.reset();  // it is not asked again
  EXPECT_EQ(text_of(cache_.get(*boss_.client, hash, {.progress = count})), "some bytes");
  EXPECT_EQ(parts, 1);
}

TEST_F(CacheTest, AFetchThatWasCutOffGoesOn) {
  const std::string bytes(3 << 20, 'x');
  const auto hash = put(bytes);
  struct CutOff {};
  const auto cut = [](std::int64_t, std::int64_t) { throw CutOff(); };
  EXPECT_THROW(cache_.get(*boss_.client, hash, {.progress = cut}), CutOff);
  EXPECT_FALSE(has(hash));
  std::int64_t first = 0;
  const auto look = [&](std::int64_t done, std::int64_t) { first = first == 0 ? done : first; };
  cache_.get(*boss_.client, hash, {.progress = look});
  EXPECT_GT(first, 1 << 20);
  EXPECT_TRUE(has(hash));
}

TEST_F(CacheTest, TheOldestGo) {
  const auto first = put(std::string(400, 'a'));
  const auto second = put(std::string(400, 'b'));
  const auto third = put(std::string(400, 'c'));
  cache_.get(*boss_.client, first);
  cache_.get(*boss_.client, second);
  age(first, 20);
  age(second, 30);
  cache_.get(*boss_.client, third);
  EXPECT_TRUE(has(first));
  EXPECT_FALSE(has(second));
  EXPECT_TRUE(has(third));
  age(first, 40);
  cache_.get(*boss_.client, first);  // is young again
  age(third, 20);
  cache_.get(*boss_.client, second);
  EXPECT_TRUE(has(first));
  EXPECT_FALSE(has(third));
}

TEST_F(CacheTest, OneThatIsLargerThanTheCacheIsStillThere) {
  const auto hash = put(std::string(5000, 'a'));
  EXPECT_TRUE(fs::exists(cache_.get(*boss_.client, hash)));
}

// A machine that lost its power may have the name on its disk, and other bytes.
TEST_F(CacheTest, AFileThatAnEarlierRunLeftDamagedIsFetchedAnew) {
  const auto hash = put("some bytes");
  Cache(file("cache"), 1000).get(*boss_.client, hash);
  write_file(file("cache") / hash, "other");
  EXPECT_EQ(text_of(cache_.get(*boss_.client, hash)), "some bytes");
}

TEST_F(CacheTest, ADiskThatIsNearlyFullTakesNothing) {
  const auto hash = put("some bytes");
  Cache cache(file("cache"), 1000, std::int64_t{1} << 60);
  try {
    cache.get(*boss_.client, hash);
    ADD_FAILURE() << "it was fetched";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_TRUE(ravnest::has(error.what(), "free on the disk of")) << error.what();
  }
  EXPECT_FALSE(has(hash));
}

TEST_F(CacheTest, AFileThatIsPlacedStaysWhenItsCopyGoes) {
  const auto hash = put(std::string(400, 'a'));
  cache_.place(*boss_.client, hash, file("placed"));
  fs::remove_all(file("cache"));
  EXPECT_EQ(text_of(file("placed")), std::string(400, 'a'));
}

// Whoever holds it runs a stranger's model, and another job gets the same bytes.
TEST_F(CacheTest, AFileThatIsPlacedIsToBeReadAlone) {
  const auto hash = put("a sub-model");
  cache_.place(*boss_.client, hash, file("placed"));
  EXPECT_EQ(fs::status(file("placed")).permissions(), fs::perms::owner_read);
  EXPECT_EQ(text_of(file("placed")), "a sub-model");
}

TEST_F(CacheTest, OnlyAHashIsAName) {
  for (const char* name : {"", "..", "../identity.pem", "/etc/passwd"}) {
    EXPECT_THROW(cache_.get(*boss_.client, name), std::invalid_argument);
  }
  EXPECT_THROW(cache_.get(*boss_.client, hash_of("not there")), std::invalid_argument);
}

}  // namespace
}  // namespace ravnest::agent
