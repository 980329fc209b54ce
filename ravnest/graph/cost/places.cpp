#include "ravnest/graph/cost/places.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "ravnest/graph/shapes.h"

namespace ravnest::graph {

namespace {

struct Node {
  Place own;    // without its children
  Place total;  // with them
  std::vector<std::size_t> children;
};

void add(Place& to, const Place& from) {
  for (const auto member : {&Place::ops, &Place::parameters, &Place::parameter_bytes,
                            &Place::activation_bytes, &Place::flops, &Place::backward_flops}) {
    to.*member = saturating_add(to.*member, from.*member);
  }
}

double memory_of(const Place& place) {
  // Weights are there with their gradients.
  return 2.0 * static_cast<double>(place.parameter_bytes) +
         static_cast<double>(place.activation_bytes);
}

double compute_of(const Place& place) {
  return static_cast<double>(place.flops) + static_cast<double>(place.backward_flops);
}

class Tree {
 public:
  explicit Tree(const std::vector<Place>& places) {
    find_node("");
    for (const Place& place : places) {
      add(nodes_[find_node(place.path)].own, place);
    }
    // A child comes after its parent, so sums flow upwards from the end.
    for (Node& node : nodes_) {
      node.total = node.own;
    }
    for (std::size_t index = nodes_.size(); index-- > 1;) {
      add(nodes_[parents_[index]].total, nodes_[index].total);
    }
  }

  std::vector<Place> divide(double largest_share) const {
    std::vector<Place> parts;
    split(0, largest_share, parts);
    for (Place& part : parts) {
      part.share = share(part);
    }
    std::ranges::stable_sort(parts, std::greater{}, &Place::share);
    return parts;
  }

 private:
  // Deep paths come from outside; past this depth they count as one part.
  static constexpr std::size_t kMaxDepth = 64;

  std::size_t find_node(std::string_view path) {
    std::size_t node = make(0, "");
    std::size_t depth = 0;
    for (std::size_t end = 0; end < path.size() && depth < kMaxDepth; ++depth) {
      end = std::min(path.find('.', end + (depth > 0 ? 1 : 0)), path.size());
      node = make(node, path.substr(0, end));
    }
    return node;
  }

  std::size_t make(std::size_t parent, std::string_view path) {
    const auto [found, is_new] = by_path_.try_emplace(std::string(path), nodes_.size());
    if (is_new) {
      Node node;
      node.own.path = path;
      nodes_.push_back(std::move(node));
      parents_.push_back(parent);
      if (found->second != parent) {
        nodes_[parent].children.push_back(found->second);
      }
    }
    return found->second;
  }

  double share(const Place& place) const {
    const Place& whole = nodes_[0].total;
    const auto ratio = [](double part, double all) { return all > 0 ? part / all : 0.0; };
    const double memory = ratio(memory_of(place), memory_of(whole));
    return compute_of(whole) > 0 ? (memory + ratio(compute_of(place), compute_of(whole))) / 2
                                 : memory;
  }

  void split(std::size_t index, double largest_share, std::vector<Place>& parts) const {
    const Node& node = nodes_[index];
    if (node.children.empty() || (index != 0 && share(node.total) <= largest_share)) {
      parts.push_back(node.total);
      return;
    }
    if (node.own.ops > 0 || node.own.parameters > 0) {
      parts.push_back(node.own);
    }
    for (const std::size_t child : node.children) {
      split(child, largest_share, parts);
    }
  }

  std::vector<Node> nodes_;  // the root first
  std::vector<std::size_t> parents_;
  std::map<std::string, std::size_t> by_path_;
};

}  // namespace

std::vector<Place> divide(const std::vector<Place>& places, double largest_share) {
  return Tree(places).divide(largest_share);
}

}  // namespace ravnest::graph
