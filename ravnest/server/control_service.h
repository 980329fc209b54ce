#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <functional>
#include <memory>
#include <string>

#include "ravnest/server/desk.h"
#include "ravnest/trust/authority.h"

namespace ravnest::server {

// The services of proto/control.proto. Callers are those of Callers::kAnybody: each call looks at
// who makes it. All of them outlive the gRPC server that they are given to.
std::unique_ptr<::grpc::Service> make_control_service(Desk& desk, trust::Authority authority);
std::unique_ptr<::grpc::Service> make_files_service(Desk& desk);
std::unique_ptr<::grpc::Service> make_relay_service(Desk& desk);

}  // namespace ravnest::server
