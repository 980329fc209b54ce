#include "fuse.h"

#include "ravnest/fuse/fuse.h"

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
}

}  // namespace ravnest::python
