#include "ravnest/agent/workplace.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ravnest/base/atomic_file.h"
#include "ravnest/base/error.h"
#include "ravnest/package/checkpoint_file.h"
#include "ravnest/package/place_files.h"

namespace ravnest::agent {

namespace fs = std::filesystem;
using coordinator::Assignment;
using coordinator::Origin;

namespace {

constexpr const char* kNodeFile = "node.json";
constexpr const char* kSubModel = "submod.pt2";

// Names of files come from the plan, and are ours; still, no name from outside is ever a path.
void check_name(const std::string& name) {
  if (!coordinator::is_name(name) || name.find("..") != std::string::npos) {
    throw_invalid("[agent] expected the name of a stage's file, got another.");
  }
}

void write_members(const Assignment& assignment, const fs::path& path) {
  AtomicFile file(path);
  file.write(nlohmann::json(members_of(assignment)).dump());
  file.commit();
}

// The weights that the assignment says, as a checkpoint to go on from.
void place_weights(const Assignment& assignment, const control::Client& client, Cache& cache,
                   const std::optional<fs::path>& kept, const Workplace& place,
                   const control::TransferOptions& transfer) {
  if (assignment.origin == Origin::kKept) {
    if (!kept) {
      throw_invalid("[agent] expected weights that were kept, got none.");
    }
    fs::copy_file(*kept, place.checkpoint());  // that folder's own, as long as it is there
  } else if (assignment.origin == Origin::kCheckpoint) {
    if (!assignment.restore) {
      throw_invalid("[agent] expected a restore point, got none.");
    }
    std::vector<fs::path> pieces;
    for (const coordinator::Piece& piece : assignment.restore->pieces) {
      const bool is_same =
          piece.first_op == assignment.stage.first_op && piece.last_op == assignment.stage.last_op;
      if (is_same && assignment.restore->plan == place.node.plan) {
        fs::copy_file(cache.get(client, piece.artifact, transfer), place.checkpoint());
        return;
      }
      const bool is_needed =
          piece.first_op <= assignment.stage.last_op && piece.last_op >= assignment.stage.first_op;
      if (is_needed) {
        pieces.push_back(cache.get(client, piece.artifact, transfer));
      }
    }
    const auto program = package::read_stage(place.folder, place.node).program;
    package::gather_checkpoint(pieces, package::checkpoint_names(program), place.node.plan,
                               place.checkpoint());
  }
}

}  // namespace

std::string Workplace::node_name() const { return concat("node_", node.id); }

fs::path Workplace::checkpoint() const { return package::checkpoint_path(folder, node); }

Workplace make_workplace(const Assignment& assignment, const control::Client& client, Cache& cache,
                         const std::optional<fs::path>& kept, const WorkplaceOptions& options) {
  fs::remove_all(options.folder);
  fs::create_directories(options.folder / "checkpoints");
  const auto& files = assignment.stage.files;
  const auto node_file = std::ranges::find(files, kNodeFile, &coordinator::File::name);
  if (node_file == files.end()) {
    throw_invalid("[agent] expected an assignment with a node file, got one without.");
  }
  Workplace place{.folder = options.folder};
  place.node = with_machines(
      package::read_place(cache.get(client, node_file->hash, options.transfer), options.folder),
      assignment, options.self, options.resolve);
  const fs::path folder = package::stage_folder(options.folder, place.node);
  fs::create_directories(folder);
  const std::size_t rank = rank_of(assignment);
  for (const coordinator::File& file : files) {
    if (file.name == kNodeFile) {
      continue;
    }
    check_name(file.name);
    cache.place(client, file.hash, folder / file.name, options.transfer);
    if (file.name.ends_with(".json")) {
      package::set_cluster(folder / file.name, rank);
    }
  }
  cache.place(client, assignment.stage.sub_model, folder / kSubModel, options.transfer);
  package::write_machine(place.node, options.folder);
  write_members(assignment, options.folder / "members.json");
  place_weights(assignment, client, cache, kept, place, options.transfer);
  return place;
}

}  // namespace ravnest::agent
