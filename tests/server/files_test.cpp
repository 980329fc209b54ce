// Files that come and go by their hashes.

#include <control.grpc.pb.h>

#include <list>
#include <random>
#include <set>

#include "ravnest/base/error.h"
#include "tests/server/world.h"
#include "tests/transport/resident.h"
#include "tests/transport/sanitizers.h"

namespace ravnest::server {
namespace {

using ::grpc::StatusCode;

class Files : public World {
 protected:
  std::unique_ptr<control::Files::Stub> stub(const Person& person) const {
    return control::Files::NewStub(channel(person));
  }
  static std::string bytes_of(std::size_t nbytes) {
    std::mt19937 random(7);
    std::string bytes(nbytes, '\0');
    for (char& byte : bytes) {
      byte = static_cast<char>(random());
    }
    return bytes;
  }
  static std::unique_ptr<::grpc::ClientContext> context() {
    auto made = std::make_unique<::grpc::ClientContext>();
    made->set_deadline(std::chrono::system_clock::now() + kDeadline);
    return made;
  }
  std::set<std::string> tree() const {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(data())) {
      if (!entry.path().filename().string().starts_with("log.sqlite")) {
        found.insert(entry.path().string());
      }
    }
    return found;
  }
  ::grpc::Status put(const Person& person, const control::FilePart& part) const {
    const auto call = context();
    control::FileSize size;
    const auto files = stub(person);
    const auto writer = files->Put(call.get(), &size);
    writer->Write(part);
    writer->WritesDone();
    return writer->Finish();
  }
};

// Over TLS, and by the local socket.
class Downloads : public Files, public ::testing::WithParamInterface<bool> {
 protected:
  static control::TransferOptions options() { return {.is_encrypted = GetParam()}; }
};

INSTANTIATE_TEST_SUITE_P(Ways, Downloads, ::testing::Bool(),
                         [](const auto& made) { return made.param ? "Encrypted" : "Local"; });

// Of this process, the server's: files of uploads that are open.
std::size_t open_parts() {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const auto file = std::filesystem::read_symlink(entry.path(), error);
    count += file.parent_path().filename() == "parts" ? 1 : 0;
  }
  return count;
}

TEST_F(Files, WhoAsksForManyFilesTakesNoPlaceOfOthers) {
  const Person eve = requester("eve");
  const auto files = stub(eve);
  for (int i = 0; i < 1100; ++i) {
    const auto call = context();
    control::FileName name;
    name.set_hash(hash_of(std::to_string(i)));
    name.set_size(1000);
    control::FileSize size;
    ASSERT_TRUE(files->Find(call.get(), name, &size).ok());
  }
  EXPECT_EQ(open_parts(), 0U);
  EXPECT_NO_THROW(requester("rita").client->upload(write_file(file("weights"), "weights")));
}

TEST_F(Files, AnUploadWhoseSenderIsGoneIsClosed) {
  const Person rita = requester("rita");
  const auto files = stub(rita);
  const auto call = context();
  control::FileSize size;
  const auto writer = files->Put(call.get(), &size);
  control::FilePart part;
  part.mutable_name()->set_hash(hash_of("never whole"));
  part.mutable_name()->set_size(11);
  part.set_payload("never");
  ASSERT_TRUE(writer->Write(part));
  EXPECT_TRUE(becomes([] { return open_parts() == 1; }));
  call->TryCancel();
  writer->Finish();
  EXPECT_TRUE(becomes([] { return open_parts() == 0; }));
}

TEST_F(Files, AnUploadThatWasCutOffGoesOn) {
  const Person rita = requester("rita");
  const std::string bytes = bytes_of(5 << 20);
  write_file(file("big"), bytes);
  const auto size_there = [&] {
    const auto call = context();
    control::FileName name;
    name.set_hash(hash_of(bytes));
    name.set_size(bytes.size());
    control::FileSize size;
    EXPECT_TRUE(stub(rita)->Find(call.get(), name, &size).ok());
    return size.nbytes();
  };
  struct CutOff {};
  // What was sent and not read yet is lost with the call: the cut comes when a part is there.
  EXPECT_THROW(rita.client->upload(file("big"), {.progress =
                                                     [&](std::int64_t done, std::int64_t) {
                                                       if (done >= 2 << 20) {
                                                         EXPECT_TRUE(becomes([&] {
                                                           return size_there() >= 1 << 20;
                                                         }));
                                                         throw CutOff();
                                                       }
                                                     }}),
               CutOff);
  EXPECT_LT(size_there(), bytes.size());
  restart();  // and it outlives the server
  const Person back = again(rita);
  std::int64_t first = -1;
  const auto look = [&](std::int64_t done, std::int64_t) { first = first < 0 ? done : first; };
  EXPECT_EQ(back.client->upload(file("big"), {.progress = look}), hash_of(bytes));
  EXPECT_GT(first, 1 << 20);
  owner().client->download(hash_of(bytes), file("back"));
  EXPECT_EQ(trust::to_hex(trust::sha256_file(file("back"))), hash_of(bytes));
}

// However the network cuts it: the client hashes what it has written.
TEST_P(Downloads, ALargeFileComesAsItIs) {
  const std::string bytes = bytes_of(64 << 20);
  const Hash hash = requester("rita").client->upload(write_file(file("big"), bytes));
  EXPECT_NO_THROW(owner().client->download(hash, file("back"), options()));
  EXPECT_EQ(trust::to_hex(trust::sha256_file(file("back"))), hash);
}

TEST_P(Downloads, ADownloadThatWasCutOffGoesOn) {
  const std::string bytes = bytes_of(5 << 20);
  const Person rita = requester("rita");
  rita.client->upload(write_file(file("big"), bytes));
  const Person boss = owner();
  write_file(file("back.part"), bytes.substr(0, 3 << 20));
  std::int64_t first = -1;
  const auto look = [&](std::int64_t done, std::int64_t size) {
    first = first < 0 ? done : first;
    EXPECT_EQ(size, 5 << 20);
  };
  boss.client->download(hash_of(bytes), file("back"),
                        {.progress = look, .is_encrypted = GetParam()});
  EXPECT_GT(first, 3 << 20);
  EXPECT_EQ(trust::to_hex(trust::sha256_file(file("back"))), hash_of(bytes));
}

TEST_P(Downloads, ADownloadOutlivesAServerThatIsAwayMeanwhile) {
  const std::string bytes = bytes_of(20 << 20);
  requester("rita").client->upload(write_file(file("big"), bytes));
  const Person boss = owner();
  const std::string address = server->address();
  std::int64_t last = 0;
  int cuts = 0;
  bool is_cut = false;
  boss.client->download(hash_of(bytes), file("back"),
                        {.progress =
                             [&](std::int64_t done, std::int64_t) {
                               EXPECT_GT(done, last) << "it goes on from where it was";
                               last = done;
                               if (!std::exchange(is_cut, true)) {
                                 server.reset();
                               }
                             },
                         .on_lost =
                             [&](const Error&) {
                               ++cuts;
                               start(address);
                             },
                         .is_encrypted = GetParam()});
  EXPECT_EQ(cuts, 1);
  EXPECT_EQ(trust::to_hex(trust::sha256_file(file("back"))), hash_of(bytes));
}

TEST_F(Files, ATransferThatIsGivenUpEndsAtOnce) {
  const std::string bytes = bytes_of(5 << 20);
  const Person boss = owner();
  std::stop_source stop;
  int parts = 0;
  const control::TransferOptions options{.progress =
                                             [&](std::int64_t, std::int64_t) {
                                               ++parts;
                                               stop.request_stop();
                                             },
                                         .stop = stop.get_token(),
                                         .on_lost = {}};
  EXPECT_THROW(boss.client->upload(write_file(file("big"), bytes), options), Error);
  EXPECT_EQ(parts, 1);
}

// Nobody is there, and nobody will be.
TEST_F(Files, ATransferThatIsTriedAgainIsGivenUpToo) {
  const Person boss = owner();
  server.reset();
  std::stop_source stop;
  const control::TransferOptions options{.progress = {},
                                         .stop = stop.get_token(),
                                         .on_lost = [&](const Error&) { stop.request_stop(); }};
  EXPECT_THROW(boss.client->upload(write_file(file("small"), "bytes"), options), Error);
  EXPECT_THROW(boss.client->download(hash_of("bytes"), file("back"), options), Error);
}

TEST_P(Downloads, APartThatIsNotOfTheFileIsNoticed) {
  const std::string bytes = bytes_of(1000);
  requester("rita").client->upload(write_file(file("small"), bytes));
  write_file(file("back.part"), std::string(400, 'x'));
  const Person boss = owner();
  EXPECT_THROW(boss.client->download(hash_of(bytes), file("back"), options()), Error);
  EXPECT_FALSE(std::filesystem::exists(file("back")));
  EXPECT_NO_THROW(boss.client->download(hash_of(bytes), file("back"), options()));
}

// What is beside the file may be longer than it: the next try must not stumble over it.
TEST_P(Downloads, APartThatIsTooLongIsNoticed) {
  const std::string bytes = bytes_of(1000);
  requester("rita").client->upload(write_file(file("small"), bytes));
  write_file(file("back.part"), std::string(4000, 'x'));
  const Person boss = owner();
  EXPECT_ANY_THROW(boss.client->download(hash_of(bytes), file("back"), options()));
  EXPECT_NO_THROW(boss.client->download(hash_of(bytes), file("back"), options()));
}

TEST_P(Downloads, AnEmptyFileIsAFileToo) {
  const Person rita = requester("rita");
  EXPECT_EQ(rita.client->upload(write_file(file("empty"), "")), hash_of(""));
  owner().client->download(hash_of(""), file("back"), options());
  EXPECT_EQ(std::filesystem::file_size(file("back")), 0U);
}

TEST_F(Files, BytesOfAnotherHashAreRefusedAndGone) {
  const Person rita = requester("rita");
  control::FilePart part;
  part.mutable_name()->set_hash(hash_of("other"));
  part.mutable_name()->set_size(9);
  part.set_payload("the bytes");
  const auto before = tree();
  EXPECT_EQ(put(rita, part).error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(tree(), before);
}

TEST_F(Files, AnUploadThatEndsTooSoonIsNotWhole) {
  const Person rita = requester("rita");
  control::FilePart part;
  part.mutable_name()->set_hash(hash_of("the bytes"));
  part.mutable_name()->set_size(9);
  part.set_payload("the ");
  EXPECT_FALSE(put(rita, part).ok());
  part.mutable_name()->set_offset(4);
  part.set_payload("bytes");
  EXPECT_TRUE(put(rita, part).ok());
}

TEST_F(Files, APartThatDoesNotFitIsRefused) {
  const Person rita = requester("rita");
  control::FilePart part;
  part.mutable_name()->set_hash(hash_of("the bytes"));
  part.mutable_name()->set_size(9);
  part.set_payload(std::string(10, 'x'));  // more than it said
  EXPECT_EQ(put(rita, part).error_code(), StatusCode::INVALID_ARGUMENT);
  part.mutable_name()->set_offset(5);  // from the middle
  EXPECT_EQ(put(rita, part).error_code(), StatusCode::INVALID_ARGUMENT);
  part.mutable_name()->set_offset(0);
  for (const std::uint64_t size : {std::uint64_t{1} << 60, ~std::uint64_t{0}}) {
    part.mutable_name()->set_size(size);
    EXPECT_EQ(put(rita, part).error_code(), StatusCode::INVALID_ARGUMENT) << size;
  }
}

// Paths, upper case, other lengths, other letters: none is a name.
std::vector<std::string> odd_names() {
  std::vector<std::string> names{"",
                                 ".",
                                 "..",
                                 "/",
                                 "/etc/passwd",
                                 "../server.json",
                                 "ca.key",
                                 "artifacts",
                                 "parts",
                                 std::string(64, 'A'),
                                 std::string(64, 'g'),
                                 std::string(63, 'a'),
                                 std::string(65, 'a'),
                                 std::string(64, '\0'),
                                 std::string("..\0", 3),
                                 std::string(1 << 20, 'a')};
  std::mt19937 random(11);
  const std::string letters = "0123456789abcdef";
  const std::string odd = "/.ABCDEFg \\%\n\xFF~-_:";
  while (names.size() < 400) {
    std::string name(64, 'a');
    for (char& letter : name) {
      letter = letters[random() % letters.size()];
    }
    name[random() % 64] = odd[random() % odd.size()];
    if (random() % 2 == 0) {
      name.replace(0, 3, "../");
    }
    names.push_back(name);
  }
  return names;
}

TEST_F(Files, OddNamesAreRefusedAndTheTreeIsUnchanged) {
  const Person rita = requester("rita");
  const Person boss = owner();
  const auto files = stub(rita);
  const auto all = stub(boss);
  const auto before = tree();
  for (const std::string& odd : odd_names()) {
    control::FileName name;
    name.set_hash(odd);
    name.set_size(5);
    control::FileSize size;
    EXPECT_EQ(files->Find(context().get(), name, &size).error_code(), StatusCode::INVALID_ARGUMENT);
    const auto call = context();
    const auto writer = files->Put(call.get(), &size);
    control::FilePart part;
    *part.mutable_name() = name;
    part.set_payload("bytes");
    writer->Write(part);
    writer->WritesDone();
    EXPECT_EQ(writer->Finish().error_code(), StatusCode::INVALID_ARGUMENT);
    const auto getting = context();
    const auto reader = all->Get(getting.get(), name);
    EXPECT_FALSE(reader->Read(&part));
    EXPECT_EQ(reader->Finish().error_code(), StatusCode::INVALID_ARGUMENT);
  }
  EXPECT_EQ(tree(), before);
}

TEST_F(Files, WhatIsNotYoursIsNotGiven) {
  const Person rita = requester("rita");
  const Person box = provider("box");
  const JobId job = submit(rita, {.least_providers = 1});
  const auto talk = box.join();
  const auto held = talk->hear<Hold>().assignment;
  const Person carl = requester("carl");
  const Person other = provider("other");
  // A stage's files are for who holds it, and for the job's requester.
  const Hash sub_model = held.stage.sub_model;
  EXPECT_NO_THROW(box.client->download(sub_model, file("box")));
  EXPECT_NO_THROW(rita.client->download(sub_model, file("rita")));
  for (const Person* stranger : {&carl, &other}) {
    EXPECT_TRUE(has(refusal_of([&] { stranger->client->download(sub_model, file("no")); }),
                    "a file of your place or job"));
  }
  // The whole Program is for no provider.
  const Hash program = trust::to_hex(trust::sha256_file(file("model.pt2")));
  EXPECT_TRUE(has(refusal_of([&] { box.client->download(program, file("no")); }),
                  "a file of your place or job"));
  // Who holds nothing sends nothing.
  write_file(file("weights"), "weights");
  EXPECT_TRUE(has(refusal_of([&] { other.client->upload(file("weights")); }), "holds none"));
  EXPECT_NO_THROW(box.client->upload(file("weights")));
  rita.client->ask(WantsCancel{job});
  EXPECT_NE(refusal_of([&] { box.client->download(sub_model, file("late")); }), "");
}

TEST_F(Files, AnOffsetBeyondTheFileIsRefused) {
  requester("rita").client->upload(write_file(file("a"), "bytes"));
  control::FileName name;
  name.set_hash(hash_of("bytes"));
  for (const std::uint64_t offset : {std::uint64_t{6}, ~std::uint64_t{0}}) {
    name.set_offset(offset);
    const auto call = context();
    const auto files = stub(owner());
    const auto reader = files->Get(call.get(), name);
    control::FilePart part;
    EXPECT_FALSE(reader->Read(&part));
    EXPECT_EQ(reader->Finish().error_code(), StatusCode::INVALID_ARGUMENT);
  }
}

TEST_F(Files, AProbeIsCapped) {
  const auto call = context();
  control::FileSize size;
  size.set_nbytes(~std::uint64_t{0});
  const auto files = stub(provider("box"));
  const auto reader = files->Probe(call.get(), size);
  control::FilePart part;
  std::uint64_t received = 0;
  while (reader->Read(&part)) {
    received += part.payload().size();
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(received, std::uint64_t{16} << 20);
}

// Each has a thread of the server: nobody may take them all.
TEST_F(Files, UploadsThatSayNothingAreOnesOwnLoss) {
  struct Call {
    ::grpc::ClientContext context;
    control::FileSize size;
    std::unique_ptr<::grpc::ClientWriter<control::FilePart>> writer;
  };
  const Person rita = requester("rita");
  std::vector<std::unique_ptr<control::Files::Stub>> stubs;
  std::list<Call> calls;
  for (int i = 0; i < 600; ++i) {
    if (i % 50 == 0) {  // a connection has room for 64
      stubs.push_back(stub(rita));
    }
    Call& call = calls.emplace_back();
    call.writer = stubs.back()->Put(&call.context, &call.size);
  }
  const Person carl = requester("carl");
  ASSERT_TRUE(becomes([&] {
    try {
      rita.client->upload(write_file(file("mine"), "mine"));
    } catch (const Error&) {
      return true;
    }
    return false;
  }));
  EXPECT_NO_THROW(carl.client->upload(write_file(file("theirs"), "theirs")));
  for (Call& call : calls) {
    call.context.TryCancel();
    EXPECT_FALSE(call.writer->Finish().ok());
  }
  ASSERT_TRUE(becomes([&] {
    try {
      rita.client->upload(file("mine"));
    } catch (const Error&) {
      return false;
    }
    return true;
  }));
}

TEST_F(Files, AClaimOfATerabyteTakesNoMemory) {
  const Person rita = requester("rita");
  const auto files = stub(rita);
  control::FilePart part;
  part.mutable_name()->set_size(1'000'000'000'000);
  part.set_payload("a beginning");
  control::FileSize size;
  const auto claim = [&](int i) {
    part.mutable_name()->set_hash(hash_of(std::to_string(i)));
    files->Find(context().get(), part.name(), &size);
    const auto call = context();
    const auto writer = files->Put(call.get(), &size);
    writer->Write(part);
    writer->WritesDone();
    EXPECT_FALSE(writer->Finish().ok());
  };
  claim(0);
  const std::size_t before = transport::resident_bytes();
  for (int i = 1; i <= 1000; ++i) {
    claim(i);
  }
  EXPECT_TRUE(transport::kIsSanitized || transport::resident_bytes() < before + (16 << 20));
  EXPECT_NO_THROW(requester("carl").client->upload(write_file(file("theirs"), "theirs")));
}

TEST_F(Files, ALinkIsMeasured) {
  const auto speed = provider("box").client->measure(std::chrono::seconds(10));
  EXPECT_GT(speed.mbps, 1.0);
  EXPECT_GT(speed.latency_ms, 0.0);
}

}  // namespace
}  // namespace ravnest::server
