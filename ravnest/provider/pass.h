#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ravnest/transport/message.h"
#include "ravnest/transport/options.h"

namespace ravnest::provider {

enum class Purpose : std::uint8_t {
  kTrain = 0,
  kValidate = 1,  // forward alone, scored by the leaf
  kPredict = 2,   // forward alone, the output goes back to the source
};

// What every message of a pass says of it. A batch that is cut into micro-batches is as many
// passes.
struct PassHeader {
  Purpose purpose = Purpose::kTrain;
  std::int64_t pass = 0;        // training passes and others are counted apart, from 0
  std::int64_t generation = 0;  // a new one each time that a run's passes start over
  std::int64_t epoch = 0;       // of the data
  std::int64_t samples = 0;
  std::int64_t part = 0;  // which micro-batch of how many
  std::int64_t parts = 1;
  double weight = 1.0;      // of its loss among the parts of its batch: 1 on average
  bool is_refused = false;  // nobody learns from it: its numbers are not finite

  bool is_training() const { return purpose == Purpose::kTrain; }
};

// How a pass came out at the leaf.
struct PassResult {
  double loss = 0.0;
  std::int64_t correct = 0;  // of `counted` predictions of a class
  std::int64_t counted = 0;
};

// Words between stages that are no pass. Forward ones travel in order with the passes.
enum class Word : std::int64_t {
  // From the root: passes start over; text: id of the run, number: the pass that updates are
  // counted from. To the requester: it begins; numbers:
  // the training passes learned from, or -1; the generation is what requests must carry.
  kRun = 1,
  // From the root: every pass was learned from; numbers: the round and the passes. Back to it from
  // the leaf: all have ended that training, and saved what they were to.
  kTrainingEnd,
  kValidationEnd,  // from the root: numbers: the round and the results' sums
  kHello,          // towards the root: a stage was started
  kStop,           // both ways: numbers: exit code; text: why
};

struct Control {
  Word word = Word::kRun;
  std::int64_t generation = 0;
  std::vector<std::int64_t> numbers;
  std::string text;
};

// How long whoever ends waits for room to say so.
inline constexpr transport::Milliseconds kLastWord{1000};

transport::Message to_message(const PassHeader& header, transport::MessageKind kind);
// Throws std::invalid_argument where a field is missing or out of its range.
PassHeader read_header(const transport::Message& message);

void add_result(const PassResult& result, transport::Message& message);
PassResult read_result(const transport::Message& message);

// Which training or validation ends: 1, 2, …
std::int64_t round_of(const Control& control);
// Of kTrainingEnd as stages get it; 0 where it does not say.
std::int64_t passes_of(const Control& control);
// Of kStop.
int exit_code_of(const Control& control);
// Of kValidationEnd as stages get it: the sums; nothing where they are missing. Throws as
// read_result.
std::optional<PassResult> sums_of(const Control& control);

transport::Message to_message(const Control& control);
Control read_control(const transport::Message& message);

std::int64_t bits_of(double number);
double number_of(std::int64_t bits);

}  // namespace ravnest::provider
