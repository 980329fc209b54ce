#include <memory>

#include "ravnest/base/error.h"
#include "ravnest/base/table.h"
#include "ravnest/cli/command.h"
#include "ravnest/cli/validators.h"
#include "ravnest/fuse/fuse.h"

namespace ravnest::cli {

namespace {

struct FuseFlags {
  std::filesystem::path node_data = "node_data";
  std::size_t cluster = 0;
  std::filesystem::path out = "trained/trained_state_dict.pt";
};

void run_fuse(const FuseFlags& flags) {
  const fuse::StateDict state = fuse::fuse_cluster(flags.node_data, flags.cluster);
  fuse::write_state_dict(state, flags.out);
  write_out(concat("Fused cluster ", flags.cluster, ": ", format_grouped(std::ssize(state.tensors)),
                   " tensors, ", format_grouped(state.parameters), " parameters, ",
                   format_bytes(state.nbytes), " in ", printable(flags.out.string()), " and ",
                   printable(fuse::beside(flags.out).filename().string()), "\n"));
}

}  // namespace

Command add_fuse(CLI::App& app) {
  const auto flags = std::make_shared<FuseFlags>();
  CLI::App* command =
      app.add_subcommand("fuse", "Put the trained weights of a cluster together as one state dict");
  command->add_option("--node-data", flags->node_data, "Where plan and trained weights are")
      ->type_name("FOLDER")
      ->capture_default_str();
  command->add_option("--cluster", flags->cluster, "Whose weights")
      ->check(whole_number(0, 1'000'000))
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--out", flags->out, "The .pt file; a .safetensors comes beside it")
      ->type_name("FILE")
      ->capture_default_str();
  return {.app = command, .run = [flags] { run_fuse(*flags); }};
}

}  // namespace ravnest::cli
