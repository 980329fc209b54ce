"""Native optimizers and schedulers against torch's own."""

import copy
import itertools
import math
import warnings
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from ravnest import _C
from ravnest.optim import Rule, find_native, find_native_scheduler

STEPS = 100

OPTIMIZERS = [
    (torch.optim.SGD, {}),
    (torch.optim.SGD, {"lr": 0.1, "weight_decay": 0.01, "maximize": True}),
    (torch.optim.SGD, {"lr": 0.05, "momentum": 0.9}),
    (torch.optim.SGD, {"lr": 0.05, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}),
    (torch.optim.SGD, {"lr": 0.05, "momentum": 0.8, "nesterov": True, "maximize": True}),
    (torch.optim.Adam, {}),
    (torch.optim.Adam, {"lr": 0.01, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1}),
    (torch.optim.Adam, {"lr": 0.01, "betas": (0.4, 0.9), "amsgrad": True}),
    (torch.optim.Adam, {"amsgrad": True, "maximize": True, "weight_decay": 0.01}),
    (torch.optim.Adam, {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    (torch.optim.Adam, {"decoupled_weight_decay": True}),
    (torch.optim.AdamW, {}),
    (torch.optim.AdamW, {"lr": 0.02, "weight_decay": 0.3, "amsgrad": True, "maximize": True}),
    (torch.optim.NAdam, {}),
    (torch.optim.NAdam, {"lr": 0.01, "betas": (0.99, 0.95), "momentum_decay": 0.1}),
    (torch.optim.NAdam, {"weight_decay": 0.1, "maximize": True, "eps": 1e-5}),
    (torch.optim.NAdam, {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    (torch.optim.RMSprop, {}),
    (torch.optim.RMSprop, {"lr": 0.02, "alpha": 0.9, "eps": 1e-4, "weight_decay": 0.1}),
    (torch.optim.RMSprop, {"momentum": 0.9, "maximize": True}),
    (torch.optim.RMSprop, {"centered": True, "eps": 1e-3}),
    (torch.optim.RMSprop, {"centered": True, "momentum": 0.5, "weight_decay": 0.01, "eps": 1e-3}),
    (torch.optim.Adagrad, {}),
    (torch.optim.Adagrad, {"lr": 0.1, "lr_decay": 0.05, "initial_accumulator_value": 0.5}),
    (torch.optim.Adagrad, {"weight_decay": 0.1, "eps": 1e-3, "maximize": True}),
]
IDS = [f"{kind.__name__}-{','.join(map(str, params)) or 'defaults'}" for kind, params in OPTIMIZERS]


def make_values(dtype=torch.float32, seed=0):
    """Parameters of all shapes and layouts."""
    torch.manual_seed(seed)
    values = {
        "scalar": torch.randn(()),
        "vector": torch.randn(1003),
        "weights.of/a-layer": torch.randn(17, 33),
        "image": torch.randn(4, 3, 5, 5).contiguous(memory_format=torch.channels_last),
        "transposed": torch.randn(9, 6).t(),
        "part": torch.randn(8, 40)[::2, 3:31:3],
        "empty": torch.randn(0, 3),
    }
    return {name: value.to(dtype) for name, value in values.items()}


def like(value):
    """A copy with the same strides, gaps included."""
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype).copy_(value)


def gradient_of(name, value, step, maximize=False):
    """That of a bowl (a hill, to be climbed), with noise; None now and then, and contiguous
    whatever the value is."""
    if (len(name) + step) % 5 == 0:
        return None
    noise = torch.randn(value.shape, generator=torch.Generator().manual_seed(step))
    slope = -0.3 if maximize else 0.3
    return (slope * value.detach() + 0.5 * noise.to(value.dtype)).contiguous()


class Torch:
    """torch.optim, as everybody uses it."""

    def __init__(self, kind, params, values):
        self.parameters = {name: nn.Parameter(value.clone()) for name, value in values.items()}
        self.optimizer = kind(self.parameters.values(), **params)
        self.gradient = partial(gradient_of, maximize=params.get("maximize", False))

    def step(self, step, gradient=None):
        for name, parameter in self.parameters.items():
            parameter.grad = (gradient or self.gradient)(name, parameter, step)
        self.optimizer.step()


class Native:
    """Ours, in turn in place and into tensors of their own."""

    def __init__(self, kind, params, values):
        self.optimizer = _C.Optimizer(*find_native(kind, params))
        self.parameters = {name: like(value) for name, value in values.items()}
        self.gradient = partial(gradient_of, maximize=params.get("maximize", False))

    def step(self, step, gradient=None, **options):
        values = list(self.parameters.values())
        gradient = gradient or self.gradient
        gradients = [gradient(name, value, step) for name, value in self.parameters.items()]
        results = values if step % 3 == 0 else [torch.full_like(v, math.nan) for v in values]
        before = [value.clone() for value in values]
        self.optimizer.step(list(self.parameters), values, gradients, results, **options)
        if results is not values:
            assert all(map(torch.equal, values, before))
        self.parameters = dict(zip(self.parameters, results, strict=True))


def assert_near(ours, theirs, start, relative=1e-6):
    """Relative to the largest element, now or at the start: single ones pass zero."""
    assert ours.keys() == theirs.keys()
    for name, expected in theirs.items():
        expected = expected.detach()
        sizes = torch.cat([expected.flatten(), start[name].flatten()]).abs()
        scale = sizes.max().item() if sizes.numel() else 0.0
        torch.testing.assert_close(
            ours[name],
            expected,
            rtol=relative,
            atol=relative * scale,
            msg=lambda m, n=name: f"{n}: {m}",
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("kind", "params"), OPTIMIZERS, ids=IDS)
def test_a_native_optimizer_equals_torch(kind, params, dtype):
    values = make_values(dtype)
    theirs, ours = Torch(kind, params, values), Native(kind, params, values)
    for step in range(STEPS):
        theirs.step(step)
        ours.step(step)
    assert_near(ours.parameters, theirs.parameters, values)


@pytest.mark.parametrize(("kind", "params"), OPTIMIZERS, ids=IDS)
def test_gradients_of_another_dtype_give_the_same(kind, params):
    """Tensor operations in place of the fused loop."""
    values = make_values()
    del values["empty"]

    def wide(name, value, step):
        gradient = ours.gradient(name, value, step)
        return None if gradient is None else gradient.double()

    theirs, ours = Torch(kind, params, values), Native(kind, params, values)
    for step in range(20):
        theirs.step(step)
        ours.step(step, wide)
    assert_near(ours.parameters, theirs.parameters, values)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_small_dtypes_are_rounded_once_per_step(dtype):
    """Against torch's fused Adam, which calculates in float too."""
    values = {"w": torch.randn(500, generator=torch.Generator().manual_seed(1)).to(dtype)}
    theirs = Torch(torch.optim.Adam, {"lr": 0.05, "fused": True}, values)
    ours = Native(torch.optim.Adam, {"lr": 0.05, "fused": True}, values)
    for step in range(STEPS):
        for each in (theirs, ours):
            each.step(step, lambda *_, s=step: torch.full((500,), math.sin(s), dtype=dtype))
    assert_near(ours.parameters, theirs.parameters, values, 2 * torch.finfo(dtype).eps)


def test_several_threads_give_what_one_gives():
    values = {"w": torch.randn(300_001, generator=torch.Generator().manual_seed(2))}
    one, two = (Native(torch.optim.NAdam, {}, values) for _ in range(2))
    one.step(1)
    torch.set_num_threads(2)
    try:
        two.step(1)
    finally:
        torch.set_num_threads(1)
    assert torch.equal(one.parameters["w"], two.parameters["w"])


def test_a_rate_that_changes_is_followed():
    values = make_values()
    theirs, ours = Torch(torch.optim.AdamW, {}, values), Native(torch.optim.AdamW, {}, values)
    for step in range(30):
        rate = 0.01 / (step + 1)
        theirs.optimizer.param_groups[0]["lr"] = rate
        ours.optimizer.rate = rate
        theirs.step(step)
        ours.step(step)
    assert ours.optimizer.rate == rate
    assert_near(ours.parameters, theirs.parameters, values)


@pytest.mark.parametrize("max_norm", [0.5, 1e6])
def test_accumulated_gradients_are_scaled_and_clipped_together(max_norm):
    values = make_values()
    theirs, ours = (
        Torch(torch.optim.SGD, {"lr": 0.1}, values),
        Native(torch.optim.SGD, {"lr": 0.1}, values),
    )
    for step in range(10):
        for name, parameter in theirs.parameters.items():
            gradient = gradient_of(name, parameter, step)
            parameter.grad = None if gradient is None else gradient / 4
        nn.utils.clip_grad_norm_(theirs.parameters.values(), max_norm)
        theirs.optimizer.step()
        ours.step(step, gradient_scale=0.25, max_norm=max_norm)
    assert_near(ours.parameters, theirs.parameters, values)


def test_sparse_gradients_are_applied():
    weight = torch.randn(10, 4)
    table = nn.Embedding(10, 4, sparse=True, _weight=weight.clone())
    table(torch.tensor([1, 3, 1])).sum().backward()
    torch.optim.SGD(table.parameters(), lr=0.1).step()
    _C.Optimizer("sgd", {"lr": 0.1}).step(["w"], [weight], [table.weight.grad], [weight])
    torch.testing.assert_close(weight, table.weight.detach())


def test_autograd_notices_a_value_that_was_changed_in_place():
    value = torch.randn(3, requires_grad=True)
    loss = (value * value).sum()
    _C.Optimizer("sgd", {}).step(["w"], [value], [torch.ones(3)], [value])
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_an_infinite_weight_stays_what_it_is():
    value = torch.tensor([-math.inf, 1.0])
    _C.Optimizer("adam", {"lr": 0.1}).step(["mask"], [value], [torch.tensor([0.0, 1.0])], [value])
    assert value[0] == -math.inf
    assert value[1] == pytest.approx(0.9)


# State


@pytest.mark.parametrize(("kind", "params"), OPTIMIZERS, ids=IDS)
def test_training_goes_on_from_a_saved_state(kind, params):
    values = make_values()
    whole, first = Native(kind, params, values), Native(kind, params, values)
    for step in range(6):
        whole.step(step)
        first.step(step)
    saved = {name: tensor.clone() for name, tensor in first.optimizer.state().items()}
    second = Native(kind, params, first.parameters)
    second.optimizer.load_state(saved, second.parameters)
    assert second.optimizer.state().keys() == saved.keys()
    for step in range(6, 12):
        whole.step(step)
        second.step(step)
    assert all(map(torch.equal, whole.parameters.values(), second.parameters.values()))


def test_state_is_named_by_what_it_is_and_its_parameter():
    ours = Native(torch.optim.Adam, {}, make_values())
    assert ours.optimizer.state() == {}
    ours.step(0)
    state = ours.optimizer.state()
    with_gradient = {
        n for n in ours.parameters if gradient_of(n, ours.parameters[n], 0) is not None
    }
    kinds = ("exp_avg", "exp_avg_sq", "step")
    assert state.keys() == {f"{kind}/{name}" for kind in kinds for name in with_gradient}
    assert state["step/scalar"].item() == 1.0
    assert state["exp_avg/weights.of/a-layer"].shape == (17, 33)


def adam_state(**changes):
    state = {
        "exp_avg/w": torch.zeros(3),
        "exp_avg_sq/w": torch.zeros(3),
        "step/w": torch.tensor(2.0),
    }
    state.update({key.replace("__", "/"): value for key, value in changes.items()})
    return {key: value for key, value in state.items() if value is not None}


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        (
            adam_state(momentum_buffer__w=torch.zeros(3)),
            "adam with its options keeps no 'momentum_buffer'",
        ),
        (adam_state(exp_avg__w=torch.zeros(4)), r"'exp_avg/w' with shape \[3\], got \[4\]"),
        (adam_state(exp_avg__w=None), "expected exp_avg, exp_avg_sq, step for 'w', got 2 of them"),
        (adam_state(step__w=torch.zeros(3)), "expected the state 'step/w' to be one number"),
        (
            adam_state(step__w=torch.tensor(math.nan)),
            "expected the state 'step/w' to be one number",
        ),
        (adam_state(step__v=torch.tensor(1.0)), "'step/v' belongs to no parameter"),
        (adam_state(step=torch.tensor(1.0)), "'step' belongs to no parameter"),
    ],
)
def test_a_state_that_does_not_fit_is_refused(state, sentence):
    optimizer = _C.Optimizer("adam", {})
    value = torch.zeros(3)
    optimizer.step(["w"], [value], [torch.ones(3)], [value])
    before = optimizer.state()
    with pytest.raises(ValueError, match=sentence):
        optimizer.load_state(state, {"w": value})
    assert all(map(torch.equal, optimizer.state().values(), before.values()))


# Weight prediction


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        (torch.optim.SGD, {"momentum": 0.9, "dampening": 0.9}),
        (torch.optim.Adam, {"betas": (0.9, 0.99)}),
        (torch.optim.Adam, {"amsgrad": True}),
        (torch.optim.AdamW, {"weight_decay": 0.1}),
        (torch.optim.NAdam, {"momentum_decay": 0.0}),
        (torch.optim.RMSprop, {"momentum": 0.9, "alpha": 0.9}),
    ],
)
def test_a_prediction_is_where_steady_gradients_lead(kind, params):
    """Averages that have settled: the optimizer then walks in a straight line."""
    name, options = find_native(kind, {"lr": 1e-3, **params})
    optimizer = _C.Optimizer(name, options)
    value = torch.linspace(-2, 2, 20, dtype=torch.float64)
    gradient = torch.tensor([-2.0, -0.5, 0.5, 1.0, 3.0], dtype=torch.float64).repeat(4)
    for _ in range(3000):
        optimizer.step(["w"], [value], [gradient], [value])
    state = {key: tensor.clone() for key, tensor in optimizer.state().items()}
    predicted, start = torch.full_like(value, math.nan), value.clone()
    optimizer.predict("w", value, 3.0, predicted)
    assert torch.equal(value, start)
    assert all(torch.equal(tensor, state[key]) for key, tensor in optimizer.state().items())
    for _ in range(3):
        optimizer.step(["w"], [value], [gradient], [value])
    torch.testing.assert_close(predicted - start, value - start, rtol=1e-3, atol=0.0)


@pytest.mark.parametrize("name", ["sgd", "rmsprop", "adagrad", "adam"])
def test_without_an_average_the_prediction_is_the_value(name):
    optimizer = _C.Optimizer(name, {})
    value, predicted = torch.randn(5), torch.zeros(5)
    if name != "adam":  # adam predicts from its first step on
        optimizer.step(["w"], [value], [torch.ones(5)], [value])
    optimizer.predict("w", value, 2.0, predicted)
    assert torch.equal(predicted, value)


# Options


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        (
            "adm",
            {},
            "there is no optimizer 'adm'; there are sgd, adam, adamw, nadam, rmsprop, adagrad.",
        ),
        (
            "adam",
            {"mometum": 0.9},
            "adam has no option 'mometum'; it has lr, betas, eps, weight_decay, amsgrad, maximize.",
        ),
        ("sgd", {"lr": -1}, "sgd expects lr to be a number of 0 or more, got -1."),
        ("sgd", {"lr": math.nan}, "sgd expects lr to be a number of 0 or more, got nan."),
        ("sgd", {"lr": "fast"}, "sgd expects lr to be a number of 0 or more, got 'fast'."),
        ("sgd", {"lr": True}, "sgd expects lr to be a number of 0 or more, got true."),
        ("adam", {"betas": (0.9, 1.0)}, "betas to be two numbers from 0 to below 1, got [0.9, 1]."),
        ("nadam", {"betas": (0.9,)}, "betas to be two numbers from 0 to below 1, got [0.9]."),
        ("adamw", {"amsgrad": 2}, "adamw expects amsgrad to be true or false, got 2."),
        (
            "sgd",
            {"nesterov": True},
            "sgd expects nesterov with a momentum above 0 and no dampening",
        ),
        ("sgd", {"lr": torch.tensor(0.1)}, "expected the option lr to be a flag, a number"),
        ("adagrad", {"lr_decay": -0.1}, "adagrad expects lr_decay to be a number of 0 or more"),
    ],
)
def test_options_that_are_not_known_are_refused_by_name(name, options, sentence):
    with pytest.raises(ValueError) as refused:
        find_native(name, options)
    assert str(refused.value).startswith("[optim] ")
    assert sentence in str(refused.value)


def test_names_are_taken_in_any_case():
    assert find_native("AdamW", {"lr": 1}) == ("adamw", {"lr": 1})
    assert find_native_scheduler("steplr", {"step_size": 2}) == ("steplr", {"step_size": 2})


@pytest.mark.parametrize(
    ("value", "gradient", "result", "sentence"),
    [
        (
            torch.zeros(3),
            torch.zeros(1),
            torch.zeros(3),
            r"gradient of 'w' with shape \[3\], got \[1\]",
        ),
        (
            torch.zeros(3),
            torch.zeros(3),
            torch.zeros(4),
            r"result of 'w' with shape \[3\], got \[4\]",
        ),
        (torch.zeros(3), torch.zeros(3), torch.zeros(3).double(), "got double on cpu"),
        (torch.zeros(3).long(), torch.zeros(3), torch.zeros(3).long(), "real numbers, got"),
    ],
)
def test_tensors_that_do_not_fit_are_refused_before_anything_changes(
    value, gradient, result, sentence
):
    optimizer = _C.Optimizer("adam", {})
    other = torch.ones(2)
    with pytest.raises(ValueError, match=sentence):
        optimizer.step(["v", "w"], [other, value], [other, gradient], [other, result])
    assert torch.equal(other, torch.ones(2))
    assert optimizer.state() == {}


# Schedulers

SCHEDULERS = [
    (lr_scheduler.StepLR, {"step_size": 30}),
    (lr_scheduler.StepLR, {"step_size": 1, "gamma": 0.97}),
    (lr_scheduler.MultiStepLR, {"milestones": [150, 30, 30, 80]}),
    (lr_scheduler.MultiStepLR, {"milestones": (0, 10), "gamma": 0.5}),
    (lr_scheduler.ExponentialLR, {"gamma": 0.95}),
    (lr_scheduler.CosineAnnealingLR, {"T_max": 200}),
    (lr_scheduler.CosineAnnealingLR, {"T_max": 30, "eta_min": 1e-3}),
    (lr_scheduler.CosineAnnealingLR, {"T_max": 1}),
    (lr_scheduler.CosineAnnealingLR, {"T_max": 7, "eta_min": 0.5}),
    (lr_scheduler.LinearLR, {}),
    (lr_scheduler.LinearLR, {"start_factor": 1.0, "end_factor": 0.0, "total_iters": 150}),
    (lr_scheduler.LinearLR, {"start_factor": 0.5, "end_factor": 0.5, "total_iters": 0}),
    (lr_scheduler.OneCycleLR, {"max_lr": 0.1, "total_steps": 200}),
    (lr_scheduler.OneCycleLR, {"max_lr": 0.1, "epochs": 20, "steps_per_epoch": 10}),
    (lr_scheduler.OneCycleLR, {"max_lr": 1.0, "total_steps": 200, "anneal_strategy": "linear"}),
    (lr_scheduler.OneCycleLR, {"max_lr": 1.0, "total_steps": 203, "three_phase": True}),
    (
        lr_scheduler.OneCycleLR,
        {
            "max_lr": 0.3,
            "total_steps": 250,
            "pct_start": 0.43,
            "three_phase": True,
            "anneal_strategy": "linear",
            "base_momentum": 0.5,
            "max_momentum": 0.99,
            "div_factor": 10,
            "final_div_factor": 100,
        },
    ),
    (lr_scheduler.OneCycleLR, {"max_lr": 0.3, "total_steps": 200, "pct_start": 0.0}),
    (lr_scheduler.OneCycleLR, {"max_lr": 0.3, "total_steps": 200, "cycle_momentum": False}),
]


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam], ids=lambda k: k.__name__)
@pytest.mark.parametrize(("scheduler", "params"), SCHEDULERS)
def test_a_native_scheduler_equals_torch(scheduler, params, kind):
    optimizer = kind([nn.Parameter(torch.zeros(1))], lr=0.1)
    group = optimizer.param_groups[0]
    theirs = scheduler(optimizer, **copy.deepcopy(params))
    ours = _C.Scheduler(*find_native_scheduler(scheduler, params), 0.1)
    for step in itertools.count():
        assert ours.rate == pytest.approx(group["lr"], rel=1e-9, abs=1e-16), step
        if ours.momentum is not None:
            momentum = group["betas"][0] if "betas" in group else group["momentum"]
            assert ours.momentum == pytest.approx(momentum, rel=1e-9), step
        if step == 200:
            break
        optimizer.step()
        theirs.step()
        ours.step()
    moves = scheduler is lr_scheduler.OneCycleLR and params.get("cycle_momentum", True)
    assert (ours.momentum is not None) == moves
    assert ours.state() == 200


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.NAdam], ids=lambda k: k.__name__)
def test_one_cycle_moves_the_momentum_of_an_optimizer(kind):
    values = make_values()
    theirs, ours = Torch(kind, {}, values), Native(kind, {}, values)
    params = {"max_lr": 0.05, "total_steps": 60}
    their_scheduler = lr_scheduler.OneCycleLR(theirs.optimizer, **params)
    our_scheduler = _C.Scheduler("OneCycleLR", params, ours.optimizer.rate)
    for step in range(60):
        ours.optimizer.rate = our_scheduler.rate
        ours.optimizer.momentum = our_scheduler.momentum
        theirs.step(step)
        ours.step(step)
        their_scheduler.step()
        our_scheduler.step()
    assert_near(ours.parameters, theirs.parameters, values)
    with pytest.raises(ValueError, match="60 times at most, as its options say, got step 61"):
        our_scheduler.step()
    assert our_scheduler.state() == 60


def test_adagrad_has_no_momentum_to_move():
    optimizer = _C.Optimizer("adagrad", {})
    assert optimizer.momentum is None
    with pytest.raises(ValueError, match="adagrad has no momentum to be set"):
        optimizer.momentum = 0.9


@pytest.mark.parametrize(("scheduler", "params"), SCHEDULERS)
def test_a_scheduler_goes_on_from_its_state(scheduler, params):
    name, options = find_native_scheduler(scheduler, params)
    whole, second = (_C.Scheduler(name, options, 0.1) for _ in range(2))
    for _ in range(77):
        whole.step()
    second.load_state(whole.state())
    for _ in range(3):
        assert (second.rate, second.momentum) == (whole.rate, whole.momentum)
        whole.step()
        second.step()


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("StepLr2", {}, "there is no scheduler 'StepLr2'; there are StepLR, MultiStepLR"),
        ("StepLR", {}, "StepLR needs the option step_size."),
        ("StepLR", {"step_size": 1.5}, "step_size to be a whole number of 1 or more, got 1.5."),
        (
            "StepLR",
            {"step_size": 2, "gama": 1},
            "StepLR has no option 'gama'; it has step_size, gamma.",
        ),
        ("MultiStepLR", {"milestones": 3}, "milestones to be a list of whole numbers, got 3."),
        (
            "LinearLR",
            {"start_factor": 0},
            "start_factor to be a number above 0 and up to 1, got 0.",
        ),
        ("OneCycleLR", {"max_lr": 1}, "needs total_steps, or epochs and steps_per_epoch."),
        (
            "OneCycleLR",
            {"max_lr": 1, "total_steps": 5, "anneal_strategy": "cosine"},
            "anneal_strategy to be one of cos, linear, got 'cosine'.",
        ),
    ],
)
def test_scheduler_options_that_are_not_known_are_refused_by_name(name, options, sentence):
    with pytest.raises(ValueError) as refused:
        find_native_scheduler(name, options)
    assert str(refused.value).startswith("[optim] ")
    assert sentence in str(refused.value)


# Which run natively


def test_flags_of_speed_are_dropped():
    assert find_native(torch.optim.Adam, {"lr": 0.1, "foreach": True}) == ("adam", {"lr": 0.1})
    assert find_native(torch.optim.SGD, {"fused": True, "differentiable": False}) == ("sgd", {})
    assert find_native(torch.optim.Adam) == ("adam", {})


def test_numbers_of_numpy_are_numbers():
    found = find_native(torch.optim.Adam, {"lr": np.float32(0.5), "betas": (np.float64(0.5), 0.9)})
    assert found == ("adam", {"lr": 0.5, "betas": [0.5, 0.9]})


class OwnAdam(torch.optim.Adam):
    pass


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        (torch.optim.RAdam, {}),
        (torch.optim.LBFGS, {}),
        (OwnAdam, {}),
        (torch.optim.Adam, {"capturable": True}),
        (torch.optim.Adam, {"differentiable": True}),
        (torch.optim.Adam, {"lr": torch.tensor(0.1)}),
        (torch.optim.Adam, {"betas": (torch.tensor(0.9), torch.tensor(0.99))}),
        (torch.optim.Adam, {"mometum": 0.9}),
        (torch.optim.NAdam, {"fused": True}),  # torch has none: it is to say so
        (torch.optim.SGD, {"nesterov": True}),
    ],
)
def test_what_the_native_ones_cannot_do_is_left_to_python(kind, params):
    assert find_native(kind, params) is None


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        (lr_scheduler.ReduceLROnPlateau, {}),
        (lr_scheduler.LambdaLR, {"lr_lambda": lambda epoch: 0.9**epoch}),
        (lr_scheduler.StepLR, {"step_size": 3, "last_epoch": 4}),
        (lr_scheduler.OneCycleLR, {"max_lr": [0.1, 0.2], "total_steps": 10}),
        (lr_scheduler.StepLR, {"step_sizes": 3}),
    ],
)
def test_schedulers_that_are_not_native_are_left_to_python(kind, params):
    assert find_native_scheduler(kind, params) is None


def test_options_left_at_none_are_not_given():
    params = {"max_lr": 0.1, "total_steps": 10, "epochs": None, "last_epoch": -1}
    expected = ("OneCycleLR", {"max_lr": 0.1, "total_steps": 10})
    assert find_native_scheduler(lr_scheduler.OneCycleLR, params) == expected


@pytest.fixture(autouse=True)
def quiet():
    """Schedulers warn of an optimizer that has not stepped; here they are stepped alone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


Plateau = lr_scheduler.ReduceLROnPlateau


@pytest.mark.parametrize("scheduler", [Plateau, partial(Plateau)])
@pytest.mark.parametrize("at_every_update", [False, True])
def test_a_rate_follows_the_loss(scheduler, at_every_update):
    rule = Rule("sgd", {"lr": 0.5})
    rule.schedule(scheduler, {"patience": 0, "factor": 0.5}, step_on_epoch=not at_every_update)
    used = rule.make()
    weight = torch.ones(1)
    used.start_epoch()  # after nothing
    for loss, rate in ((3.0, 0.5), (2.0, 0.5), (2.0, 0.25)):
        used.note_loss(loss)
        used.step({"w": weight}, {"w": torch.ones(1)}, 0)
        used.start_epoch()
        assert used.rate() == rate


def test_a_rate_goes_on_following_the_loss_from_a_checkpoint():
    rule = Rule("sgd", {"lr": 0.5})
    rule.schedule(Plateau, {"patience": 0, "factor": 0.5})
    first, weight = rule.make(), torch.ones(1)
    first.step({"w": weight}, {"w": torch.ones(1)}, 0)
    first.note_loss(1.0)
    first.start_epoch()
    first.note_loss(2.0)
    second = rule.make()
    second.load_state(*first.state(), {"w": weight})
    second.start_epoch()
    assert second.rate() == 0.25


def test_a_scheduler_that_torch_does_not_have_is_refused_with_its_name():
    rule = Rule(torch.optim.Adamax)
    with pytest.raises(ValueError, match="got 'StepLRs'"):
        rule.schedule("StepLRs", {})
