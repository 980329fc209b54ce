#include "ravnest/provider/pass.h"

#include <bit>
#include <cmath>

#include "ravnest/base/error.h"

namespace ravnest::provider {

namespace {

constexpr std::size_t kHeaderFields = 7;
constexpr std::size_t kResultFields = 3;
// Of what is counted and summed: no sum of such overflows.
constexpr std::int64_t kMost = std::int64_t{1} << 48;

bool is_count(std::int64_t number) { return number >= 0 && number <= kMost; }

void expect_fields(const transport::Message& message, std::size_t count) {
  if (message.fields.size() < count) {
    throw_invalid("[provider] expected a ", transport::name_of(message.kind), " message with ",
                  count, " numbers, got ", message.fields.size(), ".");
  }
}

void check(const PassResult& result) {
  if (!is_count(result.counted) || result.correct < 0 || result.correct > result.counted) {
    throw_invalid("[provider] expected a result with counts, got ", result.correct, " of ",
                  result.counted, ".");
  }
}

}  // namespace

std::int64_t bits_of(double number) { return std::bit_cast<std::int64_t>(number); }
double number_of(std::int64_t bits) { return std::bit_cast<double>(bits); }

transport::Message to_message(const PassHeader& header, transport::MessageKind kind) {
  transport::Message message;
  message.kind = kind;
  message.pass = header.pass;
  message.epoch = header.generation;
  message.fields = {static_cast<std::int64_t>(header.purpose),
                    header.epoch,
                    header.samples,
                    header.part,
                    header.parts,
                    bits_of(header.weight),
                    header.is_refused ? 1 : 0};
  return message;
}

PassHeader read_header(const transport::Message& message) {
  expect_fields(message, kHeaderFields);
  const auto& fields = message.fields;
  if (fields[0] < 0 || fields[0] > static_cast<std::int64_t>(Purpose::kPredict)) {
    throw_invalid("[provider] unknown purpose ", fields[0], " of a pass.");
  }
  const PassHeader header{.purpose = static_cast<Purpose>(fields[0]),
                          .pass = message.pass,
                          .generation = message.epoch,
                          .epoch = fields[1],
                          .samples = fields[2],
                          .part = fields[3],
                          .parts = fields[4],
                          .weight = number_of(fields[5]),
                          .is_refused = fields[6] != 0};
  if (!is_count(header.pass) || !is_count(header.samples) || header.epoch > kMost ||
      !is_count(header.part) || header.part >= header.parts || header.parts > kMost ||
      !std::isfinite(header.weight)) {
    throw_invalid("[provider] a message of pass ", header.pass, " has numbers out of range.");
  }
  return header;
}

void add_result(const PassResult& result, transport::Message& message) {
  message.fields.insert(message.fields.end(),
                        {bits_of(result.loss), result.correct, result.counted});
}

PassResult read_result(const transport::Message& message) {
  expect_fields(message, kHeaderFields + kResultFields);
  const PassResult result{.loss = number_of(message.fields[kHeaderFields]),
                          .correct = message.fields[kHeaderFields + 1],
                          .counted = message.fields[kHeaderFields + 2]};
  check(result);
  return result;
}

std::int64_t round_of(const Control& control) {
  return control.numbers.empty() ? 1 : control.numbers[0];
}

std::int64_t passes_of(const Control& control) {
  return control.numbers.size() < 2 ? 0 : control.numbers[1];
}

int exit_code_of(const Control& control) {
  return control.numbers.empty() ? 1 : static_cast<int>(control.numbers[0]);
}

std::optional<PassResult> sums_of(const Control& control) {
  if (control.numbers.size() < 4) {
    return std::nullopt;
  }
  const PassResult sums{.loss = number_of(control.numbers[1]),
                        .correct = control.numbers[2],
                        .counted = control.numbers[3]};
  check(sums);
  return sums;
}

transport::Message to_message(const Control& control) {
  transport::Message message;
  message.kind = transport::MessageKind::kControl;
  message.epoch = control.generation;
  message.fields = {static_cast<std::int64_t>(control.word)};
  message.fields.insert(message.fields.end(), control.numbers.begin(), control.numbers.end());
  message.metadata = control.text;
  return message;
}

Control read_control(const transport::Message& message) {
  expect_fields(message, 1);
  const std::int64_t word = message.fields[0];
  if (word < static_cast<std::int64_t>(Word::kRun) ||
      word > static_cast<std::int64_t>(Word::kStop)) {
    throw_invalid("[provider] unknown word ", word, " in a control message.");
  }
  return {.word = static_cast<Word>(word),
          .generation = message.epoch,
          .numbers = {message.fields.begin() + 1, message.fields.end()},
          .text = message.metadata};
}

}  // namespace ravnest::provider
