#include "ravnest/transport/codec/zstd.h"

#include <zstd.h>

#include <algorithm>
#include <memory>

#include "ravnest/base/error.h"

namespace ravnest::transport {

namespace {

constexpr int kLevel = 1;
// A frame that wants more history than 8 MiB is refused: ours never do.
constexpr int kMaxWindowLog = 23;
constexpr std::size_t kFirstStep = std::size_t{64} << 10;

struct FreeStream {
  void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
};

[[noreturn]] void throw_not_zstd(const char* fact) {
  throw_invalid("[transport] expected a tensor compressed by zstd, got ", fact, ".");
}

}  // namespace

std::optional<Bytes> compress(std::span<const std::byte> bytes) {
  if (bytes.empty()) {
    return std::nullopt;
  }
  Buffer out(bytes.size() - 1);
  const std::size_t size =
      ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), kLevel);
  if (ZSTD_isError(size) != 0U) {
    return std::nullopt;  // it does not fit into fewer bytes
  }
  // Copied, so that the memory that was made ready for the worst case is not kept in a queue.
  return Bytes::copy_of({out.data(), size});
}

Buffer decompress(std::span<const std::byte> bytes, std::size_t size) {
  const std::unique_ptr<ZSTD_DStream, FreeStream> stream(ZSTD_createDStream());
  RAVNEST_CHECK(stream != nullptr);
  ZSTD_DCtx_setParameter(stream.get(), ZSTD_d_windowLogMax, kMaxWindowLog);
  ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
  Buffer out;
  bool is_whole = false;
  while (!is_whole) {
    const std::size_t done = out.size();
    const std::size_t read = in.pos;
    out.resize(std::min(size, std::max(kFirstStep, 2 * done)));
    ZSTD_outBuffer to{out.data(), out.size(), done};
    const std::size_t left = ZSTD_decompressStream(stream.get(), &to, &in);
    if (ZSTD_isError(left) != 0U) {
      throw_not_zstd(ZSTD_getErrorName(left));
    }
    is_whole = left == 0;
    if (!is_whole && to.pos == done && in.pos == read) {
      throw_not_zstd(done == size ? "more bytes than its shape has" : "an incomplete frame");
    }
    out.resize(to.pos);
  }
  if (out.size() != size || in.pos != in.size) {
    throw_not_zstd("another number of bytes than its shape has");
  }
  return out;
}

}  // namespace ravnest::transport
