#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ravnest/engine/bound_program.h"

namespace ravnest::engine {

// The weights as some passes see them. Parameters are leaves of their own, so that
// gradients land in their .grad; buffers are those of the stage, shared by all versions.
struct WeightVersion {
  std::uint64_t number = 0;
  WeightMap weights;
};

// The parameters of a stage over time. A pass holds the version that its forward used until
// its backward is done, and nothing changes under it: an update goes to the newest version,
// in place where no pass holds it, else to other memory. Owned and called by one thread.
class WeightVersions {
 public:
  // Takes the program's tensors as version 0; its parameters are not to be used otherwise.
  explicit WeightVersions(const BoundProgram& program);

  std::shared_ptr<const WeightVersion> current() const { return current_; }
  std::uint64_t number() const { return current_->number; }
  // Versions that are held, the newest among them.
  std::size_t live() const;

  // Writes the next version of these parameters: `write(value, result)` for each in turn,
  // where `result` is the value itself or memory of the same shape. The others stay.
  using Write =
      std::function<void(const std::string& name, const at::Tensor& value, at::Tensor& result)>;
  void update(const std::vector<std::string>& names, const Write& write);

 private:
  at::Tensor memory_for(const std::string& name, const at::Tensor& value);
  bool is_in_retired(const std::string& name, const at::Tensor& value) const;
  void reclaim();

  std::shared_ptr<WeightVersion> current_;
  // Older versions, until nobody holds them; their memory is then used again.
  std::vector<std::shared_ptr<WeightVersion>> retired_;
  std::unordered_map<std::string, std::vector<at::Tensor>> spare_;
};

}  // namespace ravnest::engine
