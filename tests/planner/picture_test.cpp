#include "ravnest/planner/report/picture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <vector>

#include "ravnest/planner/report/svg.h"
#include "tests/planner/plans.h"

namespace ravnest::planner {
namespace {

using Attributes = std::map<std::string, std::string>;

struct Element {
  std::string name;
  Attributes attributes;
  std::string text;
};

// Reads the XML that we write: elements, attributes, text, the five escapes. Fails the test
// on anything that is not well formed.
std::vector<Element> elements_of(const std::string& svg) {
  static const std::regex kTag(R"x(<(/?)([a-z]+)((?: [a-zA-Z0-9-]+="[^"<]*")*)(/?)>)x");
  static const std::regex kAttribute(R"x( ([a-zA-Z0-9-]+)="([^"]*)")x");
  static const std::regex kPlain(R"x((?:[^&<>\x00-\x09\x0b-\x1f]|&(?:amp|lt|gt|quot|#39);)*)x");
  std::vector<Element> elements;
  std::vector<std::string> open;
  std::string::const_iterator at = svg.begin();
  for (std::smatch match; std::regex_search(at, svg.end(), match, kTag); at = match[0].second) {
    const std::string between(at, match[0].first);
    EXPECT_TRUE(std::regex_match(between, kPlain)) << between;
    if (match[1].length() > 0) {
      EXPECT_FALSE(open.empty());
      EXPECT_EQ(open.empty() ? "" : open.back(), match[2].str());
      elements.push_back({.name = "/" + match[2].str(), .text = between});
      if (!open.empty()) {
        open.pop_back();
      }
      continue;
    }
    Element element{.name = match[2]};
    const std::string list = match[3];
    for (std::sregex_iterator it(list.begin(), list.end(), kAttribute), end; it != end; ++it) {
      EXPECT_TRUE(std::regex_match((*it)[2].str(), kPlain)) << (*it)[2];
      EXPECT_TRUE(element.attributes.emplace((*it)[1], (*it)[2]).second);
    }
    if (match[4].length() == 0) {
      open.push_back(element.name);
    }
    elements.push_back(std::move(element));
  }
  EXPECT_TRUE(open.empty());
  EXPECT_EQ(std::string(at, svg.end()), "\n");
  return elements;
}

// The texts that are shown, in order.
std::vector<std::string> texts_of(const std::string& svg) {
  std::vector<std::string> texts;
  for (const Element& element : elements_of(svg)) {
    if (element.name == "/text") {
      texts.push_back(element.text);
    }
  }
  return texts;
}

std::ptrdiff_t count_of(const std::string& svg, const std::string& text) {
  const auto texts = texts_of(svg);
  return std::ranges::count(texts, text);
}

double number_of(const Attributes& attributes, const std::string& name) {
  const auto found = attributes.find(name);
  return found == attributes.end() ? 0.0 : std::stod(found->second);
}

// Many clusters of many stages, and a ring for each stage.
Plan make_many(std::size_t clusters, std::size_t stages) {
  Plan plan;
  plan.batch = 8;
  plan.total_flops = 1'000'000;
  for (std::size_t c = 0; c < clusters; ++c) {
    Cluster& cluster = plan.clusters.emplace_back();
    for (std::size_t k = 0; k < stages; ++k) {
      cluster.stages.push_back(make_stage(plan.pool.size(), {"p" + std::to_string(k)}));
      plan.pool.push_back(
          make_machine(static_cast<std::int64_t>(plan.pool.size()), k % 2 == 0 ? 2 : 7));
    }
    close_cluster(cluster);
  }
  for (std::size_t k = 0; k < stages; ++k) {
    plan.rings.push_back({.id = k,
                          .parameters = {"p" + std::to_string(k)},
                          .nbytes = 1000,
                          .holders = std::vector<std::size_t>(clusters, k)});
  }
  return plan;
}

TEST(PlanSvg, ShowsMachinesRolesMemoryAndTraffic) {
  const std::string svg = plan_svg(make_walkthrough());
  for (const char* text :
       {"Plan: 1 cluster, 3 machines", "Cluster 0", "0.0.0.0:8080", "0.0.0.0:8082", "root", "stem",
        "leaf", "node 2", "1.96 GB of 8.00 GB", "24.4 %", "33.3 %", "64.0 kB", "32.0 kB",
        "10.0 Mbps", "181 samples/s", "conv2d_1.weight", "bn_3.weight",
        "The model takes 5.00 GB to train with adam, batch 64. Expected: 181 samples/s."}) {
    EXPECT_GE(count_of(svg, text), 1) << text;
  }
}

TEST(PlanSvg, StandsAlone) {
  const std::string svg = plan_svg(make_two_clusters());
  for (const Element& element : elements_of(svg)) {
    static const std::set<std::string> kKnown = {"svg",  "title",   "g",   "rect",
                                                 "line", "polygon", "text"};
    EXPECT_TRUE(element.name.starts_with("/") || kKnown.contains(element.name)) << element.name;
    for (const auto& [name, value] : element.attributes) {
      EXPECT_FALSE(name.starts_with("on") || name == "href" || name == "style") << name;
      EXPECT_EQ(value.find("url("), std::string::npos);
    }
  }
}

TEST(PlanSvg, EscapesWhatComesFromOutside) {
  Plan plan = make_walkthrough();
  plan.pool[0].address = "<script>alert('1')</script>&\"";
  plan.rings[0].parameters[0] = "a<b&c>\"d\"'e'";
  plan.clusters[0].stages[1].parameters[0] = "]]><!--";
  plan.clusters[0].stages[1].copies = {"\x1b[31m\x01 \xff\xc0\x80 \xed\xa0\x80 \xf4\x90\x80\x80"};
  plan.pool.push_back(make_machine(7));
  plan.spares = {{.machine = 3, .reason = "<b>too small</b>\n"}};
  const std::string svg = plan_svg(plan);
  EXPECT_EQ(count_of(svg, "a&lt;b&amp;c&gt;&quot;d&quot;&#39;e&#39;"), 1);
  EXPECT_EQ(svg.find("<script"), std::string::npos);
  EXPECT_EQ(svg.find("<b>"), std::string::npos);
  EXPECT_EQ(svg.find("<!--"), std::string::npos);
}

TEST(PlanSvg, KeepsEverythingInsideThePicture) {
  Plan odd = make_walkthrough();
  odd.clusters[0].stages[0].memory.weights = 90'000'000'000;  // more than there is
  odd.clusters[0].stages[1].memory = {};
  odd.pool[2].ram_gb = 1e-6;
  for (const Plan& plan : {make_walkthrough(), make_two_clusters(), make_unequal_clusters(),
                           make_many(1, 1), make_many(20, 3), make_many(2, 40), odd}) {
    const auto elements = elements_of(plan_svg(plan));
    const double width = number_of(elements[0].attributes, "width");
    const double height = number_of(elements[0].attributes, "height");
    for (const Element& element : elements) {
      if (element.name == "rect" || element.name == "text") {
        const double x = number_of(element.attributes, "x");
        const double y = number_of(element.attributes, "y");
        EXPECT_GE(x, 0);
        EXPECT_GE(y, 0);
        EXPECT_GE(number_of(element.attributes, "height"), 0);
        EXPECT_LE(x + number_of(element.attributes, "width"), width);
        EXPECT_LE(y + number_of(element.attributes, "height"), height);
      }
    }
  }
}

TEST(PlanSvg, FillsABlockByTheShareOfRamThatIsNeeded) {
  Plan plan = make_walkthrough();
  plan.pool[1].ram_gb = 4;
  plan.clusters[0].stages[1].memory = {.weights = 1'000'000'000, .versions = 1'000'000'000};
  // Of the parts' colours: the height in the second block, whose outline is half as high.
  double outline = 0;
  double filled = 0;
  for (const Element& element : elements_of(plan_svg(plan))) {
    const auto at = [&](const char* name) { return number_of(element.attributes, name); };
    const bool in_second = element.name == "rect" && at("x") > 460 && at("x") < 640;
    if (in_second && element.attributes.contains("stroke") && at("height") == 46) {
      outline = at("height");
    }
    const std::string fill = in_second ? element.attributes.at("fill") : "";
    if ((fill == "#1d3f72" || fill == "#2f5f9e") && at("width") > 100) {
      filled += at("height");
    }
  }
  EXPECT_EQ(outline, 46);
  EXPECT_NEAR(filled, 23, 0.2);
}

TEST(PlanSvg, MarksWhatEachClusterWaitsFor) {
  Plan plan = make_two_clusters();
  EXPECT_EQ(count_of(plan_svg(plan), "bottleneck"), 2);
  Plan far = make_many(1, 20);
  far.clusters[0].stages[18].backward_seconds = 9;
  EXPECT_EQ(count_of(plan_svg(far), "bottleneck"), 1);
}

TEST(PlanSvg, GivesARingOneColourInAllClusters) {
  std::map<std::string, int> bands;
  for (const Element& element : elements_of(plan_svg(make_two_clusters()))) {
    if (element.name == "rect" && element.attributes.contains("height") &&
        element.attributes.at("height") == "16") {
      ++bands[element.attributes.at("fill")];
    }
  }
  // A colour for each of three rings, in two clusters and the legend.
  EXPECT_EQ(bands.size(), 3U);
  for (const auto& [colour, count] : bands) {
    EXPECT_EQ(count, 3) << colour;
  }
}

TEST(PlanSvg, CountsWhatItDoesNotDraw) {
  const std::string svg = plan_svg(make_many(15, 18));
  EXPECT_EQ(count_of(svg, "and 3 more clusters"), 1);
  EXPECT_EQ(count_of(svg, "and 2 more"), 12);
  EXPECT_EQ(count_of(svg, "Cluster 11"), 1);
  EXPECT_EQ(count_of(svg, "Cluster 12"), 0);
  EXPECT_EQ(count_of(svg, "node 0"), 1);
  const std::string many_rings = plan_svg(make_many(1, 60));
  EXPECT_EQ(count_of(many_rings, "and 12 more rings"), 1);
}

TEST(PlanSvg, ShortensLongNamesInTheMiddle) {
  Plan plan = make_walkthrough();
  plan.pool[0].address = "provider-0.a-very-long-name.example.org:65535";
  plan.rings[0].parameters[0] = std::string(100, 'a') + ".weight";
  const std::string svg = plan_svg(plan);
  EXPECT_EQ(count_of(svg, "provider-0.a-\u2026ple.org:65535") +
                count_of(svg, "provider-0.a-\u2026mple.org:65535"),
            1);
  for (const std::string& text : texts_of(svg)) {
    EXPECT_LT(text.size(), 110U) << text;
  }
}

TEST(PlanSvg, SaysWhatIsGuessed) {
  Plan plan = make_walkthrough();
  plan.speeds_known = false;
  EXPECT_EQ(count_of(plan_svg(plan),
                     "No machine gave its speed: RAM stands in for it, and times are guesses."),
            1);
  plan.costs_known = false;
  plan.batch.reset();
  plan.total_flops = 0;
  EXPECT_EQ(count_of(plan_svg(plan), "Shapes were not captured: only parameters are counted."), 1);
  EXPECT_EQ(count_of(plan_svg(plan), "not known"), 3);
}

TEST(DistinctColour, AreDistinctAndDarkEnoughForWhite) {
  std::set<std::string> seen;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::string colour = distinct_colour(i);
    EXPECT_TRUE(std::regex_match(colour, std::regex("#[0-9a-f]{6}"))) << colour;
    EXPECT_TRUE(seen.insert(colour).second) << colour;
    const int green = std::stoi(colour.substr(3, 2), nullptr, 16);
    EXPECT_LT(green, 0xa0) << colour;
  }
}

TEST(XmlText, ReplacesWhatXmlDoesNotTake) {
  EXPECT_EQ(xml_text("\u00f6 \u4e2d \U0001f600 \uffed"), "\u00f6 \u4e2d \U0001f600 \uffed");
  for (const char* text : {"\x01", "\xff", "\xed\xa0\x80", "\xe0\x80\x80", "\xf0\x80\x80\x80",
                           "\xf4\x90\x80\x80", "\xef\xbf\xbe", "\xef\xbf\xbf"}) {
    EXPECT_EQ(xml_text(text), "?");
  }
}

}  // namespace
}  // namespace ravnest::planner
