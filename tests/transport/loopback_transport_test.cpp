#include "ravnest/transport/loopback/loopback.h"
#include "tests/transport/fault_contract.h"
#include "tests/transport/transport_contract.h"

namespace ravnest::transport {
namespace {

INSTANTIATE_TYPED_TEST_SUITE_P(Loopback, TransportContract, LoopbackWorld);
INSTANTIATE_TYPED_TEST_SUITE_P(Loopback, FaultContract, LoopbackWorld);

}  // namespace
}  // namespace ravnest::transport
