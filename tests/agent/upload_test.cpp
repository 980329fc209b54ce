#include "tests/server/world.h"

namespace ravnest::control {
namespace {

namespace fs = std::filesystem;

using UploadTest = server::World;

// A stage that is closed in can do so to what its agent sends.
TEST_F(UploadTest, AFileThatIsCutShortMeanwhileIsAnError) {
  const auto path = server::write_file(file("big"), std::string(3 << 20, 'x'));
  const auto cut = [&](std::int64_t, std::int64_t) { fs::resize_file(path, 0); };
  try {
    requester("rita").client->upload(path, {.progress = cut});
    ADD_FAILURE() << "it was sent";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_TRUE(has(error.what(), "cut short")) << error.what();
  }
}

TEST_F(UploadTest, AFolderIsNoFile) {
  fs::create_directories(file("folder"));
  const server::Person rita = requester("rita");
  EXPECT_THROW(rita.client->upload(file("folder")), Error);
  EXPECT_THROW(rita.client->upload(file("not there")), Error);
}

}  // namespace
}  // namespace ravnest::control
