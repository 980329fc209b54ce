#include "ravnest/base/address.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace ravnest {
namespace {

TEST(Address, SplitsAtTheLastColon) {
  EXPECT_EQ(parse_address("0.0.0.0:8080").host, "0.0.0.0");
  EXPECT_EQ(parse_address("0.0.0.0:8080").port, 8080);
  EXPECT_EQ(parse_address("gpu_1.lab-2.example:65535").host, "gpu_1.lab-2.example");
  EXPECT_EQ(parse_address("[fe80::1]:1").host, "[fe80::1]");
  EXPECT_EQ(parse_address("[::ffff:10.0.0.1]:443").port, 443);
}

TEST(Address, RefusesWhatCannotNameAFolder) {
  using namespace std::string_view_literals;
  for (const std::string_view text : {""sv,
                                      ":"sv,
                                      "host"sv,
                                      "host:"sv,
                                      ":80"sv,
                                      "host:0"sv,
                                      "host:65536"sv,
                                      "host:-1"sv,
                                      "host:+1"sv,
                                      "host:080"sv,
                                      "host:80 "sv,
                                      "host: 80"sv,
                                      "host:8x"sv,
                                      "a/b:80"sv,
                                      "../x:80"sv,
                                      "..:80"sv,
                                      "a..b:80"sv,
                                      ".:80"sv,
                                      "-rf:80"sv,
                                      "a b:80"sv,
                                      "a\nb:80"sv,
                                      "h\0st:80"sv,
                                      "h\u00f6st:80"sv,
                                      "a\\b:80"sv,
                                      "::1:80"sv,
                                      "[]:80"sv,
                                      "[::1:80"sv,
                                      "[::1]"sv,
                                      "[::g]:80"sv,
                                      "[../..]:80"sv,
                                      "[::1\0/..]:80"sv,
                                      "[::1%eth0]:80"sv,
                                      "host:80:90"sv,
                                      "http://host:80"sv}) {
    EXPECT_THROW(parse_address(text), std::invalid_argument) << text;
  }
  EXPECT_THROW(parse_address(std::string(300, 'a') + ":80"), std::invalid_argument);
}

TEST(EveryHost, TakesBothFamiliesOrTheOlder) {
  const std::string host = every_host();
  EXPECT_TRUE(host == "[::]" || host == "0.0.0.0") << host;
}

}  // namespace
}  // namespace ravnest
