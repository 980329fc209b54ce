#pragma once

#include <limits>

namespace ravnest::plot {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();

}  // namespace ravnest::plot
