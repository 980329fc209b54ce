// Trains the digits CNN on three providers, with no Python anywhere.
//
//   train_digits examples/cpp/digits.txt digits.csv.gz [--epochs 30]
//
// The model is a graph in its text form, the images are the file that scikit-learn ships. The model
// gets random weights, is planned for three machines and cut; each stage is trained by a Provider
// of its own, which talks to the others over gRPC. At the end their weights are fused into one
// state dict, and the whole model is run with them.

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <arpa/inet.h>
#include <libdeflate.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <sstream>
#include <stdexcept>

#include "ravnest/fuse/fuse.h"
#include "ravnest/graph/text/text.h"
#include "ravnest/package/package.h"
#include "ravnest/planner/plan.h"
#include "ravnest/provider/provider.h"

namespace {

using namespace ravnest;
using provider::Milliseconds;

constexpr std::int64_t kBatch = 64;
constexpr std::size_t kProviders = 3;
constexpr Milliseconds kPatience{60'000};
constexpr double kLeastAccuracy = 90.0;  // after a dozen epochs or more

struct Digits {
  at::Tensor images;  // [n, 1, 8, 8]
  at::Tensor labels;  // [n]
};

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw std::runtime_error("cannot read " + path.string());
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string unzip(const std::string& packed) {
  const std::unique_ptr<libdeflate_decompressor, void (*)(libdeflate_decompressor*)> with(
      libdeflate_alloc_decompressor(), libdeflate_free_decompressor);
  std::string text(std::size_t{4} << 20, '\0');
  std::size_t size = 0;
  if (libdeflate_gzip_decompress(with.get(), packed.data(), packed.size(), text.data(), text.size(),
                                 &size) != LIBDEFLATE_SUCCESS) {
    throw std::runtime_error("expected a .csv.gz of the digits");
  }
  text.resize(size);
  return text;
}

// A line has 64 shades from 0 to 16, and the digit.
Digits read_digits(const std::filesystem::path& path) {
  std::istringstream lines(unzip(read_file(path)));
  std::vector<float> pixels;
  std::vector<std::int64_t> labels;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream numbers(line);
    std::vector<float> row;
    for (std::string number; std::getline(numbers, number, ',');) {
      row.push_back(std::stof(number));
    }
    if (row.size() != 65) {
      throw std::runtime_error("expected 65 numbers in a line of the digits");
    }
    labels.push_back(std::lround(row.back()));
    pixels.insert(pixels.end(), row.begin(), row.end() - 1);
  }
  const auto count = static_cast<std::int64_t>(labels.size());
  return {.images = at::tensor(pixels).reshape({count, 1, 8, 8}), .labels = at::tensor(labels)};
}

Digits choose(const Digits& digits, const at::Tensor& places) {
  return {.images = digits.images.index_select(0, places),
          .labels = digits.labels.index_select(0, places)};
}

// As layers of PyTorch begin: uniform, by the inputs of a unit; norms as the identity.
at::Tensor initial_value(const graph::Weight& weight) {
  std::vector<std::int64_t> sizes;
  for (const graph::Expr& size : weight.type.sizes) {
    sizes.push_back(size.constant());
  }
  if (weight.type.dtype == graph::DType::kInt64) {
    return at::zeros(sizes, at::kLong);
  }
  const bool is_norm = weight.name.starts_with("bn_");
  if (is_norm) {
    const bool is_one = weight.name.ends_with("weight") || weight.name.ends_with("running_var");
    return is_one ? at::ones(sizes) : at::zeros(sizes);
  }
  const auto values = at::empty(sizes);
  const std::int64_t inputs = sizes.size() > 1 ? values[0].numel() : sizes[0];
  return at::empty(sizes).uniform_(-1.0, 1.0) / std::sqrt(static_cast<double>(inputs));
}

graph::Program make_model(const std::filesystem::path& path) {
  const graph::Program program = graph::parse_text(read_file(path));
  engine::WeightMap weights;
  for (const graph::Weight& weight : program.weights) {
    const bool is_trained = weight.kind == graph::InputKind::kParameter;
    weights.emplace(weight.name, initial_value(weight).set_requires_grad(is_trained));
  }
  return engine::BoundProgram(program, std::move(weights)).snapshot();
}

int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (bind(socket, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw std::runtime_error("no free port");
  }
  close(socket);
  return ntohs(address.sin_port);
}

void write_plan(const graph::Program& program, const std::filesystem::path& folder) {
  std::vector<planner::Machine> pool(kProviders);
  for (std::size_t i = 0; i < pool.size(); ++i) {
    pool[i].id = static_cast<std::int64_t>(i);
    pool[i].address = "127.0.0.1:" + std::to_string(free_port());
    pool[i].ram_gb = 8;
    pool[i].mbps = 1000;
  }
  planner::PlanOptions options;
  options.clusters = std::size_t{1};
  package::write_plan(program, planner::make_plan(program, pool, options), folder);
}

std::vector<std::unique_ptr<provider::Provider>> start_providers(
    const std::filesystem::path& folder) {
  std::vector<std::unique_ptr<provider::Provider>> running;
  for (const package::NodeConfig& node : package::read_cluster(folder, 0)) {
    provider::ProviderOptions options;
    options.name = "node_" + std::to_string(node.id);
    options.node_data = folder;
    options.save = true;
    options.make_rule = [] { return provider::make_native_rule({.optimizer = "adam"}); };
    running.push_back(std::make_unique<provider::Provider>(options, provider::ProviderCallbacks{}));
    running.back()->start();
  }
  return running;
}

void train(provider::Provider& root, const Digits& digits, int epochs) {
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (const at::Tensor& places : at::randperm(digits.labels.size(0)).split(kBatch)) {
      const Digits batch = choose(digits, places);
      if (!root.submit({.purpose = provider::Purpose::kTrain,
                        .epoch = epoch,
                        .samples = batch.labels.size(0)},
                       {batch.images, batch.labels}, kPatience)) {
        throw std::runtime_error("the providers do not take a batch");
      }
    }
    std::cerr << "\repoch " << epoch + 1 << "/" << epochs << "  loss " << root.status().loss
              << "    ";
  }
  std::cerr << "\n";
  root.end_training();
}

// Of the whole model, with the weights that the providers' were fused into.
double accuracy(const graph::Program& program, const std::filesystem::path& folder,
                const Digits& digits) {
  const fuse::StateDict state = fuse::fuse_cluster(folder, 0);
  engine::BoundProgram model(program);
  const at::NoGradGuard no_grad;
  for (const fuse::StateTensor& each : state.tensors) {
    at::Tensor weight = model.weight(each.name).detach();
    std::memcpy(weight.mutable_data_ptr(), each.tensor.data.data(), each.tensor.data.size());
  }
  const auto outputs = model.run({digits.images, digits.labels}, engine::Mode::kEval);
  return outputs.at(1)
             .toTensor()
             .argmax(1)
             .eq(digits.labels)
             .to(at::kDouble)
             .mean()
             .item<double>() *
         100.0;
}

int run(const std::filesystem::path& model, const std::filesystem::path& data, int epochs) {
  at::manual_seed(1);
  const Digits digits = read_digits(data);
  const at::Tensor order = at::randperm(digits.labels.size(0));
  const std::int64_t held_out = digits.labels.size(0) * 2 / 5;
  const Digits seen = choose(digits, order.slice(0, held_out));
  const Digits unseen = choose(digits, order.slice(0, 0, held_out));

  const graph::Program program = make_model(model);
  const auto folder =
      std::filesystem::temp_directory_path() / ("train-digits-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  write_plan(program, folder);
  auto providers = start_providers(folder);
  train(*providers.front(), seen, epochs);
  for (const auto& each : providers) {
    each->wait_for_training(0, kPatience);
  }
  for (const auto& each : providers) {
    each->close(kPatience);
  }
  const double reached = accuracy(program, folder, unseen);
  std::filesystem::remove_all(folder);
  std::cout << kProviders << " providers, " << epochs << " epochs: " << reached
            << " % of unseen digits are right\n";
  return epochs < 12 || reached >= kLeastAccuracy ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    if (count != 3 && !(count == 5 && std::strcmp(arguments[3], "--epochs") == 0)) {
      std::cerr << "usage: train_digits MODEL.txt DIGITS.csv.gz [--epochs N]\n";
      return 2;
    }
    return run(arguments[1], arguments[2], count == 5 ? std::stoi(arguments[4]) : 30);
  } catch (const std::exception& error) {
    std::cerr << "train_digits: " << error.what() << "\n";
    return 1;
  }
}
