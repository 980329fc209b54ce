#include "ravnest/base/json_text.h"

#include <gtest/gtest.h>

#include <string>

namespace ravnest {
namespace {

TEST(JsonText, CountsBracketsOutsideStrings) {
  EXPECT_FALSE(is_deeper_than("", 0));
  EXPECT_FALSE(is_deeper_than("[[]]", 2));
  EXPECT_TRUE(is_deeper_than("[[]]", 1));
  EXPECT_FALSE(is_deeper_than(R"({"a[[[[": "]\"[[["})", 1));
  EXPECT_TRUE(is_deeper_than(R"({"a": {"b": [1]}})", 2));
  EXPECT_FALSE(is_deeper_than("[][][][]", 1));
  EXPECT_TRUE(is_deeper_than(std::string(1'000'000, '['), 100));
  EXPECT_FALSE(is_deeper_than("]]]]", 0));
  EXPECT_FALSE(is_deeper_than("\"\\", 0));
}

}  // namespace
}  // namespace ravnest
