// Reads the input as the numbers and the text of a message between stages: the header of a pass and
// its result, or a word. What is read can be said again, and is the same then.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>

#include "ravnest/provider/pass.h"
#include "tests/fuzz/finding.h"

namespace ravnest::provider {
namespace {

constexpr std::size_t kHead = 18;  // numbers in the message, its pass, its epoch

transport::Message read_message(const std::uint8_t* data, std::size_t size) {
  transport::Message message;
  const auto take = [&] {
    std::int64_t number = 0;
    const std::size_t count = std::min(size, sizeof(number));
    std::memcpy(&number, data, count);
    data += count;
    size -= count;
    return number;
  };
  const std::size_t fields = *data++ % 16;
  --size;
  message.pass = take();
  message.epoch = take();
  for (std::size_t i = 0; i < fields; ++i) {
    message.fields.push_back(take());
  }
  message.metadata.assign(reinterpret_cast<const char*>(data), size);
  return message;
}

void read_pass(const transport::Message& message) {
  const PassHeader header = read_header(message);
  require(header.samples >= 0 && header.part >= 0 && header.part < header.parts);
  require(std::isfinite(header.weight));
  require(header.pass + 1 > header.pass && header.samples + header.samples >= header.samples);
  transport::Message again = to_message(header, message.kind);
  if (message.fields.size() > again.fields.size()) {
    const PassResult result = read_result(message);
    require(result.correct >= 0 && result.correct <= result.counted);
    require(result.counted + result.counted >= result.counted);
    add_result(result, again);
    const PassResult same = read_result(again);
    require(bits_of(same.loss) == bits_of(result.loss) && same.counted == result.counted);
  }
  const PassHeader same = read_header(again);
  require(same.pass == header.pass && same.parts == header.parts && same.weight == header.weight);
}

void read_word(const transport::Message& message) {
  const Control control = read_control(message);
  static_cast<void>(round_of(control));
  static_cast<void>(passes_of(control));
  static_cast<void>(exit_code_of(control));
  static_cast<void>(sums_of(control));
  const Control same = read_control(to_message(control));
  require(same.word == control.word && same.numbers == control.numbers &&
          same.text == control.text && same.generation == control.generation);
}

}  // namespace
}  // namespace ravnest::provider

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < ravnest::provider::kHead) {
    return 0;
  }
  const auto message = ravnest::provider::read_message(data, size);
  ravnest::accepted([&] { ravnest::provider::read_pass(message); });
  ravnest::accepted([&] { ravnest::provider::read_word(message); });
  return 0;
}
