#include "ravnest/transport/grpc/grpc_transport.h"

#include "tests/transport/fault_contract.h"
#include "tests/transport/transport_contract.h"

namespace ravnest::transport {
namespace {

INSTANTIATE_TYPED_TEST_SUITE_P(Grpc, TransportContract, GrpcWorld);
INSTANTIATE_TYPED_TEST_SUITE_P(Grpc, FaultContract, GrpcWorld);
INSTANTIATE_TYPED_TEST_SUITE_P(TrustedGrpc, TransportContract, TrustedGrpcWorld);
INSTANTIATE_TYPED_TEST_SUITE_P(TrustedGrpc, FaultContract, TrustedGrpcWorld);

}  // namespace
}  // namespace ravnest::transport
