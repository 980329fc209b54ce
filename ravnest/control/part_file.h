#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <filesystem>
#include <mutex>
#include <thread>

#include "ravnest/control/received_part.h"
#include "ravnest/trust/digest.h"

namespace ravnest::control {

// A file that grows while it comes. Its bytes are written and hashed on a thread of its own, a few
// parts behind the one who reads them off the wire. What failed there (Error(kIo)) is thrown by the
// next call.
class PartFile {
 public:
  // Takes up what an earlier try left.
  explicit PartFile(const std::filesystem::path& path);
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // With those that are still on their way to the disk.
  std::uint64_t nbytes() const { return nbytes_; }
  // Waits where too many are on their way.
  void add(ReceivedPart part);
  // After the last: the SHA-256 of the whole file.
  trust::Digest finish();

 private:
  void run();
  void write(const ReceivedPart& part);
  void end_thread();

  const std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t nbytes_ = 0;  // of who adds
  trust::Sha256 hash_;        // the thread's, until it has ended

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<ReceivedPart> parts_;
  bool is_over_ = false;
  std::exception_ptr error_;

  std::thread thread_;
};

}  // namespace ravnest::control
