#include "ravnest/agent/training_flags.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace ravnest::agent {
namespace {

using Flags = std::vector<std::string>;

TEST(TrainingFlags, AreThoseOfTheCommand) {
  EXPECT_EQ(training_flags(""), Flags());
  EXPECT_EQ(training_flags("{}"), Flags());
  EXPECT_EQ(training_flags(R"({"optimizer": "adam", "update_frequency": 4, "max_norm": 0.5,
                               "seed": null, "step_on_update": true, "average_optim": false,
                               "optimizer_options": {"lr": 0.1, "betas": [0.9, 0.99]}})"),
            (Flags{"--max-norm=0.5", "--optimizer=adam",
                   R"(--optimizer-options={"betas":[0.9,0.99],"lr":0.1})", "--step-on-update",
                   "--update-frequency=4"}));
}

TEST(TrainingFlags, WhatIsNotKnownIsRefused) {
  for (const char* text :
       {R"({"identity": "/etc/passwd"})", R"({"node-data": "."})", R"({"node_data": "."})",
        R"({"--codec": "fp16"})", R"({"codec=fp16 --save": 1})", R"({"": 1})",
        R"({"checkpoints": "/tmp"})", R"({"members": "x"})", R"({"Codec": "fp16"})",
        R"({"step_on_update": "true"})", R"({"step_on_update": 1})",
        R"({"step_on_update": {"a": 1}})"}) {
    EXPECT_THROW(training_flags(text), std::invalid_argument) << text;
  }
}

// A value is never a word of its own: whatever it looks like, it is the option's.
TEST(TrainingFlags, AValueThatLooksLikeAFlagStaysAValue) {
  EXPECT_EQ(training_flags(R"({"codec": "--identity=/etc/passwd"})"),
            Flags{"--codec=--identity=/etc/passwd"});
  EXPECT_EQ(training_flags(R"({"codec": "fp16 --save"})"), Flags{"--codec=fp16 --save"});
  EXPECT_EQ(training_flags(R"({"codec": ["--save"]})"), Flags{R"(--codec=["--save"])"});
}

TEST(TrainingFlags, HowClustersReachEachOtherIsTheUsersOwnToSay) {
  EXPECT_THROW(training_flags(R"({"reduce": "gloo"})"), std::invalid_argument);
  EXPECT_EQ(training_flags(R"({"reduce": "gloo"})", true), Flags{"--reduce=gloo"});
  EXPECT_THROW(training_flags(R"({"identity": "/etc/passwd"})", true), std::invalid_argument);
}

TEST(TrainingFlags, WhatIsNoObjectIsRefused) {
  for (const std::string& text :
       {std::string("null"), std::string("[]"), std::string("7"), std::string("{"),
        std::string("adam"), std::string("{} {}"), std::string(100'000, '['),
        R"({"optimizer_options": )" + std::string(20, '[') + std::string(20, ']') + "}"}) {
    EXPECT_THROW(training_flags(text), std::invalid_argument) << text.substr(0, 40);
  }
}

TEST(TrainingFlags, TheWordsOfARefusalDoNoHarm) {
  try {
    training_flags("{\"\\u001b[31m" + std::string(1000, 'x') + "\": 1}");
    FAIL();
  } catch (const std::invalid_argument& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
    EXPECT_LT(text.size(), 200U);
  }
}

}  // namespace
}  // namespace ravnest::agent
