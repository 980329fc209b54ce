#include "provider_options.h"

#include <torch/csrc/jit/python/pybind_utils.h>

#include "python_rule.h"
#include "ravnest/engine/bound_program.h"

namespace ravnest::python {

namespace {

using engine::BoundProgram;
using provider::Milliseconds;
using provider::PassHeader;
using provider::PassResult;
using provider::ProviderCallbacks;
using provider::ProviderOptions;

BoundProgram copy_of(const BoundProgram& program) {
  engine::WeightMap weights;
  for (const auto& [name, tensor] : program.weights()) {
    weights.emplace(name, tensor.detach().clone().set_requires_grad(tensor.requires_grad()));
  }
  return {program.program(), std::move(weights)};
}

provider::Schedule to_schedule(const std::string& name) {
  using provider::Schedule;
  return named<Schedule>("schedule", name,
                         {{"async", Schedule::kAsync}, {"sync", Schedule::kSync}});
}

engine::PassMemory to_memory(const std::string& name) {
  using engine::PassMemory;
  return named<PassMemory>("memory", name,
                           {{"stash", PassMemory::kStash}, {"recompute", PassMemory::kRecompute}});
}

// (pass, epoch, samples, part), and what the stage gave.
py::object ask(const py::object& callback, const PassHeader& header,
               const std::vector<c10::IValue>& outputs) {
  return callback(py::make_tuple(header.pass, header.epoch, header.samples, header.part),
                  to_python_list(outputs));
}

provider::LossAndGradients to_graded(const py::object& answer) {
  const auto pair = answer.cast<py::tuple>();
  provider::LossAndGradients graded{.loss = pair[0].cast<double>(), .gradients = {}};
  for (const py::handle gradient : pair[1]) {
    graded.gradients.push_back(gradient.is_none() ? at::Tensor() : gradient.cast<at::Tensor>());
  }
  return graded;
}

PassResult to_result(const py::object& answer) {
  const auto [loss, correct, counted] =
      answer.cast<std::tuple<double, std::int64_t, std::int64_t>>();
  return {.loss = loss, .correct = correct, .counted = counted};
}

provider::AveragingWords to_averaging(Given& given) {
  provider::AveragingWords words;
  given.take("reduce_factor", words.every);
  given.take("averaging", words.averaging);
  given.take("average_optim", words.with_rule);
  given.take("averaging_codec", words.codec);
  given.take("robust", words.robust);
  given.take("reduce", words.reduce);
  given.take("outer", words.outer);
  given.take("outer_lr", words.outer_rate);
  given.take("outer_momentum", words.outer_momentum);
  given.take("streams", words.streams);
  given.take("patience", words.patience);
  return words;
}

}  // namespace

py::list to_python_list(std::vector<c10::IValue> values) {
  py::list converted;
  for (c10::IValue& value : values) {
    converted.append(torch::jit::toPyObject(std::move(value)));
  }
  return converted;
}

ProviderCallbacks to_callbacks(Given& given) {
  ProviderCallbacks callbacks;
  if (const Shared criterion = given.take_shared("criterion")) {
    callbacks.criterion = [criterion](const PassHeader& header, const auto& outputs) {
      return call_python([&] { return to_graded(ask(*criterion, header, outputs)); });
    };
  }
  if (const Shared score = given.take_shared("score")) {
    callbacks.score = [score](const PassHeader& header, const auto& outputs) {
      return call_python([&] { return to_result(ask(*score, header, outputs)); });
    };
  }
  if (const Shared on_notice = given.take_shared("on_notice")) {
    callbacks.on_notice = [on_notice](const transport::Notice& notice) {
      call_python([&] { (*on_notice)(notice); });
    };
  }
  if (const Shared on_averaged = given.take_shared("on_averaged")) {
    callbacks.on_averaged = [on_averaged](const provider::AveragingNews& news) {
      const double seconds = std::chrono::duration<double>(news.duration).count();
      call_python([&] { (*on_averaged)(news.round, seconds, news.nbytes, news.members); });
    };
  }
  if (const Shared on_saved = given.take_shared("on_saved")) {
    callbacks.on_saved = [on_saved](const std::filesystem::path& file, std::int64_t passes) {
      call_python([&] { (*on_saved)(file.string(), passes); });
    };
  }
  if (const Shared on_checkpoint = given.take_shared("on_checkpoint")) {
    callbacks.on_checkpoint = [on_checkpoint](const provider::KeptCheckpoint& kept) {
      call_python([&] { (*on_checkpoint)(kept.file.string(), kept.passes); });
    };
  }
  return callbacks;
}

ProviderOptions to_provider_options(Given& given) {
  ProviderOptions options;
  std::string path = "node_data";
  given.take("node_data", path);
  options.node_data = path;
  given.take("name", options.name);
  if (const py::object program = given.take("program"); !program.is_none()) {
    const auto core = program.cast<std::shared_ptr<BoundProgram>>();
    options.make_program = [core] { return copy_of(*core); };
  }
  if (const Shared make = given.take_shared("make_rule")) {
    options.make_rule = [make] { return call_python([&] { return make_rule((*make)()); }); };
  }
  std::string name = "async";
  given.take("schedule", name);
  options.schedule = to_schedule(name);
  given.take("memory", name = "stash");
  options.memory = to_memory(name);
  given.take("device", name = "cpu");
  options.device = c10::Device(name);
  given.take("update_frequency", options.update_frequency);
  given.take("compensation", options.compensation);
  given.take("predict_weights", options.predict_weights);
  given.take("codec", options.codec);
  options.averaging = provider::to_options(to_averaging(given));
  given.take("checkpoint_every", options.checkpoint_every);
  given.take("resume", options.resume);
  given.take("save", options.save);
  given.take("trusted_network", options.is_network_trusted);
  if (const py::object threads = given.take("threads"); !threads.is_none()) {
    options.threads = threads.cast<int>();
  }
  given.take("loss_file", path = "");
  options.loss_file = path;
  given.take("accuracy_file", path = "");
  options.accuracy_file = path;
  std::int64_t milliseconds = options.return_within.count();
  given.take("return_within", milliseconds);
  options.return_within = Milliseconds(milliseconds);
  return options;
}

}  // namespace ravnest::python
