#include "ravnest/package/checkpoint_file.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/base/temporary_folder.h"
#include "tests/package/plans.h"

namespace ravnest::package {
namespace {

StoredTensor number(float value) {
  std::vector<std::byte> bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return {.dtype = graph::DType::kFloat32, .sizes = {1}, .data = Bytes::take(std::move(bytes))};
}

float number_of(const StoredTensor& tensor) {
  float value = 0;
  std::memcpy(&value, tensor.data.data(), sizeof value);
  return value;
}

StoredTensors piece(const std::map<std::string, float>& tensors) {
  StoredTensors piece;
  piece.metadata = {
      {"plan", "old"}, {"run", "r"}, {"passes", "8"}, {"epoch", "1"}, {"rule/optimizer", "adam"}};
  for (const auto& [name, value] : tensors) {
    piece.tensors.emplace(name, number(value));
  }
  return piece;
}

const std::vector<StoredTensors>& pieces() {
  static const std::vector<StoredTensors> kPieces{
      piece({{"weight/a", 1}, {"rule/exp_avg/a", 2}, {"weight/b.a", 3}, {"rule/exp_avg/b.a", 4}}),
      piece({{"weight/c", 5}, {"rule/c/momentum", 6}, {"weight/a", 7}})};
  return kPieces;
}

std::map<std::string, float> numbers_of(const StoredTensors& stored) {
  std::map<std::string, float> numbers;
  for (const auto& [name, tensor] : stored.tensors) {
    numbers.emplace(name, number_of(tensor));
  }
  return numbers;
}

TEST(GatherCheckpoint, TakesWeightsAndWhatTheOptimizerKeepsForThem) {
  const StoredTensors gathered = gather_checkpoint(pieces(), {"a", "c"}, "new");
  EXPECT_EQ(numbers_of(gathered),
            (std::map<std::string, float>{
                {"weight/a", 1}, {"rule/exp_avg/a", 2}, {"weight/c", 5}, {"rule/c/momentum", 6}}));
  EXPECT_EQ(gathered.metadata.at("plan"), "new");
  EXPECT_EQ(gathered.metadata.at("run"), "r");
  EXPECT_EQ(gathered.metadata.at("passes"), "8");
}

TEST(GatherCheckpoint, NamesAWeightThatNobodyHas) {
  try {
    gather_checkpoint(pieces(), {"a", "lost.weight"}, "new");
    FAIL() << "gathered it";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("'lost.weight'"), std::string::npos) << error.what();
  }
}

TEST(GatherCheckpoint, RefusesPiecesThatDoNotBelongTogether) {
  for (const char* key : {"run", "passes", "rule/optimizer"}) {
    std::vector<StoredTensors> mixed = pieces();
    mixed[1].metadata[key] = "9";
    EXPECT_THROW(gather_checkpoint(mixed, {"a"}, "new"), std::invalid_argument) << key;
    mixed[1].metadata.erase(key);
    EXPECT_THROW(gather_checkpoint(mixed, {"a"}, "new"), std::invalid_argument) << key;
  }
  EXPECT_THROW(gather_checkpoint(std::vector<StoredTensors>{}, {"a"}, "new"),
               std::invalid_argument);
}

TEST(GatherCheckpoint, ReadsAndWritesFiles) {
  const TemporaryFolder folder;
  std::vector<std::filesystem::path> files;
  for (const StoredTensors& each : pieces()) {
    files.push_back(folder.path() / (std::to_string(files.size()) + ".safetensors"));
    write_safetensors(each, files.back());
  }
  gather_checkpoint(files, {"c"}, "new", folder.path() / "out.safetensors");
  EXPECT_EQ(numbers_of(read_safetensors(folder.path() / "out.safetensors")),
            (std::map<std::string, float>{{"weight/c", 5}, {"rule/c/momentum", 6}}));
}

TEST(GatherCheckpoint, KnowsTheNamesThatGraphsUse) {
  EXPECT_EQ(checkpoint_names(make_program()),
            (std::vector<std::string>{"in.weight", "middle.weight", "late.weight"}));
}

}  // namespace
}  // namespace ravnest::package
