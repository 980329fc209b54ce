#pragma once

// c10d's ProcessGroupGloo.hpp names types of gloo, which libtorch has inside, without the headers
// (the wheel does not bring them). Whoever only makes a group and calls it needs no more than these
// declarations: c10d holds all of them by pointer. In this folder alone.

#include <chrono>

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

namespace transport {
class Device;
class UnboundBuffer;
}  // namespace transport

}  // namespace gloo
