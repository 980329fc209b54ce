#include "ravnest/graph/aliasing.h"

#include <gtest/gtest.h>

#include <string>

#include "ravnest/graph/text/text.h"

namespace ravnest::graph {
namespace {

// A graph with its aliasing, asked by the names of values.
class Subject {
 public:
  explicit Subject(const std::string& statements)
      : graph_(parse_text("graph\n" + statements + "\nreturn").graph), aliasing_(graph_) {}

  std::string root(const std::string& name) const { return name_of(aliasing_.root[id(name)]); }
  std::string same(const std::string& name) const { return name_of(aliasing_.same[id(name)]); }
  std::vector<std::string> changed(std::size_t op) const {
    std::vector<std::string> names;
    for (const ValueId root : aliasing_.changed[op]) {
      names.push_back(name_of(root));
    }
    return names;
  }
  std::optional<std::size_t> definer(const std::string& name) const {
    return aliasing_.definer[id(name)];
  }

 private:
  ValueId id(const std::string& name) const { return graph_.find_value(name).value(); }
  std::string name_of(ValueId id) const { return graph_.value(id).name; }

  Graph graph_;
  Aliasing aliasing_;
};

using Names = std::vector<std::string>;

TEST(Aliasing, OrdinaryOperatorsMakeNewMemory) {
  const Subject subject("input %x : ?\n%y : ? = aten.relu.default(self=%x)");
  EXPECT_EQ(subject.root("y"), "y");
  EXPECT_EQ(subject.same("y"), "y");
  EXPECT_EQ(subject.changed(0), Names{});
  EXPECT_EQ(subject.definer("y"), 0U);
  EXPECT_EQ(subject.definer("x"), std::nullopt);
}

TEST(Aliasing, ViewsShareMemoryButAreThemselves) {
  const Subject subject(R"(
    input %x : ?
    %a : ? = aten.view.default(self=%x, size=[4])
    %b : ? = aten.t.default(self=%a)
    [%c : ?, %d : ?] = aten.split.Tensor(self=%b, split_size=1)
    %e : ? = aten.reshape.default(self=%d, shape=[1]))");
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    EXPECT_EQ(subject.root(name), "x") << name;
    EXPECT_EQ(subject.same(name), name);
  }
}

TEST(Aliasing, InPlaceOperatorsReturnTheirArgument) {
  const Subject subject(R"(
    input %x : ?
    input %o : ?
    %a : ? = aten.view.default(self=%x, size=[4])
    %b : ? = aten.add_.Tensor(self=%a, other=%o)
    %c : ? = aten.relu_.default(self=%b))");
  EXPECT_EQ(subject.same("b"), "a");
  EXPECT_EQ(subject.same("c"), "a");
  EXPECT_EQ(subject.root("c"), "x");
  EXPECT_EQ(subject.changed(0), Names{});
  EXPECT_EQ(subject.changed(1), Names{"x"});
  EXPECT_EQ(subject.changed(2), Names{"x"});
}

TEST(Aliasing, BatchNormChangesItsStatistics) {
  const Subject subject(R"(
    input %x : ?
    buffer %m : ? = "m"
    buffer %v : ? = "v"
    %y : ? = aten.batch_norm.default(input=%x, weight=none, bias=none, running_mean=%m, running_var=%v, training=true, momentum=0.1, eps=1e-05, cudnn_enabled=true))");
  EXPECT_EQ(subject.changed(0), (Names{"m", "v"}));
  EXPECT_EQ(subject.root("y"), "y");
}

TEST(Aliasing, UnknownOperatorsShareNothing) {
  const Subject subject("input %x : ?\n%y : ? = mylib.thing.default(self=%x)");
  EXPECT_EQ(subject.root("y"), "y");
}

TEST(Aliasing, FindsTheFirstTensorBehindSizesAndInLists) {
  const Graph graph = parse_text(R"(graph
    input %n : int
    input %x : ?
    input %y : ?
    %a : ? = aten.cat.default(tensors=[%y, %x], dim=%n)
    %b : ? = aten.full.default(size=[%n], fill_value=1)
    return)")
                          .graph;
  EXPECT_EQ(first_tensor(graph, graph.ops[0]), graph.find_value("y"));
  EXPECT_EQ(first_tensor(graph, graph.ops[1]), std::nullopt);
}

TEST(Aliasing, KnowsWhichViewsMayCopy) {
  const auto shares = [](const char* target) {
    Op op;
    op.target = target;
    return always_shares(op);
  };
  for (const char* target : {"aten.view.default", "aten.transpose.int", "aten.split.Tensor",
                             "aten.slice.Tensor", "aten.detach.default", "aten.expand.default"}) {
    EXPECT_TRUE(shares(target)) << target;
  }
  for (const char* target :
       {"aten.reshape.default", "aten.contiguous.default", "aten.flatten.using_ints",
        "aten.to.dtype", "aten.dropout.default", "aten.type_as.default"}) {
    EXPECT_FALSE(shares(target)) << target;
  }
}

}  // namespace
}  // namespace ravnest::graph
