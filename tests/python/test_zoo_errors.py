"""What cannot be done is refused with a sentence that says why."""

import inspect
import re
import warnings

import pytest
import torch
import torch.nn.functional as F
import zoo
from torch import nn

import ravnest


@pytest.fixture(scope="module")
def program():
    return ravnest.capture(zoo.CNN_Net(), args=(torch.rand(4, 1, 8, 8),))


@pytest.fixture(params=["whole", "stages"])
def runner(request, program):
    return program if request.param == "whole" else program.slice(3)


def assert_a_sentence(error, *needles):
    text = str(error.value)
    for needle in ("expected", "got", *needles):
        assert needle in text, text
    assert "\n" not in text.strip(), text
    assert len(text) < 400, text


def test_too_few_inputs(runner):
    with pytest.raises(ValueError) as error:
        runner()
    assert_a_sentence(error, "1", "none")


def test_too_many_inputs(runner):
    x = torch.rand(4, 1, 8, 8)
    with pytest.raises(ValueError) as error:
        runner(x, x)
    assert_a_sentence(error, "1", "2")


def test_unknown_keyword(runner):
    with pytest.raises(ValueError, match="colour"):
        runner(torch.rand(4, 1, 8, 8), colour=torch.rand(4))


def test_wrong_shape(runner):
    with pytest.raises(ValueError) as error:
        runner(torch.rand(4, 1, 9, 8))
    assert_a_sentence(error, "9")


def test_wrong_number_of_dimensions(runner):
    with pytest.raises(ValueError) as error:
        runner(torch.rand(1, 8, 8))
    assert_a_sentence(error)


def test_wrong_dtype(runner):
    with pytest.raises(ValueError) as error:
        runner(torch.rand(4, 1, 8, 8, dtype=torch.float64))
    assert_a_sentence(error, "float32", "float64")


def test_not_a_tensor(runner):
    with pytest.raises(ValueError) as error:
        runner([1.0, 2.0])
    assert_a_sentence(error)


def test_wrong_structure():
    inputs = {"photo": torch.randn(2, 3, 12, 12), "facts": torch.randn(2, 6)}
    program = ravnest.capture(zoo.HouseNet(), args=(inputs,))
    with pytest.raises(ValueError, match="facts"):
        program({"photo": inputs["photo"]})
    with pytest.raises(ValueError, match="expected"):
        program(list(inputs.values()))


def test_batches_that_do_not_fit_together():
    inputs = {"photo": torch.randn(2, 3, 12, 12), "facts": torch.randn(2, 6)}
    program = ravnest.capture(zoo.HouseNet(), args=(inputs,))
    inputs["facts"] = torch.randn(5, 6)
    with pytest.raises(ValueError) as error:
        program(inputs)
    assert_a_sentence(error, "2", "5")


@pytest.mark.parametrize("cuts", [0, -1, 10_000, [5, 3], [4, 4], [-1], [10_000]], ids=str)
def test_impossible_cuts(program, cuts):
    with pytest.raises(ValueError, match="expected"):
        program.slice(cuts)


def test_state_dict_that_does_not_fit(program):
    state = program.state_dict()
    missing = {name: tensor for name, tensor in state.items() if name != "dense_1.bias"}
    with pytest.raises(ValueError, match=r"dense_1\.bias"):
        program.load_state_dict(missing)
    with pytest.raises(ValueError, match="surprise"):
        program.load_state_dict({**state, "surprise": torch.zeros(1)})
    with pytest.raises(ValueError, match=r"dense_1\.bias"):
        program.load_state_dict({**state, "dense_1.bias": torch.zeros(3)})


class Branches(nn.Module):
    def forward(self, x):
        if x.sum() > 0:  # the line that the error names
            return x + 1
        return x - 1


def line_of(function, text):
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if text in line)


def test_control_flow_on_data_is_refused_with_its_line():
    with pytest.raises(ValueError) as error:
        ravnest.capture(Branches(), args=(torch.randn(3, 2),))
    line = line_of(Branches.forward, "x.sum() > 0")
    assert f"test_zoo_errors.py:{line}" in str(error.value), str(error.value)


class Inner(nn.Module):
    """The line that matters is not in the outermost forward."""

    def __init__(self):
        super().__init__()
        self.inner = Branches()

    def forward(self, x):
        return self.inner(x * 2)


def test_control_flow_in_a_submodule_is_refused_with_its_line():
    with pytest.raises(ValueError) as error:
        ravnest.capture(Inner(), args=(torch.randn(3, 2),))
    line = line_of(Branches.forward, "x.sum() > 0")
    assert f"test_zoo_errors.py:{line}" in str(error.value), str(error.value)


def test_a_model_that_raises_says_its_own_error():
    class Broken(nn.Module):
        def forward(self, x):
            raise RuntimeError("the model's own words")

    with pytest.raises((RuntimeError, ValueError), match="the model's own words"):
        ravnest.capture(Broken(), args=(torch.randn(3, 2),))


class FixedBatch(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, x):
        return self.linear(x).view(4, 2) + torch.arange(8.0).view(4, 2)


def test_batch_fixed_by_the_model_warns_and_stays_fixed():
    model = FixedBatch()
    x = torch.randn(4, 2)
    with pytest.warns(UserWarning, match="batch") as caught:
        program = ravnest.capture(model, args=(x,))
    assert any(re.search(r"\b4\b", str(warning.message)) for warning in caught)
    assert torch.equal(program(x), model(x))
    with pytest.raises(ValueError, match="expected"):
        program(torch.randn(6, 2))


def test_dynamic_batch_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        ravnest.capture(zoo.CNN_Net(), args=(torch.rand(4, 1, 8, 8),))


def test_unscriptable_without_example_says_to_give_one():
    class Unscriptable(nn.Module):
        def forward(self, *parts, **named):
            return sum(parts)

    with pytest.raises(ValueError, match="args"):
        ravnest.capture(Unscriptable())


@pytest.mark.parametrize(
    "thing", [42, "no/such/file.pt", lambda x: x], ids=["int", "path", "function"]
)
def test_not_a_model(thing):
    with pytest.raises((ValueError, TypeError, FileNotFoundError)):
        ravnest.capture(thing, args=(torch.randn(2, 2),))


def test_loss_without_target():
    with pytest.raises(ValueError, match="target"):
        ravnest.capture(nn.Linear(2, 2), args=(), loss=F.mse_loss)
