#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ravnest::reduce {

// What a member brings to a round, and what all take from it.
struct Contribution {
  std::vector<float> values;         // averaged
  std::vector<std::int64_t> maxima;  // the largest of each, exact
  // By the codec. False, and so at all members: they are too much for it, such as whole weights.
  bool may_be_rounded = true;
};

// A round that was committed: bit-identical for all that took part.
struct Average {
  std::int64_t round = 0;
  Contribution result;
  std::vector<std::string> members;  // who took part, by rank
  bool is_final = false;
  std::size_t nbytes_sent = 0;         // by us, of values and maxima
  std::chrono::milliseconds duration;  // from on_begin to the commit
  // Of the sum, by us, where the codec rounded it; added to our next contribution nothing is lost
  // in the long run. Empty: nothing.
  std::vector<float> left_out;
};

enum class Mean : std::uint8_t {
  kPlain,
  // Of every coordinate the largest and the smallest are left out; with fewer than three members
  // it is the plain mean.
  kTrimmed,
};

}  // namespace ravnest::reduce
