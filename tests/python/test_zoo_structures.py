"""What goes in and comes out: keywords, nesting, literals, batches, memory formats."""

import copy
from collections import OrderedDict, namedtuple
from dataclasses import dataclass

import pytest
import torch
import zoo
from against_eager import check, leaves, structure
from torch import nn

import ravnest

Pair = namedtuple("Pair", ["left", "right"])


@dataclass
class Sample:
    image: torch.Tensor
    extra: dict


@dataclass
class Answer:
    best: torch.Tensor
    others: list


class Nested(nn.Module):
    """Tuples, lists, dicts, a namedtuple and a dataclass, both ways."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, sample, pair, *, rest):
        a = self.linear(sample.image) + sample.extra["bias"][0]
        b = self.linear(pair.left) * pair.right
        c = rest[0] + rest[1]["deep"][0]
        return {
            "answer": Answer(best=a + b, others=[a, (b, c)]),
            "pair": Pair(left=a.sum(dim=1), right=[b]),
            "row": (c,),
        }


def nested_inputs(size):
    torch.manual_seed(size)
    a, b, c, d, e, f = torch.randn(6, size, 4).unbind()
    sample = Sample(image=a, extra={"bias": [b]})
    return (sample, Pair(c, d)), {"rest": [e, {"deep": (f,)}]}


def sum_of_leaves(output):
    return sum(leaf.square().sum() for leaf in leaves(output))


def test_nested_inputs_and_outputs():
    model = Nested()
    args, kwargs = nested_inputs(3)
    program = ravnest.capture(copy.deepcopy(model), args=args, kwargs=kwargs)
    for size in (3, 5):
        args, kwargs = nested_inputs(size)
        check(program, model, args, kwargs, loss=sum_of_leaves)
        assert structure(program(*args, **kwargs)) == structure(model(*args, **kwargs))


def test_nested_structure_survives_a_file(tmp_path):
    model = Nested()
    args, kwargs = nested_inputs(3)
    ravnest.capture(model, args=args, kwargs=kwargs).save(tmp_path / "model.pt2")
    loaded = ravnest.Program.load(tmp_path / "model.pt2")
    assert structure(loaded(*args, **kwargs)) == structure(model(*args, **kwargs))


class Keywords(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(3, 3)
        self.key = nn.Linear(3, 3)

    def forward(self, x, *, mask, bias=None):
        scores = self.query(x) * self.key(x)
        if bias is not None:
            scores = scores + bias
        return scores.masked_fill(mask, 0.0)


def keyword_inputs(size):
    torch.manual_seed(size)
    mask = torch.rand(size, 3) < 0.5
    return (torch.randn(size, 3),), {"mask": mask, "bias": torch.randn(size, 1)}


def test_keyword_inputs():
    model = Keywords()
    args, kwargs = keyword_inputs(4)
    program = ravnest.capture(copy.deepcopy(model), args=args, kwargs=kwargs)
    args, kwargs = keyword_inputs(6)
    check(program, model, args, kwargs, loss=torch.sum)


def test_keywords_in_any_order():
    args, kwargs = keyword_inputs(4)
    program = ravnest.capture(Keywords(), args=args, kwargs=kwargs)
    swapped = dict(reversed(kwargs.items()))
    assert torch.equal(program(*args, **swapped), program(*args, **kwargs))


def test_keyword_left_at_its_default():
    model = Keywords()
    args, kwargs = keyword_inputs(4)
    program = ravnest.capture(model, args=args, kwargs={"mask": kwargs["mask"]})
    expected = model(*args, mask=kwargs["mask"])
    assert torch.equal(program(*args, mask=kwargs["mask"]), expected)


class Scaled(nn.Module):
    def forward(self, x, factor, name=None):
        return x * factor if name == "times" else x + factor


def test_literals_are_fixed_at_capture():
    x = torch.randn(3, 2)
    program = ravnest.capture(Scaled(), args=(x, 2.5), kwargs={"name": "times"})
    assert torch.equal(program(x, 2.5, name="times"), x * 2.5)
    with pytest.raises(ValueError, match=r"2\.5"):
        program(x, 3.5, name="times")
    with pytest.raises(ValueError, match="times"):
        program(x, 2.5, name="plus")


class ManyOutputs(nn.Module):
    """An output that is an input, one that appears twice, one that is a constant, and None."""

    def forward(self, x):
        y = x * 2
        return OrderedDict(same=x, twice=[y, y], number=7, nothing=None)


def test_odd_outputs():
    model = ManyOutputs()
    program = ravnest.capture(model, args=(torch.randn(3, 2),))
    x = torch.randn(5, 2)
    expected, actual = model(x), program(x)
    assert structure(actual) == structure(expected)
    assert torch.equal(actual["same"], x)
    assert torch.equal(actual["twice"][1], x * 2)
    assert (actual["number"], actual["nothing"]) == (7, None)


class Parameterless(nn.Module):
    def forward(self, x):
        return x.flip(0).cumsum(dim=0)


def test_gradient_reaches_the_inputs():
    program = ravnest.capture(Parameterless(), args=(torch.randn(3, 2),))
    for runner in (program, program.slice([1])):
        x = torch.randn(4, 2, requires_grad=True)
        runner(x).square().sum().backward()
        copied = x.detach().clone().requires_grad_()
        Parameterless()(copied).square().sum().backward()
        assert torch.equal(x.grad, copied.grad)


def test_example_batch_of_one_still_gives_a_dynamic_batch():
    model = zoo.GPT(vocab=20, seq=8, layers=1, heads=2, width=8)
    program = ravnest.capture(model, args=(torch.randint(0, 20, (1, 8)),))
    for size in (1, 2, 5):
        tokens = torch.randint(0, 20, (size, 8))
        assert torch.equal(program(tokens), model(tokens))


def test_example_batch_of_one_with_batch_norm():
    model = zoo.CNN_Net()
    program = ravnest.capture(copy.deepcopy(model), args=(torch.rand(1, 1, 8, 8),))
    check(program, model, (torch.rand(6, 1, 8, 8),), loss=lambda y: y.square().sum())


def test_captured_larger_runs_a_batch_of_one():
    model = zoo.CNN_Net().eval()
    program = ravnest.capture(model, args=(torch.rand(4, 1, 8, 8),))
    program.eval()
    x = torch.rand(1, 1, 8, 8)
    for runner in (program, program.slice(4)):
        assert torch.equal(runner(x), model(x))


class TwoBatches(nn.Module):
    """A query batch against a memory that has a length of its own."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, query, memory):
        return (self.linear(query) @ memory.T).softmax(dim=1)


def test_inputs_with_different_first_sizes():
    model = TwoBatches()
    program = ravnest.capture(copy.deepcopy(model), args=(torch.randn(4, 3), torch.randn(6, 3)))
    inputs = (torch.randn(5, 3), torch.randn(9, 3))
    check(program, model, inputs, loss=lambda y: y.square().sum())


@pytest.mark.parametrize("stride", ["channels_last", "sliced"])
def test_inputs_of_other_strides(stride):
    model = zoo.resnet18(num_classes=4, width=4, small_input=True)
    program = ravnest.capture(copy.deepcopy(model), args=(torch.randn(2, 3, 16, 16),))
    if stride == "channels_last":
        x = torch.randn(3, 3, 16, 16).to(memory_format=torch.channels_last)
    else:
        x = torch.randn(3, 3, 16, 32)[..., ::2]
    torch.manual_seed(0)
    assert torch.equal(program(x), model.train()(x))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_dtypes(dtype):
    model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 2)).to(dtype)
    program = ravnest.capture(copy.deepcopy(model), args=(torch.randn(3, 4, dtype=dtype),))
    x = torch.randn(5, 4, dtype=dtype)
    check(program, model, (x,), loss=lambda y: y.square().sum())
