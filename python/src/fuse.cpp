#include "fuse.h"

#include <torch/csrc/jit/python/pybind_utils.h>

#include "ravnest/fuse/fuse.h"
#include "ravnest/package/safetensors.h"
#include "ravnest/provider/checkpoint.h"

namespace py = pybind11;

namespace ravnest::python {

void bind_fuse(py::module_& module) {
  module.def(
      "fuse_cluster",
      [](const std::string& node_data, std::size_t cluster, const std::string& out) {
        const py::gil_scoped_release release;
        fuse::write_state_dict(fuse::fuse_cluster(node_data, cluster), out);
      },
      py::arg("node_data"), py::arg("cluster"), py::arg("out"));
  module.def(
      "read_safetensors",
      [](const std::string& path) {
        std::map<std::string, at::Tensor> tensors;
        const py::gil_scoped_release release;
        for (const auto& [name, stored] : package::read_safetensors(path).tensors) {
          tensors.emplace(name, provider::from_stored(stored));
        }
        return tensors;
      },
      py::arg("path"));
}

}  // namespace ravnest::python
