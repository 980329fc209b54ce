#include "ravnest/provider/values.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <utility>

namespace ravnest::provider {
namespace {

c10::IValue through_message(const c10::IValue& value) {
  transport::Message message;
  pack({value}, message);
  const auto values = unpack(message, at::kCPU);
  EXPECT_EQ(values.size(), 1U);
  return values.at(0);
}

TEST(Values, KeepTheOrderOfDimensionsInMemory) {
  const at::Tensor usual = at::arange(24.0).reshape({2, 3, 4});
  for (const at::Tensor& tensor :
       {usual, usual.transpose(0, 2), usual.permute({1, 2, 0}), usual.transpose(1, 2)}) {
    const at::Tensor found = through_message(tensor).toTensor();
    EXPECT_TRUE(at::equal(found, tensor));
    EXPECT_EQ(found.strides(), tensor.strides());
  }
}

TEST(Values, AViewThatRestsOnTheOrderStillWorks) {
  const at::Tensor heads = at::randn({2, 5, 3, 4}).transpose(1, 2);  // as attention gives it
  const at::Tensor found = through_message(heads).toTensor();
  EXPECT_TRUE(at::equal(found.transpose(1, 2).view({2, 5, 12}), heads.transpose(1, 2).flatten(2)));
}

TEST(Values, WhatIsNotWholeComesPacked) {
  const at::Tensor wide = at::randn({4, 6});
  for (const at::Tensor& tensor : {wide.slice(1, 0, 3), wide.t().slice(0, 1, 5),
                                   wide[0].expand({3, 6}), wide.slice(0, 0, 0), at::randn({})}) {
    const at::Tensor found = through_message(tensor).toTensor();
    EXPECT_TRUE(at::equal(found, tensor));
    EXPECT_TRUE(found.is_non_overlapping_and_dense());
  }
}

TEST(Values, KeepNumbersFlagsNothingAndTheWishForAGradient) {
  EXPECT_EQ(through_message(std::int64_t{-3}).toInt(), -3);
  EXPECT_EQ(through_message(0.1).toDouble(), 0.1);
  EXPECT_EQ(through_message(true).toBool(), true);
  EXPECT_TRUE(through_message(c10::IValue()).isNone());
  EXPECT_FALSE(through_message(at::Tensor()).toTensor().defined());
  const at::Tensor wanting = at::randn({2, 3}).t().requires_grad_(true);
  EXPECT_TRUE(through_message(wanting).toTensor().requires_grad());
  EXPECT_FALSE(through_message(at::randn({2})).toTensor().requires_grad());
}

TEST(Values, RefuseFlagsThatAreNone) {
  transport::Message message;
  pack({at::ones({2}, at::kBool), true}, message);
  EXPECT_NO_THROW(unpack(message, at::kCPU));
  for (transport::Tensor& tensor : message.tensors) {
    const Bytes before = std::exchange(
        tensor.bytes, Bytes::take(std::vector<std::byte>(tensor.bytes.size(), std::byte{7})));
    EXPECT_THROW(unpack(message, at::kCPU), std::invalid_argument);
    tensor.bytes = before;
  }
}

TEST(Values, RefuseMetadataThatDoesNotFit) {
  const auto with_metadata = [](const std::string& metadata) {
    transport::Message message;
    message.metadata = metadata;
    message.tensors = {to_plain(at::randn({2, 3}))};
    return unpack(message, at::kCPU);
  };
  EXPECT_NO_THROW(with_metadata("tBA"));
  for (const char* bad : {"", "tt", "tA", "tAA", "tAC", "tABC", "AB", "tAZ", "x", "i", "uBA"}) {
    EXPECT_THROW(with_metadata(bad), std::invalid_argument) << bad;
  }
  transport::Message message;
  pack({at::ones({2}, at::kLong)}, message);
  message.metadata = "g";
  EXPECT_THROW(unpack(message, at::kCPU), std::invalid_argument);
}

}  // namespace
}  // namespace ravnest::provider
