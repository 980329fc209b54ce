#pragma once

#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "ravnest/base/folder_lock.h"

namespace ravnest::package {

struct Rename {
  std::filesystem::path from;
  std::filesystem::path to;
};

// The folder of a plan: "nodes", or "cluster_<number>" as one writes numbers.
bool is_plan_folder(std::string_view name);

// The renames that put the plan in `staging`/new into `node_data` and the one that is there
// into `staging`/old. The first takes nodes/ away and the last brings it back, so that
// whoever stops in between leaves no plan. Throws Error(kIo) where something other than a
// folder has the name of one. Changes nothing.
std::vector<Rename> replacement_steps(const std::filesystem::path& node_data,
                                      const std::filesystem::path& staging);

// One replacement of the plan in node_data, by one process at a time (a lock on the folder).
// Write the new plan into folder(), then commit(), which syncs it; without it, or where it fails,
// the old plan stays. What a crash left behind is removed by the next. Throws Error(kIo).
class PlanSwap {
 public:
  explicit PlanSwap(std::filesystem::path node_data);
  ~PlanSwap();
  PlanSwap(const PlanSwap&) = delete;
  PlanSwap& operator=(const PlanSwap&) = delete;

  std::filesystem::path folder() const { return staging_ / "new"; }
  void commit();

 private:
  std::filesystem::path node_data_;
  std::filesystem::path staging_;
  std::optional<FolderLock> lock_;
  bool keep_staging_ = false;  // it holds an old plan that could not be put back
};

}  // namespace ravnest::package
