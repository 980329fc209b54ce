#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "ravnest/base/error.h"
#include "ravnest/coordinator/words.h"
#include "ravnest/relay/pipe.h"
#include "ravnest/trust/identity.h"

namespace ravnest::control {

using Milliseconds = std::chrono::milliseconds;

// Of a session or feed, on gRPC's threads, one call at a time. Should hand over and return.
struct StreamEvents {
  std::function<void(std::string text)> on_word;
  // Once, after the last word. Empty: the server ended it well.
  std::function<void(std::exception_ptr error)> on_end;
};

// The member's end of a stream of words. Destroyed, it breaks off and waits until no event is being
// told; not from within an event.
class Stream {
 public:
  virtual ~Stream() = default;
  // Queued, in order; passed over once the stream has ended. Any thread.
  virtual void say(std::string text) = 0;
};

// How a file goes to the server, or comes from it.
struct TransferOptions {
  // Told of every part; what it throws ends the transfer, which goes on from there the next time.
  std::function<void(std::int64_t done, std::int64_t size)> progress;
  // Ends it at once, with an Error(kIo), wherever it stands.
  std::stop_token stop;
  // Told the first time that the server is not there: then it is tried again, less and less often,
  // and goes on from where it was. Empty: that is thrown.
  std::function<void(const Error& error)> on_lost;
  // Even what comes from a server of our own user on this machine.
  bool is_encrypted = false;
};

// A member's connection to its server, made when it is first needed. Any thread.
//
// Calls throw std::invalid_argument where the server says no, with its sentence;
// Error(kPeerLost) where it is not there, Error(kTimeout) where it takes too long.
class Client {
 public:
  Client(std::string server, const trust::Identity& identity);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const std::string& server() const;

  // The answer's text: JSON.
  std::string ask(const coordinator::Question& question,
                  Milliseconds timeout = std::chrono::seconds(10)) const;

  std::unique_ptr<Stream> attend(StreamEvents events) const;
  std::unique_ptr<Stream> feed(StreamEvents events) const;

  // Bytes to a member through the server; or to the one who calls. See relay/pipe.h.
  std::unique_ptr<relay::Pipe> call(const std::string& member, relay::PipeEvents events) const;
  std::unique_ptr<relay::Pipe> answer(std::int64_t call, relay::PipeEvents events) const;

  // Gives the file's SHA-256, by which it is called from then on. Throws Error(kIo) where the file
  // cannot be read, or is cut short meanwhile.
  coordinator::Hash upload(const std::filesystem::path& file,
                           const TransferOptions& options = {}) const;
  // `file` appears when it is whole and of the right hash; what has come so far is beside it.
  void download(const coordinator::Hash& hash, const std::filesystem::path& file,
                const TransferOptions& options = {}) const;

  struct LinkSpeed {
    double mbps = 0.0;
    double latency_ms = 0.0;
  };
  // Takes about as long as told.
  LinkSpeed measure(Milliseconds patience) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ravnest::control
