#include "ravnest/package/plan_swap.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "ravnest/base/atomic_file.h"
#include "ravnest/base/error.h"

namespace ravnest::package {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kNodes = "nodes";
constexpr std::string_view kClusterPrefix = "cluster_";
constexpr const char* kStaging = ".ravnest_plan";

[[noreturn]] void throw_io(const std::string& what) {
  throw Error(ErrorKind::kIo, concat("[package] ", what, "."));
}

// Folders are synced so that renames survive a power cut, in their order.
void sync_folder(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) {
    ::fsync(fd);
    ::close(fd);
  }
}

std::vector<std::string> plan_folders_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (is_plan_folder(name) && entry.is_directory() && !entry.is_symlink()) {
      names.push_back(name);
    }
  }
  // "nodes" comes first; the order among clusters does not matter.
  std::ranges::sort(names, std::ranges::greater());
  return names;
}

void check_free(const fs::path& target) {
  const fs::file_type type = fs::symlink_status(target).type();
  if (type != fs::file_type::not_found && type != fs::file_type::directory) {
    throw_io(
        concat("expected a folder at '", target.string(), "', got something else; move it away"));
  }
}

void run(const Rename& step) {
  fs::rename(step.from, step.to);
  sync_folder(step.from.parent_path());
  sync_folder(step.to.parent_path());
}

// The last first; false where even going back failed.
bool undo(const std::vector<Rename>& steps, std::size_t done) {
  while (done > 0) {
    --done;
    std::error_code error;
    fs::rename(steps[done].to, steps[done].from, error);
    if (error) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool is_plan_folder(std::string_view name) {
  if (name == kNodes) {
    return true;
  }
  if (!name.starts_with(kClusterPrefix)) {
    return false;
  }
  const std::string_view number = name.substr(kClusterPrefix.size());
  return !number.empty() && (number == "0" || number[0] != '0') &&
         std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
}

std::vector<Rename> replacement_steps(const fs::path& node_data, const fs::path& staging) {
  std::vector<Rename> steps;
  for (const std::string& name : plan_folders_in(node_data)) {
    steps.push_back({node_data / name, staging / "old" / name});
  }
  std::vector<std::string> names = plan_folders_in(staging / "new");
  std::ranges::reverse(names);
  for (const std::string& name : names) {
    check_free(node_data / name);
    steps.push_back({staging / "new" / name, node_data / name});
  }
  return steps;
}

// A commit that was cut off before it put the new nodes/ in has taken the old plan away.
void roll_back(const fs::path& node_data, const fs::path& staging) {
  const fs::path old = staging / "old";
  if (fs::exists(node_data / kNodes) || !fs::exists(old / kNodes)) {
    return;
  }
  std::vector<std::string> names = plan_folders_in(old);
  std::ranges::reverse(names);
  for (const std::string& name : names) {
    fs::remove_all(node_data / name);
    fs::rename(old / name, node_data / name);
  }
}

PlanSwap::PlanSwap(fs::path node_data)
    : node_data_(std::move(node_data)), staging_(node_data_ / kStaging) {
  try {
    fs::create_directories(node_data_);
    lock_.emplace(node_data_, concat("[package] another process is writing a plan into '",
                                     node_data_.string(), "'."));
    roll_back(node_data_, staging_);
    fs::remove_all(staging_);
    fs::create_directories(staging_ / "new");
    fs::create_directories(staging_ / "old");
  } catch (const fs::filesystem_error& error) {
    throw_io(
        concat("cannot write a plan into '", node_data_.string(), "': ", error.code().message()));
  }
}

PlanSwap::~PlanSwap() {
  std::error_code ignored;
  if (!keep_staging_) {
    fs::remove_all(staging_, ignored);
  }
}

void PlanSwap::commit() {
  std::size_t done = 0;
  std::vector<Rename> steps;
  try {
    sync_disk_of(folder());
    steps = replacement_steps(node_data_, staging_);
    for (; done < steps.size(); ++done) {
      run(steps[done]);
    }
  } catch (const fs::filesystem_error& error) {
    keep_staging_ = !undo(steps, done);
    sync_folder(node_data_);
    throw_io(
        concat("cannot put the plan into '", node_data_.string(), "': ", error.code().message()));
  }
}

}  // namespace ravnest::package
