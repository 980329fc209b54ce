#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace ravnest::relay {

// The relay's way, where the machine of b accepts no connections:
//
//   a's process ─TCP─▶ Outward ═pipe═▶ Switchboard ═pipe═▶ Inward ─TCP─▶ b's process
//     (a's machine: 127.0.0.1)          (the server)        (b's machine: 127.0.0.1)
//
// The two processes speak TLS with each other: whoever carries the bytes learns and alters nothing.

// Bytes both ways to another side, over whatever carries them. It ends as a whole: there is no half
// of it that goes on. Any thread; one writes at a time.
class Pipe {
 public:
  virtual ~Pipe() = default;

  // Waits while the other side takes no more. False once it has ended.
  virtual bool write(std::span<const std::byte> bytes) = 0;
  // Both directions; again does nothing. Who waits in write() returns. What was written before
  // still arrives.
  virtual void close() = 0;
};

// What comes from the other side, in order, on one thread at a time that serves this pipe alone:
// on_bytes waits while its taker takes no more, and so holds the sender back. on_end is the last,
// and comes once, whoever closed.
struct PipeEvents {
  std::function<void(std::span<const std::byte>)> on_bytes;
  std::function<void()> on_end;
};

// Opens a pipe; events may come before it has returned. It has a deadline of its own, and throws
// Error where nobody is there.
using TakePipe = std::function<std::unique_ptr<Pipe>(PipeEvents events)>;
using OpenPipe = std::function<std::unique_ptr<Pipe>(const std::string& member, PipeEvents events)>;

}  // namespace ravnest::relay
