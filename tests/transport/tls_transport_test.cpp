#include "tests/transport/fault_contract.h"
#include "tests/transport/tls_world.h"
#include "tests/transport/transport_contract.h"

namespace ravnest::transport {
namespace {

INSTANTIATE_TYPED_TEST_SUITE_P(Tls, TransportContract, TlsWorld);
INSTANTIATE_TYPED_TEST_SUITE_P(Tls, FaultContract, TlsWorld);

}  // namespace
}  // namespace ravnest::transport
