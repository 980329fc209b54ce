"""TorchScript modules, from memory and from files, against eager PyTorch.

The same kernels run in the same order, so everything is compared bit for bit.
"""

import inspect
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from against_eager import SEED, check, leaves, structure
from torch import nn
from zoo import CNN_Net

import ravnest

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Block(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.norm2(self.conv2(self.relu(self.norm1(self.conv1(x)))))
        y += x
        return self.relu(y)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3)
        self.blocks = nn.Sequential(Block(4), Block(4))
        self.pool = nn.AdaptiveAvgPool2d((1, 1))
        self.head = nn.Linear(4, 5)

    def forward(self, x):
        return self.head(torch.flatten(self.pool(self.blocks(self.stem(x))), 1))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(6, 5, num_layers=2, batch_first=True, dropout=0.3)
        self.head = nn.Linear(5, 3)

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        return self.head(y[:, -1]), h, c


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x)


class BranchOnTraining(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.auxiliary = nn.Linear(4, 2)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        h = torch.relu(self.body(x))
        if self.training:
            return self.head(h) + 0.3 * self.auxiliary(h)
        return torch.softmax(self.head(h), dim=-1)


class Loops(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = torch.tanh(layer(x)) + i
        for k in range(3):
            x = x * 0.5 + k
        return x


class Structured(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        h = self.linear(x)
        return {"h": h, "pair": (h * 2, [h + 1, x.size(0) * 2])}


class SmallGpt(nn.Module):
    """Tied weights, a mask in a buffer, sizes computed from the input."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 6)
        self.position = nn.Parameter(torch.randn(9, 6) * 0.1)
        self.norm = nn.LayerNorm(6)
        self.qkv = nn.Linear(6, 18)
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(6, 11, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("mask", torch.ones(9, 9).tril() == 0, persistent=False)

    def forward(self, tokens):
        batch, length = tokens.size()
        x = self.embedding(tokens) + self.position[:length]
        q, k, v = self.qkv(self.norm(x)).split(6, dim=2)
        q = q.view(batch, length, 2, 3).transpose(1, 2)
        k = k.view(batch, length, 2, 3).transpose(1, 2)
        v = v.view(batch, length, 2, 3).transpose(1, 2)
        scores = (q @ k.transpose(-2, -1)) * 0.5
        scores = scores.masked_fill(self.mask[:length, :length], float("-inf"))
        y = self.dropout(scores.softmax(-1)) @ v
        return self.head(x + y.transpose(1, 2).contiguous().view(batch, length, 6))


class MovingAverage(nn.Module):
    """Changes buffers without gradient, in place and by assignment."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("steps", torch.zeros(1))

    def forward(self, x):
        h = self.linear(x)
        if self.training:
            with torch.no_grad():
                self.mean.mul_(0.9).add_(h.mean(0), alpha=0.1)
                scale = h * 2
            self.steps = self.steps + 1
        else:
            scale = h
        return h * self.mean.sigmoid() + scale + self.steps


class Writes(nn.Module):
    """Assignment into parts of a tensor, constants, and where in place of branches."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.factors = torch.tensor([1.0, 2.0, 3.0, 4.0])  # neither parameter nor buffer

    def forward(self, x):
        h = self.linear(x)
        z = torch.zeros_like(h)
        z[:, 0] = 1.0
        z[:, 1] = h[:, 2]
        a, b = torch.where(h > 0, h, z).chunk(2, 1)
        return torch.cat([part * 2 for part in [a, b]], 1) * self.factors + torch.tensor([0.5])


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(5, 4)

    def forward(self, x, y):
        return self.first(x) * self.second(y)


class Upsampler(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 3, padding=1)
        self.up = nn.Upsample(scale_factor=2.0)
        self.transposed = nn.ConvTranspose2d(2, 2, 2, stride=2)
        self.norm = nn.GroupNorm(1, 2)

    def forward(self, x):
        return torch.cat([self.up(self.conv(x)), self.norm(self.transposed(x))], dim=1)


def rows(*sizes):
    return lambda batch: (torch.randn(batch, *sizes),)


def tokens(batch):
    return (torch.randint(0, 11, (batch, 9)),)


def two_rows(batch):
    return torch.randn(batch, 3), torch.randn(batch, 5)


# name: how to build it, and its inputs for a batch
MODELS = {
    "cnn": (CNN_Net, rows(1, 8, 8)),
    "residual": (Residual, rows(3, 7, 7)),
    "branch": (BranchOnTraining, rows(4)),
    "loops": (Loops, rows(4)),
    "structured": (Structured, rows(4)),
    "gpt": (SmallGpt, tokens),
    "moving_average": (MovingAverage, rows(4)),
    "writes": (Writes, rows(4)),
    "two_inputs": (TwoInputs, two_rows),
}
# These ask for the number of dimensions of their input.
MODELS_THAT_NEED_EXAMPLES = {
    "lstm": (Recurrent, rows(5, 6)),
    "gru": (lambda: nn.Sequential(nn.GRU(6, 5, bidirectional=True)), rows(5, 6)),
    "attention": (Attention, rows(5, 8)),
    "encoder": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), rows(5, 8)),
    "upsampler": (Upsampler, rows(2, 4, 4)),
}


def build(name):
    torch.manual_seed(SEED)
    make, inputs = (MODELS | MODELS_THAT_NEED_EXAMPLES)[name]
    return make().train(), inputs


def squares(output):
    terms = [leaf.square().sum() for leaf in leaves(output) if isinstance(leaf, torch.Tensor)]
    return sum(terms[1:], start=terms[0])


@pytest.mark.parametrize("name", MODELS)
def test_scripted_without_examples(name):
    model, inputs = build(name)
    program = ravnest.capture(torch.jit.script(model))
    for batch in (3, 5):
        check(program, model, inputs(batch), loss=squares)


@pytest.mark.parametrize("name", MODELS | MODELS_THAT_NEED_EXAMPLES)
def test_scripted_with_examples(name):
    model, inputs = build(name)
    program = ravnest.capture(torch.jit.script(model), args=inputs(3))
    assert "?" not in str(program).replace("in_spec", ""), "every value has its type"
    for batch in (3, 5):
        check(program, model, inputs(batch), loss=squares)


@pytest.mark.parametrize("name", MODELS)
def test_a_plain_module_without_examples_is_scripted(name):
    model, inputs = build(name)
    program = ravnest.capture(model)
    check(program, model, inputs(4), loss=squares)
    assert list(program.state_dict()) == list(model.state_dict())


@pytest.mark.parametrize("name", ["cnn", "gpt", "branch", "moving_average"])
@pytest.mark.parametrize("saved_for", ["train", "eval"])
def test_from_a_file(name, saved_for, tmp_path):
    model, inputs = build(name)
    scripted = torch.jit.script(model)
    scripted.train() if saved_for == "train" else scripted.eval()
    path = tmp_path / "model.pt"
    scripted.save(path)
    for source in (path, str(path), torch.jit.load(path)):
        check(ravnest.capture(source), model, inputs(3), loss=squares)


@pytest.mark.parametrize("name", ["cnn", "residual", "gpt", "lstm", "encoder", "two_inputs"])
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("with_examples", [False, True])
def test_traced(name, with_examples):
    """A trace has its mode written into it; here that of training."""
    model, inputs = build(name)
    traced = torch.jit.trace(model, inputs(3), check_trace=False)
    program = ravnest.capture(traced, args=inputs(3) if with_examples else ())
    check(program, model, inputs(3), loss=squares, modes=[True])


def test_a_trace_computes_sizes_again():
    class Reshapes(nn.Module):
        def forward(self, x):
            y = x.view(x.size(0) * 2, -1).reshape(x.shape[0], -1)
            return y + torch.zeros(x.shape[0] // 1, 1)

    program = ravnest.capture(torch.jit.trace(Reshapes(), torch.randn(4, 6)))
    x = torch.randn(7, 6)
    assert torch.equal(program(x), x)


def test_state_dict_has_the_models_order_and_ties():
    model, _ = build("gpt")
    program = ravnest.capture(model)
    state = program.state_dict()
    assert list(state) == list(model.state_dict()), "a buffer that is not persistent stays out"
    assert state["head.weight"].data_ptr() == state["embedding.weight"].data_ptr()
    assert "mask" in program.buffers()


def test_frozen_parameters_stay_frozen():
    model, inputs = build("loops")
    model.layers[0].weight.requires_grad_(False)
    program = ravnest.capture(torch.jit.script(model))
    check(program, model, inputs(3), loss=squares)
    assert not program.parameters()["layers.0.weight"].requires_grad


def test_a_module_in_eval_mode_stays_so_in_training():
    model, inputs = build("residual")
    model.blocks[0].eval()
    program = ravnest.capture(torch.jit.script(model))
    check(program, model, inputs(3), loss=squares)


class Optional(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x, mask: torch.Tensor | None = None, times: int = 2):
        h = self.linear(x)
        if mask is not None:
            h = h * mask
        return h * times


def test_arguments_with_a_default_keep_it_without_examples():
    torch.manual_seed(SEED)
    model = Optional()
    x = torch.randn(3, 4)
    assert torch.equal(ravnest.capture(torch.jit.script(model))(x), model(x))


def test_arguments_by_keyword():
    torch.manual_seed(SEED)
    model = Optional()
    x, mask = torch.randn(3, 4), torch.rand(3, 4)
    program = ravnest.capture(torch.jit.script(model), args=(x,), kwargs={"mask": mask, "times": 5})
    x, mask = torch.randn(6, 4), torch.rand(6, 4)
    assert torch.equal(program(x, mask=mask, times=5), model(x, mask=mask, times=5))
    with pytest.raises(ValueError, match="times"):
        program(x, mask=mask, times=6)


class Nested(nn.Module):
    def forward(self, xs: list[torch.Tensor], named: dict[str, torch.Tensor]):
        return [x * 2 for x in xs], named["a"] + xs[0]


def test_lists_and_dicts_of_tensors():
    program = ravnest.capture(
        torch.jit.script(Nested()),
        args=([torch.randn(2, 3), torch.randn(2, 3)], {"a": torch.randn(2, 3)}),
    )
    xs, a = [torch.randn(5, 3), torch.randn(5, 3)], torch.randn(5, 3)
    expected, actual = Nested()(xs, {"a": a}), program(xs, {"a": a})
    assert structure(actual) == structure(expected)
    for one, another in zip(leaves(expected), leaves(actual), strict=True):
        assert torch.equal(one, another)


class Result(NamedTuple):
    logits: torch.Tensor
    auxiliary: torch.Tensor | None


class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        h = self.linear(x)
        auxiliary: torch.Tensor | None = None
        if self.training:
            auxiliary = h * 2
        return Result(h, auxiliary)


def test_named_tuples_come_back_as_tuples():
    torch.manual_seed(SEED)
    model = Named()
    program = ravnest.capture(torch.jit.script(model))
    x = torch.randn(3, 4)
    assert all(map(torch.equal, program.train()(x), model.train()(x)))
    logits, auxiliary = program.eval()(x)
    assert torch.equal(logits, model.eval()(x).logits)
    assert auxiliary is None


def test_capture_leaves_the_module_and_the_generator_alone():
    model, inputs = build("cnn")
    scripted = torch.jit.script(model).eval()
    before = {name: tensor.clone() for name, tensor in scripted.state_dict().items()}
    example = inputs(3)
    torch.manual_seed(SEED)
    expected = torch.rand(3)
    torch.manual_seed(SEED)
    ravnest.capture(scripted, args=example)
    assert torch.equal(torch.rand(3), expected)
    assert not scripted.training
    for name, tensor in scripted.state_dict().items():
        assert torch.equal(tensor, before[name]), name


def test_the_program_has_its_own_weights():
    model, inputs = build("loops")
    scripted = torch.jit.script(model)
    program = ravnest.capture(scripted)
    x = inputs(3)
    expected = program(*x).detach().clone()
    with torch.no_grad():
        for parameter in scripted.parameters():
            parameter.zero_()
    assert torch.equal(program(*x), expected)


def test_trains_after_being_written_and_read(tmp_path):
    model, inputs = build("cnn")
    example = inputs(3)
    program = ravnest.capture(torch.jit.script(model), args=example)
    program.save(tmp_path / "model.pt2")
    check(ravnest.Program.load(tmp_path / "model.pt2"), model, inputs(5), loss=squares)
    exported = torch.export.load(tmp_path / "model.pt2")
    assert [name for name, _ in exported.named_parameters()]


class FixedBatch(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2, 8, 3, 3))

    def forward(self, x):
        return F.conv2d(x.reshape(1, -1, 6, 6), self.weight)


def test_a_batch_that_the_model_fixes_is_fixed_with_a_note():
    torch.manual_seed(SEED)
    model = FixedBatch().train()
    x = torch.randn(4, 2, 6, 6)
    with pytest.warns(UserWarning, match="the batch size is fixed at 4"):
        program = ravnest.capture(torch.jit.script(model), args=(x,))
    assert "the batch size is fixed at 4" in str(program)
    check(program, model, (x,), loss=squares)


# What cannot be flattened


class BranchOnData(nn.Module):
    def forward(self, x):
        if x.sum() > 0:  # the line that the error names
            x = x + 1
        return x


class LoopOnData(nn.Module):
    def forward(self, x):
        while x.sum() > 0:  # the line that the error names
            x = x - 1
        return x


class Within(nn.Module):
    def __init__(self, inner: nn.Module):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x * 2)


def marked_line(module):
    lines, first = inspect.getsourcelines(type(module).forward)
    return first + next(i for i, line in enumerate(lines) if "the line that" in line)


@pytest.mark.parametrize("make", [BranchOnData, LoopOnData])
@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("args", [(), (torch.ones(2, 3),)], ids=["no_example", "example"])
def test_control_flow_on_data_is_refused_with_its_line(make, within, args):
    inner = make()
    model = Within(inner) if within else inner
    with pytest.raises(ValueError, match="expected.*got") as error:
        ravnest.capture(torch.jit.script(model), args=args)
    assert f"test_torchscript.py:{marked_line(inner)}" in str(error.value)
    assert "\n" not in str(error.value)


def test_the_line_survives_a_file(tmp_path):
    torch.jit.script(BranchOnData()).save(tmp_path / "model.pt")
    with pytest.raises(ValueError) as error:
        ravnest.capture(tmp_path / "model.pt")
    assert f"test_torchscript.py:{marked_line(BranchOnData())}" in str(error.value)


@pytest.mark.parametrize("name", MODELS_THAT_NEED_EXAMPLES)
def test_without_examples_the_way_out_is_named(name):
    model, _ = build(name)
    with pytest.raises(ValueError, match="example inputs"):
        ravnest.capture(torch.jit.script(model))


def test_a_model_that_raises_says_its_own_error():
    class Picky(nn.Module):
        def forward(self, x):
            if x.size(1) != 4:
                raise ValueError("four columns, please")
            return x

    with pytest.raises(ValueError, match="four columns, please"):
        ravnest.capture(torch.jit.script(Picky()), args=(torch.ones(2, 5),))


def test_an_example_that_does_not_fit_is_refused():
    model, _ = build("loops")
    scripted = torch.jit.script(model)
    with pytest.raises(ValueError, match="aten::linear"):
        ravnest.capture(scripted, args=(torch.ones(2, 5),))
    with pytest.raises(ValueError, match="at most 1"):
        ravnest.capture(scripted, args=(torch.ones(2, 4), torch.ones(2, 4)))


def test_state_that_is_no_buffer_is_refused():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            return x

    with pytest.raises(ValueError, match="calls"):
        ravnest.capture(torch.jit.script(Counts()))


def test_files_are_never_touched(tmp_path):
    class Saves(nn.Module):
        def __init__(self, path: str):
            super().__init__()
            self.path = path

        def forward(self, x):
            torch.save(x, self.path)
            return x

    path = tmp_path / "written"
    with pytest.raises(ValueError, match="aten::save"):
        ravnest.capture(torch.jit.script(Saves(str(path))))
    assert not path.exists()


def test_hooks_are_refused():
    model, _ = build("loops")

    def double(self, inputs: tuple[torch.Tensor], output: torch.Tensor):
        return output * 2

    model.register_forward_hook(double)
    with pytest.raises(ValueError, match="hooks"):
        ravnest.capture(torch.jit.script(model))


def test_custom_operators_are_refused_by_name():
    class Quantizes(nn.Module):
        def forward(self, x):
            return torch.ops.quantized.relu6(x)

    with pytest.raises(ValueError, match="quantized::relu6"):
        ravnest.capture(torch.jit.script(Quantizes()))


@pytest.mark.parametrize("kept", [0, 40, 0.3, 0.9])
def test_broken_archives(tmp_path, kept):
    path = tmp_path / "model.pt"
    torch.jit.script(build("loops")[0]).save(path)
    data = path.read_bytes()
    path.write_bytes(data[: kept if isinstance(kept, int) else int(len(data) * kept)])
    with pytest.raises(ValueError, match="TorchScript"):
        ravnest.capture(path)
