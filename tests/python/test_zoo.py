"""Every model of the zoo against eager PyTorch: whole and cut, training and not.

The same kernels run in the same order, so everything is compared bit for bit;
the exceptions say so where they are.
"""

import copy
from functools import cache

import pytest
import torch
import zoo
from against_eager import (
    SEED,
    Rewound,
    assert_same,
    differences,
    eager_step,
    leaves,
    structure,
)
from zoo_cases import CASES, Case

import ravnest

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
each_mode = pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])


def capture(case: Case):
    """Each case captured once, with its loss where it has one."""
    model = case.build()
    batch = case.make_batch(case.batches[0])
    if case.script:
        return ravnest.capture(torch.jit.script(model), args=batch.args)
    if case.loss is None:
        return ravnest.capture(model, args=batch.args, kwargs=batch.keywords)
    return ravnest.capture(
        model, args=batch.args, kwargs=batch.keywords, loss=case.loss, target=batch.target
    )


def find_case(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


@cache
def captured(name: str) -> Rewound:
    case = find_case(name)
    return Rewound(capture(case), case.build())


@cache
def expected_step(name: str, training: bool, size: int):
    case = find_case(name)
    batch = case.make_batch(size)
    model = case.build().train(training)
    return eager_step(model, batch.args, batch.keywords, loss=case.loss_for(batch))


def program_args(case: Case, batch) -> tuple:
    return batch.args if case.loss is None else (*batch.args, batch.target)


def program_step(case: Case, training: bool, size: int, *, stages=None, rewound=None):
    batch = case.make_batch(size)
    loss = case.loss_for(batch) if case.loss is None else None
    rewound = rewound or captured(case.name)
    return rewound.step(
        program_args(case, batch), batch.keywords, training=training, stages=stages, loss=loss
    )


def assert_stages_same(case: Case, training: bool, size: int, many_cuts) -> None:
    """Every one of `many_cuts` is tried before any failure is told."""
    program = captured(case.name).program
    expected = expected_step(case.name, training, size)
    wrong = {}
    for cuts in many_cuts:
        actual = program_step(case, training, size, stages=program.slice(cuts))
        found = differences(expected, actual)
        if found:
            wrong[str(cuts)] = found
    shown = [f"cut at {cuts}: {'; '.join(found[:3])}" for cuts, found in wrong.items()]
    assert not wrong, f"{len(wrong)} cuts differ\n" + "\n".join(shown[:8])


@each_case
@each_mode
@pytest.mark.parametrize("which", [0, 1], ids=["captured_batch", "other_batch"])
def test_whole(case, training, which):
    size = case.batches[which]
    assert_same(expected_step(case.name, training, size), program_step(case, training, size))


@each_case
@each_mode
def test_cut_in_two(case, training):
    """At every place; in the large graphs at every `case.cuts`-th."""
    places = range(1, captured(case.name).program.num_ops, case.cuts)
    assert_stages_same(case, training, case.batches[1], [[place] for place in places])


@each_case
@each_mode
def test_cut_in_many(case, training):
    num_ops = captured(case.name).program.num_ops
    thirds = [num_ops // 3, 2 * num_ops // 3]
    uneven = [1, 2, num_ops // 2, num_ops - 1]
    assert_stages_same(case, training, case.batches[0], [2, 3, 5, thirds, uneven])


@each_case
@each_mode
def test_a_stage_for_every_op(case, training):
    everywhere = list(range(1, captured(case.name).program.num_ops))
    assert_stages_same(case, training, case.batches[1], [everywhere])


@each_case
def test_without_loss_returns_what_the_model_returns(case):
    model = case.build()
    batch = case.make_batch(case.batches[0])
    program = ravnest.capture(copy.deepcopy(model), args=batch.args, kwargs=batch.keywords)
    other = case.make_batch(case.batches[1])
    for mode in ("train", "eval"):
        getattr(model, mode)()
        getattr(program, mode)()
        torch.manual_seed(SEED)
        expected = model(*other.args, **other.keywords)
        torch.manual_seed(SEED)
        actual = program(*other.args, **other.keywords)
        assert structure(actual) == structure(expected)
        for one, another in zip(leaves(expected), leaves(actual), strict=True):
            assert torch.equal(one, another)


@each_case
def test_state_dict_is_the_models_own(case):
    expected = case.build().state_dict()
    program = captured(case.name)
    program.rewind()
    actual = program.program.state_dict()
    assert list(actual) == list(expected)
    for name, tensor in expected.items():
        assert torch.equal(actual[name], tensor), name
    case.build().load_state_dict(actual)


@each_case
def test_an_optimizer_trains_it_as_it_trains_the_model(case):
    """Three steps, the second with another batch size, on the whole; momentum included."""
    model = case.build().train()
    program = captured(case.name)
    program.rewind()
    program.program.train()
    names = [name for name, _ in model.named_parameters()]
    ours = [program.program.parameters()[name] for name in names]
    optimizers = [
        torch.optim.SGD(weights, lr=0.05, momentum=0.9)
        for weights in (list(model.parameters()), ours)
    ]
    for number, which in enumerate([0, 1, 0]):
        batch = case.make_batch(case.batches[which])
        loss_of = case.loss_for(batch)
        torch.manual_seed(number)
        expected = loss_of(model(*batch.args, **batch.keywords))
        torch.manual_seed(number)
        actual = program.program(*program_args(case, batch), **batch.keywords)
        actual = loss_of(actual) if case.loss is None else actual[0]
        assert torch.equal(expected, actual), f"loss of step {number}"
        for loss, optimizer in zip((expected, actual), optimizers, strict=True):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    for name, tensor in model.state_dict().items():
        assert torch.equal(program.program.state_dict()[name], tensor), name


@each_case
def test_saved_and_loaded(case, tmp_path):
    program = captured(case.name)
    program.rewind()
    program.program.save(tmp_path / "model.pt2")
    loaded = ravnest.Program.load(tmp_path / "model.pt2")
    assert str(loaded) == str(program.program)
    assert list(loaded.state_dict()) == list(program.program.state_dict())
    size = case.batches[1]
    again = Rewound(loaded, case.build())
    for training in (True, False):
        actual = program_step(case, training, size, rewound=again)
        assert_same(expected_step(case.name, training, size), actual)


@each_case
def test_saved_opens_in_torch_export(case, tmp_path):
    """Saved is the training form: dropout drops, batch norm counts."""
    program = captured(case.name)
    program.rewind()
    program.program.save(tmp_path / "model.pt2")
    module = torch.export.load(tmp_path / "model.pt2").module()
    batch = case.make_batch(case.batches[1])
    args = program_args(case, batch)
    program.program.train()
    torch.manual_seed(SEED)
    expected = leaves(program.program(*args, **batch.keywords))
    torch.manual_seed(SEED)
    actual = leaves(module(*args, **batch.keywords))
    assert len(expected) == len(actual)
    assert all(torch.equal(*pair) for pair in zip(expected, actual, strict=True))


def test_eval_of_attention_without_gradients():
    """Without gradients eager attention takes a fused kernel of its own, so: 1e-5 relative."""
    case = find_case("vit")
    program = captured("vit")
    program.rewind()
    batch = case.make_batch(7)
    model = case.build().eval()
    program.program.eval()
    with torch.no_grad():
        expected = model(*batch.args)
        _, actual = program.program(*batch.args, batch.target)
    assert not actual.requires_grad
    assert (expected - actual).norm() <= 1e-5 * expected.norm()


def test_plain_module_without_example_is_scripted():
    model = zoo.CNN_Net()
    program = ravnest.capture(copy.deepcopy(model))
    x = torch.rand(6, 1, 8, 8)
    for mode in ("train", "eval"):
        getattr(model, mode)()
        getattr(program, mode)()
        torch.manual_seed(SEED)
        expected = model(x)
        torch.manual_seed(SEED)
        assert torch.equal(program(x), expected)
    for name, buffer in model.named_buffers():
        assert torch.equal(program.buffers()[name], buffer), name


def test_torchscript_file(tmp_path):
    model = zoo.TwoFacedNet()
    torch.jit.script(model).save(str(tmp_path / "model.pt"))
    from_path = ravnest.capture(str(tmp_path / "model.pt"))
    from_module = ravnest.capture(torch.jit.load(str(tmp_path / "model.pt")))
    x = torch.randn(5, 12)
    model.eval()
    for program in (from_path, from_module):
        program.eval()
        assert torch.equal(program(x), model(x))
        assert list(program.state_dict()) == list(model.state_dict())
