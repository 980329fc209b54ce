#include "ravnest/plot/plot.h"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <iterator>

#include "ravnest/base/error.h"
#include "tests/base/temporary_folder.h"
#include "tests/plot/numbers.h"

namespace ravnest::plot {
namespace {

namespace fs = std::filesystem;

std::string error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A PNG's first chunk has its size, as numbers of four bytes.
std::pair<unsigned, unsigned> png_size(const std::string& bytes) {
  EXPECT_TRUE(bytes.starts_with("\x89PNG\r\n\x1a\n"));
  const auto number = [&](std::size_t at) {
    unsigned value = 0;
    for (const char byte : bytes.substr(at, 4)) {
      value = value << 8U | static_cast<unsigned char>(byte);
    }
    return value;
  };
  return {number(16), number(20)};
}

class Plot : public testing::Test {
 protected:
  fs::path file(const std::string& name) const { return folder_.path() / name; }

  std::vector<double> read(const std::string& text) const {
    std::ofstream(file("numbers.txt"), std::ios::binary) << text;
    return read_numbers(file("numbers.txt"));
  }

  std::string draw(const RunCurves& curves, const std::string& name = "run.png") const {
    plot_run(curves, file(name));
    return content_of(file(name));
  }

  TemporaryFolder folder_;
};

TEST_F(Plot, ReadsANumberALine) {
  EXPECT_EQ(read("2.5\n 1e-3 \r\n\n-4\n"), (std::vector<double>{2.5, 0.001, -4}));
  const std::vector<double> odd = read("nan\ninf\n-inf");
  ASSERT_EQ(odd.size(), 3U);
  EXPECT_TRUE(odd[0] != odd[0]);
  EXPECT_EQ(odd[1], kInf);
}

TEST_F(Plot, NamesTheLineThatIsNoNumber) {
  const std::string start = concat("[plot] '", file("numbers.txt").string(), "'");
  EXPECT_EQ(error_of([&] { read("1\n\n0.5x\n"); }),
            start + ": expected a number in line 3, got '0.5x'.");
  EXPECT_EQ(error_of([&] { read("\x1b[31m\n"); }),
            start + ": expected a number in line 1, got '?[31m'.");
  EXPECT_EQ(error_of([&] { read("1 2\n"); }), start + ": expected a number in line 1, got '1 2'.");
  EXPECT_EQ(error_of([&] { read(""); }), start + " has no numbers: expected one a line.");
  EXPECT_EQ(error_of([&] { read(" \n\n"); }), start + " has no numbers: expected one a line.");
  EXPECT_THROW(read_numbers(file("missing.txt")), Error);
}

TEST_F(Plot, APanelForEachCurve) {
  const std::vector<double> losses(500, 0.5);
  const std::vector<double> accuracies{50, 70, 90};
  const auto both = png_size(draw({.losses = losses, .accuracies = accuracies}));
  const auto one = png_size(draw({.losses = losses}));
  EXPECT_EQ(both, (std::pair{1920U, 1528U}));
  EXPECT_EQ(one, (std::pair{1920U, 952U}));
  EXPECT_EQ(png_size(draw({.accuracies = accuracies})), one);
}

TEST_F(Plot, AnSvgStandsAlone) {
  const std::string svg = draw({.losses = {3, 2, 1}}, "run.svg");
  EXPECT_NE(svg.find("<svg"), std::string::npos);
  EXPECT_NE(svg.find("viewBox=\"0 0 960 476\""), std::string::npos);
  EXPECT_EQ(svg.find("font-family"), std::string::npos);
  EXPECT_EQ(svg.find("href=\"http"), std::string::npos);
}

TEST_F(Plot, DrawsTheCurveAndItsGaps) {
  const std::string falling = draw({.losses = {3, 2, 1, 1}});
  EXPECT_NE(falling, draw({.losses = {3, 2, 1, 2}}));
  EXPECT_NE(falling, draw({.losses = {3, kNan, 1, 1}}));
  EXPECT_NE(falling, draw({.losses = {3, 2, 1, 1}, .title = "Another run"}));
  EXPECT_EQ(falling, draw({.losses = {3, 2, 1, 1}}));
}

TEST_F(Plot, DrawsWhateverTheNumbersAre) {
  const std::vector<std::vector<double>> odd{
      {0},
      {kNan, kInf},
      {1e300, -1e300},
      {1e-300, 2e-300},
      std::vector<double>(30, kNan),
      std::vector<double>(30, 0.0),
      std::vector<double>(300, 1e16),
      {1, 1e308, kNan, 1},
  };
  for (const std::vector<double>& losses : odd) {
    EXPECT_EQ(png_size(draw({.losses = losses})).first, 1920U);
  }
  for (const std::vector<double>& accuracies : {std::vector<double>{100}, {0, 0}, {kNan}}) {
    EXPECT_EQ(png_size(draw({.accuracies = accuracies})).first, 1920U);
  }
}

TEST_F(Plot, AMillionLossesGiveASmallPicture) {
  std::vector<double> losses(1'000'000);
  for (std::size_t i = 0; i < losses.size(); ++i) {
    losses[i] = static_cast<double>((i * 7919) % 1000);
  }
  EXPECT_LT(draw({.losses = losses}, "run.svg").size(), 300'000U);
}

TEST_F(Plot, RefusesWhatItCannotDraw) {
  EXPECT_NE(error_of([&] { draw({.losses = {1}}, "run.jpg"); }).find("ends with .png or .svg"),
            std::string::npos);
  EXPECT_NE(error_of([&] { draw({}); }).find("got neither"), std::string::npos);
  EXPECT_EQ(error_of([&] { draw({.accuracies = {50, 101}}); }),
            "[plot] expected accuracies from 0 to 100 percent, got 101 as number 2.");
  EXPECT_TRUE(fs::is_empty(folder_.path()));
  EXPECT_THROW(draw({.losses = {1}}, "no/folder/run.png"), Error);
}

}  // namespace
}  // namespace ravnest::plot
