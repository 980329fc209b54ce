#include "ravnest/fuse/fuse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>

#include "ravnest/base/error.h"
#include "ravnest/graph/pt2/zip.h"
#include "ravnest/package/package.h"
#include "ravnest/package/trained.h"
#include "tests/base/temporary_folder.h"
#include "tests/package/plans.h"

namespace ravnest::fuse {
namespace {

namespace fs = std::filesystem;
using package::NodeConfig;
using package::StoredTensor;
using package::TrainedStage;

StoredTensor matrix(char fill, std::int64_t rows = 3) {
  const auto nbytes = static_cast<std::size_t>(rows * 12);
  return {.dtype = graph::DType::kFloat32,
          .sizes = {rows, 3},
          .data = Bytes::take(std::vector<std::byte>(nbytes, static_cast<std::byte>(fill)))};
}

char fill_of(const StateTensor& entry) {
  return std::to_integer<char>(entry.tensor.data.view().front());
}

std::string error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

// Two clusters of one plan; the first has three nodes, and the last of them a copy of the
// first's weight.
class FuseCluster : public testing::Test {
 protected:
  void SetUp() override {
    package::write_plan(package::make_program(), package::make_two_clusters(), node_data());
  }

  fs::path node_data() const { return folder_.path() / "node_data"; }
  fs::path out() const { return folder_.path() / "trained" / "state.pt"; }
  NodeConfig node(int id) const { return package::read_node(node_data(), concat("node_", id)); }

  void save(int id, std::map<std::string, StoredTensor> tensors, const std::string& run = "r1",
            std::uint64_t passes = 12) const {
    package::write_trained(node_data(), node(id),
                           {.run = run, .passes = passes, .tensors = std::move(tensors)});
  }

  void save_all() const {
    save(10, {{"in.weight", matrix('i')}, {"out.weight", matrix('i')}});
    save(11, {{"middle.weight", matrix('m')}, {"late.weight", matrix('l')}});
    save(12, {{"in.weight", matrix('?')}, {"out.weight", matrix('?')}});
  }

  std::string refusal(std::size_t cluster = 0) const {
    return error_of([&] { fuse_cluster(node_data(), cluster); });
  }

  TemporaryFolder folder_;
};

TEST_F(FuseCluster, GivesEveryNameInTheModelsOrder) {
  save_all();
  const StateDict state = fuse_cluster(node_data(), 0);
  std::string names;
  std::string fills;
  for (const StateTensor& entry : state.tensors) {
    names += entry.name + " ";
    fills += fill_of(entry);
  }
  EXPECT_EQ(names, "in.weight middle.weight late.weight out.weight ");
  EXPECT_EQ(fills, "imli");  // the copies in the last stage are not asked
  EXPECT_EQ(state.parameters, 27);
  EXPECT_EQ(state.nbytes, 108);
  EXPECT_EQ(state.metadata.at("passes"), "12");
}

TEST_F(FuseCluster, NeedsTheFirstOfTiedNamesAlone) {
  save(10, {{"in.weight", matrix('i')}});
  save(11, {{"middle.weight", matrix('m')}, {"late.weight", matrix('l')}});
  save(12, {});
  const StateDict state = fuse_cluster(node_data(), 0);
  EXPECT_EQ(fill_of(state.tensors.back()), 'i');
  EXPECT_EQ(state.tensors.back().tensor.data.data(), state.tensors.front().tensor.data.data());
}

TEST_F(FuseCluster, WritesOneStorageForTiedNames) {
  save_all();
  write_state_dict(fuse_cluster(node_data(), 0), out());
  const graph::ZipReader archive(Bytes::map_file(out()), "state.pt");
  EXPECT_TRUE(archive.contains("data/2"));
  EXPECT_FALSE(archive.contains("data/3"));
  const Bytes pickle = archive.read("data.pkl");
  EXPECT_EQ(std::to_integer<char>(pickle.view().back()), '.');
  const auto stored = package::read_safetensors(beside(out()));
  EXPECT_EQ(stored.tensors.size(), 4U);
  EXPECT_EQ(stored.metadata.at("run"), "r1");
  EXPECT_EQ(stored.metadata.at("format"), "pt");
}

TEST_F(FuseCluster, EqualWeightsGiveEqualFiles) {
  save_all();
  const StateDict state = fuse_cluster(node_data(), 0);
  write_state_dict(state, out());
  write_state_dict(state, folder_.path() / "again.pth");
  const Bytes first = Bytes::map_file(out());
  const Bytes again = Bytes::map_file(folder_.path() / "again.pth");
  EXPECT_TRUE(std::ranges::equal(first.view(), again.view()));
}

TEST_F(FuseCluster, SaysWhoHasNotSaved) {
  EXPECT_EQ(refusal(),
            concat("[package] node_10 at 0.0.0.0:8080 has not saved its weights: ", "expected '",
                   node_data().string(), "/cluster_0/0.0.0.0:8080/submod_0.safetensors'. ",
                   "Train with save=True first."));
  save_all();
  fs::remove(package::trained_file(node_data(), node(11)));
  EXPECT_NE(refusal().find("node_11 at 0.0.0.0:8081 has not saved"), std::string::npos);
}

TEST_F(FuseCluster, RefusesToMixRuns) {
  save_all();
  save(11, {{"middle.weight", matrix('m')}, {"late.weight", matrix('l')}}, "r2");
  EXPECT_EQ(refusal(),
            "[fuse] the weights of cluster 0 are of different runs: r1 (node_10 at "
            "0.0.0.0:8080) and r2 (node_11 at 0.0.0.0:8081). Fuse what one run has "
            "saved.");
  save(11, {{"middle.weight", matrix('m')}, {"late.weight", matrix('l')}}, "r1", 13);
  EXPECT_NE(refusal().find("different passes: 12 (node_10 at 0.0.0.0:8080) and 13 (node_11"),
            std::string::npos);
}

TEST_F(FuseCluster, RefusesWeightsThatWereNeverTrained) {
  save(10, {{"in.weight", matrix('i')}, {"out.weight", matrix('i')}}, "r1", 0);
  save(11, {{"middle.weight", matrix('m')}, {"late.weight", matrix('l')}}, "r1", 0);
  save(12, {}, "r1", 0);
  EXPECT_EQ(refusal(),
            "[fuse] expected weights that were trained, got those that node_10 at 0.0.0.0:8080 "
            "began with. Train with save=True first.");
}

TEST_F(FuseCluster, TakesTheStagesOfAnInterruptedRunAsTheyAre) {
  save_all();
  const auto save_interrupted = [&](int id, std::uint64_t passes) {
    package::TrainedStage trained = package::read_trained(node_data(), node(id));
    trained.passes = passes;
    trained.is_interrupted = true;
    package::write_trained(node_data(), node(id), trained);
  };
  save_interrupted(10, 10);
  save_interrupted(11, 13);
  EXPECT_NE(refusal().find("different passes: 10 (node_10 at 0.0.0.0:8080) and 12 (node_12"),
            std::string::npos)
      << "one was not interrupted";
  save_interrupted(12, 14);
  EXPECT_EQ(fuse_cluster(node_data(), 0).metadata.at("passes"), "10");
}

TEST_F(FuseCluster, RefusesWeightsOfAnotherPlan) {
  save_all();
  NodeConfig other = node(11);
  other.plan = "0123456789abcdef";
  package::write_trained(node_data(), other, {.run = "r1", .passes = 12, .tensors = {}});
  EXPECT_NE(refusal().find("are of plan 0123456789abcdef, and the node's plan is"),
            std::string::npos);
  fs::copy_file(package::trained_file(node_data(), node(12)),
                package::trained_file(node_data(), node(11)), fs::copy_options::overwrite_existing);
  EXPECT_NE(refusal().find("are of stage 2, and the node's stage is 1"), std::string::npos);
}

TEST_F(FuseCluster, RefusesFilesThatNoProviderWrote) {
  save_all();
  package::write_safetensors({}, package::trained_file(node_data(), node(10)));
  EXPECT_NE(refusal().find("expected the metadata 'cluster', which is missing"), std::string::npos);
  std::ofstream(package::trained_file(node_data(), node(10))) << "nothing";
  EXPECT_NE(refusal().find("is not a safetensors file"), std::string::npos);
}

TEST_F(FuseCluster, RefusesWeightsThatAreNotTheModels) {
  save_all();
  save(11, {{"middle.weight", matrix('m')}});
  EXPECT_EQ(refusal(), "[fuse] no provider has saved 'late.weight' of the model's state dict.");
  save(11, {{"middle.weight", matrix('m')}, {"late.weight", matrix('l', 4)}});
  EXPECT_EQ(refusal(),
            "[fuse] expected 'late.weight' to be float32 [3, 3] as in the model, got "
            "float32 [4, 3].");
}

TEST_F(FuseCluster, RefusesWhereThereIsNoSuchClusterOrPlan) {
  EXPECT_EQ(refusal(7), concat("[package] the plan in '", node_data().string(),
                               "' has no cluster 7: it has 2, counted from 0."));
  fs::remove(node_data() / "nodes/node_11.json");
  EXPECT_NE(refusal().find("expected the 3 stages of cluster 0"), std::string::npos);
  fs::remove_all(node_data() / "nodes");
  EXPECT_EQ(refusal(),
            concat("[package] no plan in '", node_data().string(), "': run clusterize first."));
}

TEST_F(FuseCluster, WritesOnlyWhatIsNamedAsOneDoes) {
  save_all();
  const StateDict state = fuse_cluster(node_data(), 0);
  EXPECT_NE(error_of([&] {
              write_state_dict(state, folder_.path() / "x.safetensors");
            }).find("ends with .pt or .pth"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(folder_.path() / "x.safetensors"));
  std::ofstream(folder_.path() / "file") << "in the way";
  EXPECT_THROW(write_state_dict(state, folder_.path() / "file/x.pt"), Error);
}

}  // namespace
}  // namespace ravnest::fuse
