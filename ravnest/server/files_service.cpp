#include <control.grpc.pb.h>

#include <algorithm>
#include <memory>
#include <set>

#include "ravnest/base/error.h"
#include "ravnest/base/fault_point.h"
#include "ravnest/server/caller.h"
#include "ravnest/server/control_service.h"
#include "ravnest/server/download.h"
#include "ravnest/server/patience.h"
#include "ravnest/server/turnstile.h"

namespace ravnest::server {

using namespace coordinator;  // its words are what is spoken here

namespace {

using ::grpc::Status;
using ::grpc::StatusCode;

constexpr std::size_t kProbeBytes = std::size_t{1} << 14;  // a slow link brings some in time
constexpr std::size_t kMostCalls = 32;                     // of a member
constexpr std::chrono::minutes kNextPart{5};               // over the slowest link
constexpr auto kAnyMember = {trust::Role::kServer, trust::Role::kProvider, trust::Role::kRequester};
constexpr std::uint64_t kMostProbed = std::uint64_t{16} << 20;

struct NoMember {};

// What a provider's place, or a requester's jobs, name.
bool may_read(const State& state, const Caller& caller, const Hash& hash) {
  const auto names = [&](const StageShape& stage) {
    return stage.sub_model == hash ||
           std::ranges::any_of(stage.files, [&](const File& file) { return file.hash == hash; });
  };
  const auto has = [&](const std::vector<Piece>& pieces) {
    return std::ranges::any_of(pieces, [&](const Piece& piece) { return piece.artifact == hash; });
  };
  if (caller.is_owner()) {
    return true;
  }
  if (caller.member.role == trust::Role::kProvider) {
    const auto assignment = make_assignment(state, caller.member.id);
    return assignment &&
           (names(assignment->stage) || (assignment->restore && has(assignment->restore->pieces)));
  }
  return std::ranges::any_of(state.durable.jobs, [&](const auto& entry) {
    const Job& job = entry.second;
    if (job.requester != caller.member.id) {
      return false;
    }
    return has(job.results) || (job.restore && has(job.restore->pieces)) ||
           (job.plan && std::ranges::any_of(job.plan->shapes, [&](auto& shape) {
              return std::ranges::any_of(shape.stages, names);
            }));
  });
}

// Each call has a thread of its own, files being large and few; but Get is written as it goes.
class FilesService final
    : public control::Files::WithRawCallbackMethod_Get<control::Files::Service> {
 public:
  explicit FilesService(Desk& desk) : desk_(desk) {}

  Status Find(::grpc::ServerContext* context, const control::FileName* name,
              control::FileSize* size) override {
    return guard(*context, [&](const Caller& caller) {
      check_writer(caller);
      size->set_nbytes(static_cast<std::uint64_t>(
          desk_.artifacts().received(name->hash(), size_of(name->size()))));
    });
  }

  Status Put(::grpc::ServerContext* context, ::grpc::ServerReader<control::FilePart>* reader,
             control::FileSize* size) override {
    return guard(*context, [&](const Caller& caller) {
      check_writer(caller);
      control::FilePart part;
      Artifacts& artifacts = desk_.artifacts();
      std::shared_ptr<Upload> upload;  // gone with the call, however that ends
      std::int64_t whole = 0;
      std::int64_t offset = 0;
      Patience::Waiting next_part(patience_, *context);
      while (reader->Read(&part)) {
        next_part.renew();
        if (!upload) {
          whole = size_of(part.name().size());
          upload = artifacts.begin(part.name().hash(), whole, caller.member.id);
          offset = Artifacts::received(*upload);
          if (static_cast<std::uint64_t>(offset) != part.name().offset()) {
            throw_invalid("Expected the file from byte ", offset, " on, got another part.");
          }
        }
        offset = artifacts.put(*upload, offset, std::as_bytes(std::span(part.payload())));
        fault_point("receipt");
      }
      if (!upload || offset != whole) {
        throw_invalid("Expected all ", whole, " bytes of a file, got ", offset, ".");
      }
      size->set_nbytes(static_cast<std::uint64_t>(offset));
    });
  }

  ::grpc::ServerWriteReactor<::grpc::ByteBuffer>* Get(::grpc::CallbackServerContext* context,
                                                      const ::grpc::ByteBuffer* asked) override {
    auto* download = new Download;  // gRPC's, until it is done
    const Verdict verdict = identify_here_too(*context, context->peer(), kAnyMember);
    if (!verdict.caller) {
      download->Finish(verdict.status);
      return download;
    }
    desk_.post(
        [this, download, caller = *verdict.caller, name = read_name(*asked)] {
          if (const Status status = answer([&] { begin(*download, caller, name); }); !status.ok()) {
            download->Finish(status);
          }
        },
        [download] { download->Finish(server_ends()); });
    return download;
  }

  Status Probe(::grpc::ServerContext* context, const control::FileSize* size,
               ::grpc::ServerWriter<control::FilePart>* writer) override {
    return guard(*context, [&](const Caller& /*caller*/) {
      control::FilePart part;
      part.set_payload(std::string(kProbeBytes, '\0'));
      const std::uint64_t wanted = std::min(size->nbytes(), kMostProbed);
      for (std::uint64_t sent = 0; sent < wanted; sent += part.payload().size()) {
        if (!writer->Write(part)) {
          return;
        }
      }
    });
  }

 private:
  static std::int64_t size_of(std::uint64_t size) {
    if (size > static_cast<std::uint64_t>(kLargestNumber)) {
      throw_invalid("Expected a file of at most 10^15 bytes, got more.");
    }
    return static_cast<std::int64_t>(size);
  }

  // Providers send checkpoints and results of the place that they hold.
  void check_writer(const Caller& caller) {
    const bool may = caller.member.role != trust::Role::kProvider || desk_.ask([&] {
      return desk_.state().durable.seats.contains(caller.member.id);
    });
    if (!may) {
      throw_invalid("Expected a provider that holds a stage, got one that holds none.");
    }
  }

  static control::FileName read_name(const ::grpc::ByteBuffer& asked) {
    control::FileName name;
    ::grpc::ByteBuffer bytes = asked;
    if (!::grpc::SerializationTraits<control::FileName>::Deserialize(&bytes, &name).ok()) {
      name.Clear();  // no file is called so
    }
    return name;
  }

  // On the desk's thread.
  void begin(Download& download, const Caller& caller, const control::FileName& name) {
    if (!is_member(desk_, caller)) {
      throw NoMember();
    }
    const Hash& hash = name.hash();
    if (!is_hash(hash) || !may_read(desk_.state(), caller, hash)) {
      throw_invalid("Expected a file of your place or job, got the name of another.");
    }
    const Bytes bytes = desk_.artifacts().get(hash);
    if (name.offset() > bytes.size()) {
      throw_invalid("Expected an offset in the file, got ", name.offset(), ".");
    }
    download.begin(bytes, name.offset(),
                   std::make_unique<Turnstile::Pass>(turnstile_, caller.member.id));
  }

  template <typename Work>
  Status guard(const ::grpc::ServerContext& context, const Work& work) {
    const Verdict verdict = identify(*context.auth_context(), context.peer(), kAnyMember);
    if (!verdict.caller) {
      return verdict.status;
    }
    return answer([&] {
      if (!desk_.ask([&] { return is_member(desk_, *verdict.caller); })) {
        throw NoMember();
      }
      const Turnstile::Pass pass(turnstile_, verdict.caller->member.id);
      work(*verdict.caller);
    });
  }

  template <typename Work>
  static Status answer(const Work& work) {
    try {
      work();
      return Status::OK;
    } catch (const NoMember&) {
      return no_member();
    } catch (const std::invalid_argument& error) {
      return {StatusCode::INVALID_ARGUMENT, error.what()};
    } catch (const std::exception& error) {
      return {StatusCode::RESOURCE_EXHAUSTED, error.what()};
    }
  }

  Desk& desk_;
  Turnstile turnstile_{kMostCalls};
  Patience patience_{kNextPart};
};

}  // namespace

std::unique_ptr<::grpc::Service> make_files_service(Desk& desk) {
  return std::make_unique<FilesService>(desk);
}

}  // namespace ravnest::server
