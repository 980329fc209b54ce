#include "ravnest/trust/random.h"

#include <openssl/rand.h>

#include <vector>

#include "ravnest/base/error.h"
#include "ravnest/trust/encoding.h"

namespace ravnest::trust {

void fill_random(std::span<std::byte> bytes) {
  auto* out = reinterpret_cast<unsigned char*>(bytes.data());
  if (::RAND_bytes(out, static_cast<int>(bytes.size())) != 1) {
    throw Error(ErrorKind::kIo, "[trust] the system has no random bytes to give.");
  }
}

std::string random_hex(std::size_t nbytes) {
  std::vector<std::byte> bytes(nbytes);
  fill_random(bytes);
  return encode_hex(bytes);
}

}  // namespace ravnest::trust
