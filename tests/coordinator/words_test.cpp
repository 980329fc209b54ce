// What the server and its members say to each other, as text.

#include "ravnest/coordinator/words.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "tests/coordinator/word_samples.h"

namespace ravnest::coordinator {
namespace {

using Json = nlohmann::json;
using Read = std::function<std::string(std::string_view)>;  // and write again

// What a reader says about a text; empty where it takes it.
std::string refusal_of(const Read& read, std::string_view text) {
  try {
    read(text);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

template <typename Word>
class Words : public testing::Test {};

// A kind of word: its samples, and how it is read.
template <typename Word, auto Samples, auto Read>
struct Kind {
  using Type = Word;
  static WordSamples<Word> samples() { return Samples(); }
  static std::string read(std::string_view text) { return to_text(Read(text)); }
};
using Kinds =
    testing::Types<Kind<ProviderWord, provider_words, read_provider_word>,
                   Kind<ServerWord, server_words, read_server_word>,
                   Kind<RequesterWord, requester_words, read_requester_word>,
                   Kind<FeedWord, feed_words, read_feed_word>,
                   Kind<Question, questions, read_question>, Kind<Results, results, read_results>>;
TYPED_TEST_SUITE(Words, Kinds);

TYPED_TEST(Words, AreWrittenAsTheProtocolHasThemAndReadAgain) {
  for (const auto& [word, json] : TypeParam::samples()) {
    EXPECT_EQ(Json::parse(to_text(word)), json);
    EXPECT_EQ(Json::parse(TypeParam::read(json.dump())), json);
  }
}

TYPED_TEST(Words, EveryOneHasASample) {
  using Word = typename TypeParam::Type;
  if constexpr (!std::is_same_v<Word, Results>) {
    std::set<std::size_t> seen;
    for (const auto& [word, json] : TypeParam::samples()) {
      seen.insert(word.index());
    }
    EXPECT_EQ(seen.size(), std::variant_size_v<Word>);
  }
}

// All values inside, by their place.
std::vector<Json::json_pointer> places_in(const Json& json) {
  std::vector<Json::json_pointer> places;
  const std::function<void(const Json&, const Json::json_pointer&)> walk =
      [&](const Json& at, const Json::json_pointer& place) {
        places.push_back(place);
        if (at.is_object()) {
          for (const auto& [key, value] : at.items()) {
            walk(value, place / key);
          }
        } else if (at.is_array()) {
          for (std::size_t i = 0; i < at.size(); ++i) {
            walk(at[i], place / i);
          }
        }
      };
  walk(json, Json::json_pointer());
  return places;
}

TYPED_TEST(Words, AMissingOrFurtherKeyIsRefused) {
  for (const auto& [word, json] : TypeParam::samples()) {
    for (const auto& place : places_in(json)) {
      if (!json[place].is_object()) {
        continue;
      }
      Json more = json;
      more[place]["further"] = 1;
      EXPECT_NE(refusal_of(TypeParam::read, more.dump()), "") << more;
      for (const auto& [key, value] : json[place].items()) {
        Json less = json;
        less[place].erase(key);
        EXPECT_NE(refusal_of(TypeParam::read, less.dump()), "") << less;
      }
    }
  }
}

// Values that are not of the type of this one.
std::vector<Json> others_than(const Json& value) {
  if (value.is_string()) {
    return {7, true, Json::array(), Json::object()};
  }
  if (value.is_boolean()) {
    return {0, 1, "true", nullptr};
  }
  if (value.is_number_integer()) {
    return {1.5, "1", true, nullptr, std::uint64_t{1} << 60, -(std::int64_t{1} << 60)};
  }
  if (value.is_number()) {
    return {"1.5", true, nullptr, Json::array()};
  }
  return value.is_array() ? std::vector<Json>{Json::object(), "", 1}
                          : std::vector<Json>{Json::array(), "", 1};
}

TYPED_TEST(Words, AValueOfAnotherTypeIsRefused) {
  for (const auto& [word, json] : TypeParam::samples()) {
    for (const auto& place : places_in(json)) {
      for (const Json& other : others_than(json[place])) {
        Json wrong = json;
        wrong[place] = other;
        EXPECT_NE(refusal_of(TypeParam::read, wrong.dump()), "") << wrong;
      }
    }
  }
}

TYPED_TEST(Words, WhatIsNoWordIsRefused) {
  const std::string deep(100'000, '[');
  for (const std::string_view text :
       {std::string_view(), std::string_view("null"), std::string_view("[]"),
        std::string_view("{}"), std::string_view("7"), std::string_view("\"hello\""),
        std::string_view(R"({"word":"other"})"), std::string_view(R"({"word":7})"),
        std::string_view(R"({"word":"still_here"}x)"), std::string_view("{\"word\":\"\xFF\"}"),
        std::string_view(deep)}) {
    EXPECT_NE(refusal_of(TypeParam::read, text), "") << text.substr(0, 40);
  }
}

TEST(Word, ANumberThatIsNoneIsRefused) {
  const std::string text = to_text(ProviderWord(Tells{}));
  const std::string loss = "\"loss\":0.0";
  ASSERT_NE(text.find(loss), std::string::npos);
  for (const char* number :
       {"NaN", "Infinity", "-Infinity", "1e999", "-1e999", "0x1", "1.", "+1"}) {
    std::string other = text;
    other.replace(text.find(loss), loss.size(), std::string("\"loss\":") + number);
    EXPECT_NE(
        refusal_of([](std::string_view it) { return to_text(read_provider_word(it)); }, other), "")
        << number;
  }
}

TEST(Word, BytesThatAreNoTextAreReplaced) {
  const auto word = read_provider_word(
      to_text(ProviderWord(HasFailed{.post = {}, .reason = "cut \xC3", .is_memory = false})));
  EXPECT_EQ(std::get<HasFailed>(word).reason, "cut \xEF\xBF\xBD");
}

TEST(Word, ANodesIdTellsItsEpochAndStage) {
  std::set<std::int64_t> ids;
  for (Epoch epoch = 0; epoch < 3; ++epoch) {
    for (std::int64_t stage = 0; stage < static_cast<std::int64_t>(kMostStages); ++stage) {
      ids.insert(node_id_of(epoch, stage));
    }
  }
  EXPECT_EQ(ids.size(), 3 * kMostStages);
}

}  // namespace
}  // namespace ravnest::coordinator
