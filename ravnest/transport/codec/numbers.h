#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ravnest::transport {

// The loops behind Numbers, written so that compilers vectorise them. Both sides have the same
// number of values. Those that narrow return false where a finite value became infinite (or, for
// rows, a value is not finite): what they have written is then of no use.

bool to_float16(std::span<const float> values, std::uint16_t* halves);
void from_float16(std::span<const std::uint16_t> halves, float* values);

bool to_bfloat16(std::span<const float> values, std::uint16_t* halves);
void from_bfloat16(std::span<const std::uint16_t> halves, float* values);

// One row of kInt8Rows. A row whose largest magnitude is below 1e-36 becomes zero.
bool to_int8(std::span<const float> row, float* scale, std::int8_t* bytes);
void from_int8(std::span<const std::int8_t> bytes, float scale, float* row);

}  // namespace ravnest::transport
