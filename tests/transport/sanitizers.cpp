// What libraries that are not ours do, and sanitizers remark on. gRPC is not compiled for the race
// detector, which therefore does not see how it hands work from thread to thread: its code, and
// what of it its headers bring into ours, is passed over. What our own code does is not
// (ravnest/transport/grpc/baton.h).

// NOLINTBEGIN(readability-identifier-naming): names that the sanitizers look for
extern "C" {

const char* __lsan_default_suppressions();
const char* __tsan_default_options();
const char* __tsan_default_suppressions();

// gRPC's resolver keeps a few bytes to the end.
const char* __lsan_default_suppressions() { return "leak:libcares\n"; }

const char* __tsan_default_options() { return "ignore_noninstrumented_modules=1"; }

const char* __tsan_default_suppressions() {
  return "race_top:grpcpp/\n"
         "race:grpc::internal::InterceptorBatchMethodsImpl\n"
         "race:grpc::internal::CallOpSendMessage::SendMessagePtr\n"
         "race:grpc::internal::CallbackWithSuccessTag::Set\n"
         "race:grpc::internal::ClientCallbackReaderWriterImpl*MaybeFinish\n"
         "race:grpc::internal::CallbackUnaryHandler*CallOnDone\n"
         "race:grpc::internal::ServerCallbackCall::MaybeDone\n"
         "race:grpc::Status::operator=\n"
         "race:PreBindBacklog\n";
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
