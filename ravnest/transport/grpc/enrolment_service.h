#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>

#include "ravnest/trust/enrolment.h"

namespace ravnest::transport {

// The service of proto/enrol.proto, for a server that has others too: it must let in who is not a
// member yet (Callers::kAnybody). Exceptions stop here, and no secret is repeated in an answer.
std::unique_ptr<::grpc::Service> make_enrolment_service(std::shared_ptr<trust::EnrolmentDesk> desk);

}  // namespace ravnest::transport
