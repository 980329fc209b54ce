#pragma once

#include <grpcpp/completion_queue.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>

#include <optional>
#include <string>

#include "tests/transport/world.h"

namespace ravnest::transport {

// Any method of any service, with any credentials, and what came of it.
class GrpcCall {
 public:
  GrpcCall(const std::string& address,
           const std::shared_ptr<::grpc::ChannelCredentials>& credentials,
           const std::string& tls_name) {
    ::grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    if (!tls_name.empty()) {
      arguments.SetString(GRPC_SSL_TARGET_NAME_OVERRIDE_ARG, tls_name);
    }
    channel_ = ::grpc::CreateCustomChannel("dns:///" + address, credentials, arguments);
  }
  explicit GrpcCall(std::shared_ptr<::grpc::Channel> channel) : channel_(std::move(channel)) {}
  ~GrpcCall() {
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }
  GrpcCall(const GrpcCall&) = delete;
  GrpcCall& operator=(const GrpcCall&) = delete;

  // Sends one message, the last where told, and reads one; nothing where none comes, and status()
  // says why.
  std::optional<std::string> ask(const std::string& method, const std::string& message,
                                 bool is_last = false) {
    context_.set_deadline(std::chrono::system_clock::now() + kPatience);
    ::grpc::GenericStub stub(channel_);
    const auto call = stub.PrepareCall(&context_, method, &queue_);
    const ::grpc::Slice slice(message);
    call->StartCall(this);
    bool is_well = wait();
    if (is_well) {
      ::grpc::WriteOptions options;
      if (is_last) {
        options.set_last_message();
      }
      call->Write(::grpc::ByteBuffer(&slice, 1), options, this);
      is_well = wait();
    }
    ::grpc::ByteBuffer answer;
    if (is_well) {
      call->Read(&answer, this);
      is_well = wait();
    }
    std::optional<std::string> text;
    if (is_well) {
      text = text_of(answer);
      context_.TryCancel();
    }
    call->Finish(&status_, this);
    wait();
    return text;
  }
  // Before ask().
  ::grpc::ClientContext& context() { return context_; }
  const ::grpc::Status& status() const { return status_; }

 private:
  bool wait() {
    void* tag = nullptr;
    bool ok = false;
    queue_.Next(&tag, &ok);
    return ok;
  }
  static std::string text_of(const ::grpc::ByteBuffer& buffer) {
    std::vector<::grpc::Slice> slices;
    EXPECT_TRUE(buffer.Dump(&slices).ok());
    std::string text;
    for (const ::grpc::Slice& slice : slices) {
      text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
    return text;
  }

  std::shared_ptr<::grpc::Channel> channel_;
  ::grpc::ClientContext context_;
  ::grpc::CompletionQueue queue_;
  ::grpc::Status status_;
};

}  // namespace ravnest::transport
