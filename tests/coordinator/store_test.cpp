#include "ravnest/coordinator/store.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <random>

#include "ravnest/base/error.h"
#include "ravnest/coordinator/coordinator.h"
#include "tests/base/temporary_folder.h"
#include "tests/coordinator/world.h"

namespace ravnest::coordinator {
namespace {

Change note_change(int number) { return TokenMade{{.hash = sha256_of(std::to_string(number))}}; }

TEST(Store, WhatWasAppendedComesBack) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "log.sqlite";
  World world;
  {
    Store store(file);
    EXPECT_EQ(store.load(), Durable{});
    Durable durable;
    const auto tell = [&](const Event& event) {
      store.append(decide(world.state, event, world.now).changes);
    };
    world.state = {};
    tell(Boot{});
    tell(MakeToken{{.hash = sha256_of("t"), .uses = 2, .expires_at = world.now.wall + 9}});
    tell(Enrol{sha256_of("t"), "a", "a"});
    EXPECT_EQ(store.length(), 3);
  }
  Store store(file);
  EXPECT_EQ(store.load(), world.state.durable);
  EXPECT_EQ(store.length(), 3);
}

TEST(Store, ASnapshotTakesThePlaceOfWhatWasBefore) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "log.sqlite";
  Durable durable;
  {
    Store store(file);
    store.load();
    for (int i = 0; i < 10; ++i) {
      const Change change = note_change(i);
      apply_change(durable, change);
      store.append({&change, 1});
      if (i % 4 == 3) {
        store.write_snapshot(durable);
        EXPECT_EQ(store.length(), 0);
      }
    }
  }
  Store store(file);
  EXPECT_EQ(store.load(), durable);
  EXPECT_EQ(store.length(), 2);
}

void expect_refused(const std::filesystem::path& file) {
  EXPECT_THROW(
      {
        Store store(file);
        store.load();
      },
      std::invalid_argument);
}

void write_file(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

std::string read_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Store, AForeignFileIsRefused) {
  const TemporaryFolder folder;
  write_file(folder.path() / "text", std::string(5000, 'x'));
  expect_refused(folder.path() / "text");
  EXPECT_EQ(read_file(folder.path() / "text"), std::string(5000, 'x'));
  EXPECT_THROW(Store(folder.path()), Error);
  EXPECT_THROW(Store(folder.path() / "no" / "such" / "folder"), Error);
}

TEST(Store, OnlyOneServerHasTheLog) {
  const TemporaryFolder folder;
  const Store store(folder.path() / "log.sqlite");
  EXPECT_THROW(Store(folder.path() / "log.sqlite"), Error);
}

// A file with something in it, in one piece.
std::string good_file(const std::filesystem::path& file) {
  {
    Store store(file);
    store.load();
    for (int i = 0; i < 40; ++i) {
      const Change change = note_change(i);
      store.append({&change, 1});
    }
  }
  return read_file(file);
}

TEST(Store, ATornFileIsRefused) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "log.sqlite";
  const std::string good = good_file(file);
  for (const std::size_t size : {good.size() / 4, good.size() / 2, good.size() - 100}) {
    write_file(file, good.substr(0, size));
    expect_refused(file);
  }
}

TEST(Store, DamageIsFoundOrDoesNoHarm) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "log.sqlite";
  const std::string good = good_file(file);
  Durable expected;
  for (int i = 0; i < 40; ++i) {
    apply_change(expected, note_change(i));
  }
  std::mt19937 random(1);
  int found = 0;
  for (int i = 0; i < 300; ++i) {
    std::string bad = good;
    bad[random() % bad.size()] ^= static_cast<char>(1U << (random() % 8));
    write_file(file, bad);
    try {
      Store store(file);
      EXPECT_EQ(store.load(), expected) << "damage went unseen";
    } catch (const std::invalid_argument&) {
      ++found;
    } catch (const Error&) {
      ++found;
    }
    std::filesystem::remove(file.string() + "-wal");
    std::filesystem::remove(file.string() + "-shm");
  }
  EXPECT_GT(found, 50);
}

// A child appends and says how far it has come; it is killed in the midst of it.
TEST(Store, NothingAcknowledgedIsLostWhenTheServerIsKilled) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "log.sqlite";
  std::mt19937 random(7);
  std::size_t kept = 0;
  for (int kill = 0; kill < 200; ++kill) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(ends[0]);
      Store store(file);
      Durable durable = store.load();
      for (auto i = static_cast<int>(durable.tokens.size());; ++i) {
        const Change change = note_change(i);
        apply_change(durable, change);
        store.append({&change, 1});
        if (i % 7 == 6) {
          store.write_snapshot(durable);
        }
        const char said = 'x';
        if (::write(ends[1], &said, 1) != 1) {
          ::_exit(1);
        }
      }
    }
    ::close(ends[1]);
    // After a stated number of acknowledgements, and then at any moment of the next.
    const std::size_t wanted = 1 + random() % 6;
    std::size_t heard = 0;
    char said = 0;
    while (heard < wanted && ::read(ends[0], &said, 1) == 1) {
      ++heard;
    }
    ASSERT_EQ(heard, wanted) << "the child ended by itself";
    for (std::size_t i = random() % 100; i > 0; --i) {
      ::sched_yield();
    }
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    while (::read(ends[0], &said, 1) == 1) {
      ++heard;
    }
    ::close(ends[0]);
    Store store(file);
    const Durable durable = store.load();
    ASSERT_GE(durable.tokens.size(), kept + heard) << "kill " << kill;
    ASSERT_LE(durable.tokens.size(), kept + heard + 1);
    for (std::size_t i = 0; i < durable.tokens.size(); ++i) {
      ASSERT_TRUE(durable.tokens.contains(sha256_of(std::to_string(i))));
    }
    kept = durable.tokens.size();
  }
}

TEST(Coordinator, ComesBackAfterAnyEnd) {
  const TemporaryFolder folder;
  const CoordinatorOptions options{.data = folder.path() / "data", .snapshot_every = 5};
  Now now{.steady = Milliseconds{1}, .wall = 1000};
  Durable before;
  {
    Coordinator coordinator(options, now);
    coordinator.handle(MakeToken{{.hash = sha256_of("t"), .uses = 9, .expires_at = 2000}}, now);
    for (const std::string id : {"a", "b", "c", "d", "e", "f", "g"}) {
      EXPECT_TRUE(coordinator.handle(Enrol{sha256_of("t"), id, id}, now).is_accepted);
    }
    before = coordinator.state().durable;
  }
  const Coordinator coordinator(options, now);
  before.boot = 2;
  EXPECT_EQ(coordinator.state().durable, before);
}

TEST(Coordinator, DropsWhatNothingRefersTo) {
  const TemporaryFolder folder;
  const Now now{.steady = Milliseconds{1}, .wall = 1000};
  Coordinator coordinator({.data = folder.path()}, now);
  const std::string text = "a Program";
  write_file(folder.path() / "p", text);
  const Hash program = coordinator.artifacts().take_file(folder.path() / "p");
  coordinator.handle(
      MakeToken{{.hash = sha256_of("t"), .role = Role::kRequester, .uses = 1, .expires_at = 2000}},
      now);
  coordinator.handle(Enrol{sha256_of("t"), "rita", "rita"}, now);
  const JobId job = coordinator.handle(SubmitJob{"rita", "job", program, {}}, now).job;
  EXPECT_TRUE(coordinator.artifacts().has(program));
  coordinator.handle(CancelJob{job, "rita"}, now);
  EXPECT_FALSE(coordinator.artifacts().has(program));
}

}  // namespace
}  // namespace ravnest::coordinator
