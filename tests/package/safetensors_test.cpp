#include "ravnest/package/safetensors.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <stdexcept>

namespace ravnest::package {
namespace {

class Safetensors : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "ravnest-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path file() const { return folder_ / "weights.safetensors"; }

  void write_raw(const std::string& header, std::size_t data, std::int64_t claim = -1) {
    std::ofstream out(file(), std::ios::binary);
    const auto length =
        claim >= 0 ? static_cast<std::uint64_t>(claim) : static_cast<std::uint64_t>(header.size());
    out.write(reinterpret_cast<const char*>(&length), sizeof(length));
    out << header << std::string(data, '\0');
  }

  std::string refusal() {
    try {
      read_safetensors(file());
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "no error";
  }

  std::filesystem::path folder_;
};

StoredTensor floats(const std::vector<float>& values, std::vector<std::int64_t> sizes) {
  return {.dtype = graph::DType::kFloat32,
          .sizes = std::move(sizes),
          .data = Bytes::copy_of(std::as_bytes(std::span(values)))};
}

StoredTensors sample() {
  StoredTensors stored;
  stored.tensors["layer.weight"] = floats({1, 2, 3, 4, 5, 6}, {2, 3});
  stored.tensors["empty"] = floats({}, {0, 7});
  stored.tensors["scalar"] = floats({9}, {});
  const std::vector<std::uint8_t> flags{1, 0, 1};
  stored.tensors["a.mask"] = {.dtype = graph::DType::kBool,
                              .sizes = {3},
                              .data = Bytes::copy_of(std::as_bytes(std::span(flags)))};
  stored.metadata = {{"plan", "13931f"}, {"updates", "120"}};
  return stored;
}

TEST_F(Safetensors, GivesBackWhatWasWritten) {
  write_safetensors(sample(), file());
  const StoredTensors read = read_safetensors(file());
  EXPECT_EQ(read.metadata, sample().metadata);
  ASSERT_EQ(read.tensors.size(), 4u);
  for (const auto& [name, tensor] : sample().tensors) {
    const StoredTensor& found = read.tensors.at(name);
    EXPECT_EQ(found.dtype, tensor.dtype) << name;
    EXPECT_EQ(found.sizes, tensor.sizes) << name;
    EXPECT_TRUE(std::ranges::equal(found.data.view(), tensor.data.view())) << name;
  }
}

TEST_F(Safetensors, EqualContentGivesEqualBytes) {
  write_safetensors(sample(), file());
  const auto first = Bytes::map_file(file());
  write_safetensors(sample(), folder_ / "again");
  const auto second = Bytes::map_file(folder_ / "again");
  EXPECT_TRUE(std::ranges::equal(first.view(), second.view()));
}

TEST_F(Safetensors, RefusesWhatDoesNotAddUp) {
  const std::string good = R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  write_raw(good, 8);
  EXPECT_EQ(refusal(), "no error");
  write_raw(good, 7);
  EXPECT_NE(refusal().find("do not fit"), std::string::npos);
  write_raw(good, 9);
  EXPECT_NE(refusal().find("data end at byte 8 of 9"), std::string::npos);
  write_raw(good, 8, 1'000'000'000'000);
  EXPECT_NE(refusal().find("header claims 1000000000000"), std::string::npos);
  write_raw("[]", 0);
  EXPECT_NE(refusal().find("not a JSON object"), std::string::npos);
  write_raw("{", 0);
  EXPECT_NE(refusal().find("not a JSON object"), std::string::npos);
  write_raw(R"({"x":{"dtype":"F32","shape":[2]}})", 8);
  EXPECT_NE(refusal().find("lacks"), std::string::npos);
  write_raw(R"({"x":{"dtype":"F31","shape":[2],"data_offsets":[0,8]}})", 8);
  EXPECT_NE(refusal().find("F31"), std::string::npos);
  write_raw(R"({"x":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8);
  EXPECT_NE(refusal().find("-2"), std::string::npos);
  write_raw(R"({"x":{"dtype":"F32","shape":[9223372036854775807,9],"data_offsets":[0,8]}})", 8);
  EXPECT_NE(refusal().find("do not fit"), std::string::npos);
  write_raw(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8);
  EXPECT_NE(refusal().find("gap or overlap"), std::string::npos);
  write_raw(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
            R"("y":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
            4);
  EXPECT_NE(refusal().find("gap or overlap"), std::string::npos);
  std::ofstream(file(), std::ios::binary) << "abc";
  EXPECT_NE(refusal().find("it has 3 bytes"), std::string::npos);
}

TEST_F(Safetensors, RefusesToStoreWhatIsNotWhole) {
  StoredTensors stored;
  stored.tensors["x"] = floats({1, 2}, {3});
  EXPECT_THROW(write_safetensors(stored, file()), std::invalid_argument);
  stored.tensors["x"] = {.dtype = graph::DType::kComplex64, .sizes = {0}, .data = {}};
  EXPECT_THROW(write_safetensors(stored, file()), std::invalid_argument);
  EXPECT_FALSE(std::filesystem::exists(file()));
}

}  // namespace
}  // namespace ravnest::package
