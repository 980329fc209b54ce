"""Modes, weights and what a forward may do to them."""

import copy

import pytest
import torch
import torch.nn.functional as F
import zoo
from against_eager import SEED, Rewound, assert_same, check, eager_step
from torch import nn

import ravnest


def squares(output):
    return output.square().sum()


def capture_and_check(model, size=3, features=6, other=5):
    torch.manual_seed(7)
    program = ravnest.capture(copy.deepcopy(model), args=(torch.randn(size, features),))
    for batch in (size, other):
        check(program, model, (torch.randn(batch, features),), loss=squares)
    return program


class AlwaysDropout(nn.Module):
    """F.dropout without `training=` drops in evaluation, too: so must the Program."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 32)
        self.sometimes = nn.Dropout(0.5)

    def forward(self, x):
        return F.dropout(self.sometimes(self.linear(x)), 0.5)


def test_functional_dropout_that_ignores_the_mode():
    program = capture_and_check(AlwaysDropout())
    program.eval()
    assert (program(torch.ones(4, 6)) == 0).any()


def test_dropout_masks_follow_the_seed():
    program = ravnest.capture(nn.Dropout(0.5), args=(torch.ones(4, 50),))
    x = torch.ones(4, 50)
    draws = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        draws.append(program(x))
    torch.manual_seed(1)
    assert torch.equal(draws[0], nn.Dropout(0.5)(x))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    program.eval()
    assert torch.equal(program(x), x)


class ManyDropouts(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.alpha = nn.AlphaDropout(0.3)
        self.feature = nn.FeatureAlphaDropout(0.3)
        self.channels = nn.Dropout1d(0.3)
        self.rectify = nn.RReLU()

    def forward(self, x):
        x = self.feature(self.alpha(self.linear(x)))
        return self.rectify(self.channels(x.unsqueeze(2)).squeeze(2))


def test_every_kind_of_dropout():
    capture_and_check(ManyDropouts())


class ManyNorms(nn.Module):
    def __init__(self):
        super().__init__()
        self.tracked = nn.BatchNorm1d(6)
        self.untracked = nn.BatchNorm1d(6, track_running_stats=False)
        self.plain = nn.BatchNorm1d(6, affine=False)
        self.instance = nn.InstanceNorm1d(6, affine=True, track_running_stats=True)
        self.bare_instance = nn.InstanceNorm1d(6)

    def forward(self, x):
        x = self.untracked(self.tracked(x)) + self.plain(x)
        x = self.instance(x.unsqueeze(2) * torch.arange(1.0, 5.0))
        return self.bare_instance(x).flatten(1)


def test_batch_and_instance_norms():
    capture_and_check(ManyNorms())


def test_batch_norm_without_running_statistics():
    model = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6, track_running_stats=False))
    program = capture_and_check(model)
    assert program.buffers() == {}


def frozen_norm():
    model = nn.Sequential(
        nn.Linear(6, 6), nn.BatchNorm1d(6), nn.ReLU(inplace=True), nn.BatchNorm1d(6)
    )
    model.train()
    model[1].eval()
    return model


def test_frozen_batch_norm_stays_frozen():
    program = capture_and_check(frozen_norm())
    before = {name: buffer.clone() for name, buffer in program.buffers().items()}
    program.eval()
    program.train()
    program(torch.randn(4, 6))
    assert torch.equal(program.buffers()["1.running_mean"], before["1.running_mean"])
    assert not torch.equal(program.buffers()["3.running_mean"], before["3.running_mean"])


def test_a_model_captured_in_eval_mode_still_trains():
    model = zoo.CNN_Net()
    program = ravnest.capture(copy.deepcopy(model).eval(), args=(torch.rand(4, 1, 8, 8),))
    assert not program.training
    check(program, model.train(), (torch.rand(5, 1, 8, 8),), loss=squares)


def test_capture_leaves_the_model_alone():
    model = zoo.CNN_Net().train()
    model.bn_2.eval()
    modes = [module.training for module in model.modules()]
    state = copy.deepcopy(model.state_dict())
    inputs = torch.rand(4, 1, 8, 8)
    random = torch.get_rng_state()
    ravnest.capture(model, args=(inputs,))
    assert [module.training for module in model.modules()] == modes
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(model.state_dict()[name], state[name]) for name in state)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_mode_is_a_flag_of_program_and_stages():
    program = ravnest.capture(zoo.CNN_Net(), args=(torch.rand(4, 1, 8, 8),))
    assert program.training
    program.eval()
    assert not program.training
    stages = program.slice(3)
    x = torch.rand(4, 1, 8, 8)
    stages.train()
    torch.manual_seed(SEED)
    once = stages(x)
    torch.manual_seed(SEED + 1)
    assert not torch.equal(once, stages(x))
    stages.eval()
    assert torch.equal(stages(x), stages(x))


class Tied(nn.Module):
    """One matrix under three names, one module used twice."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 6, bias=False)
        self.second = nn.Linear(6, 6, bias=False)
        self.second.weight = self.first.weight
        self.alias = self.first.weight
        self.twice = nn.Linear(6, 6)

    def forward(self, x):
        x = self.twice(torch.tanh(self.first(x)))
        x = self.twice(torch.tanh(self.second(x)))
        return x @ self.alias


def test_tied_weights_sum_their_gradients():
    program = capture_and_check(Tied())
    assert list(program.state_dict()) == list(Tied().state_dict())


def test_tied_weights_are_one_tensor_in_every_stage():
    model = zoo.GPT(vocab=20, seq=8, layers=1, heads=2, width=8)
    program = ravnest.capture(model, args=(torch.randint(0, 20, (2, 8)),))
    stages = program.slice(3)
    weight = program.parameters()["wte.weight"]
    assert stages.parameters()["wte.weight"].data_ptr() == weight.data_ptr()
    assert list(stages.state_dict()) == list(program.state_dict())
    state = program.state_dict()
    assert state["wte.weight"].data_ptr() == state["lm_head.weight"].data_ptr()


class FrozenPart(nn.Module):
    def __init__(self):
        super().__init__()
        self.fixed = nn.Linear(6, 6).requires_grad_(False)
        self.learned = nn.Linear(6, 6)
        self.unused = nn.Linear(6, 6)

    def forward(self, x):
        return self.learned(torch.tanh(self.fixed(x)))


def test_frozen_and_unused_parameters_have_no_gradient():
    program = capture_and_check(FrozenPart())
    parameters = program.parameters()
    assert not parameters["fixed.weight"].requires_grad
    assert parameters["learned.weight"].requires_grad
    assert set(parameters) == {name for name, _ in FrozenPart().named_parameters()}


class Buffers(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(6))
        self.register_buffer("scale", torch.linspace(1, 2, 6), persistent=False)

    def forward(self, x):
        y = self.linear(x) * self.scale
        self.count += 1
        self.mean.mul_(0.9).add_(y.detach().mean(dim=0), alpha=0.1)
        return y - self.mean


def test_buffers_changed_by_the_forward():
    program = capture_and_check(Buffers())
    assert list(program.state_dict()) == list(Buffers().state_dict())
    assert set(program.buffers()) == {"count", "mean", "scale"}


def test_buffers_that_are_not_persistent_survive_a_file(tmp_path):
    program = ravnest.capture(Buffers(), args=(torch.randn(3, 6),))
    program.save(tmp_path / "model.pt2")
    loaded = ravnest.Program.load(tmp_path / "model.pt2")
    assert torch.equal(loaded.buffers()["scale"], torch.linspace(1, 2, 6))
    assert "scale" not in loaded.state_dict()


class InPlace(nn.Module):
    """In-place operators on values, on views, and into slices."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.register_buffer("table", torch.zeros(4, 6))

    def forward(self, x):
        y = self.linear(x).add_(x).mul_(2)
        part = y[:, 1:3]
        part.add_(1)
        y[:, 0] = x[:, 5]
        flat = y.view(-1)
        flat.clamp_(max=3)
        self.table[1] = y.detach().sum(dim=0)
        y.relu_()
        return y * part.sum(dim=1, keepdim=True)


def test_in_place_operators():
    capture_and_check(InPlace())


class FirstInPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.relu = nn.ReLU(inplace=True)
        self.linear = nn.Linear(6, 6)

    def forward(self, x):
        return self.linear(self.relu(x))


def test_an_input_changed_in_place_changes_as_in_the_model():
    model = FirstInPlace()
    program = ravnest.capture(copy.deepcopy(model), args=(torch.randn(3, 6),))
    for runner in (program, program.slice([1])):
        ours, theirs = (torch.linspace(-1, 1, 24).view(4, 6) for _ in range(2))
        assert torch.equal(runner(ours), model(theirs))
        assert torch.equal(ours, theirs)


class Sizes(nn.Module):
    """Integers computed early from the batch and used late."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x):
        batch, width = x.shape
        half = batch * width // 2
        scale = 1.0 / batch
        y = torch.tanh(self.linear(x))
        y = torch.relu(y + 1)
        z = torch.cat([y.reshape(-1)[:half], y.new_zeros(batch)])
        weights = torch.arange(batch + half, device=x.device)
        return z * scale + weights.view(batch + half).sqrt()


def test_integers_that_cross_the_cut():
    torch.manual_seed(7)
    model = Sizes()
    program = ravnest.capture(copy.deepcopy(model), args=(torch.randn(4, 6),))
    for batch in (4, 6, 10):
        check(program, model, (torch.randn(batch, 6),), loss=squares)


class PartlyWithoutGradient(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 6)
        self.teacher = nn.Linear(6, 6)

    def forward(self, x):
        y = self.body(x)
        with torch.no_grad():
            goal = torch.tanh(self.teacher(x))
            scale = y.abs().mean() + 1
            with torch.enable_grad():
                again = self.body(x * 2)
        return (y - goal) / scale + again + y.detach()


def test_regions_without_gradient():
    capture_and_check(PartlyWithoutGradient())


def test_no_grad_around_the_call():
    program = ravnest.capture(zoo.CNN_Net(), args=(torch.rand(4, 1, 8, 8),))
    with torch.no_grad():
        for runner in (program, program.slice(3)):
            assert not runner(torch.rand(4, 1, 8, 8)).requires_grad
    assert program(torch.rand(4, 1, 8, 8)).requires_grad


def test_loss_is_captured_and_the_labels_go_to_the_last_stage():
    model = zoo.resnet18(num_classes=4, width=4, small_input=True)
    x, labels = torch.randn(4, 3, 16, 16), torch.randint(0, 4, (4,))
    program = ravnest.capture(copy.deepcopy(model), args=(x,), loss=F.cross_entropy, target=labels)
    stages = program.slice(3)
    stages.eval()
    model.eval()
    loss, output = stages(x, labels)
    assert torch.equal(output, model(x))
    assert torch.equal(loss, F.cross_entropy(model(x), labels))
    assert stages[0](x) is not None  # without the labels


def test_loss_with_the_target_as_the_last_argument():
    model = zoo.CNN_Net()
    x, target = torch.rand(4, 1, 8, 8), torch.rand(4, 10)
    given = ravnest.capture(copy.deepcopy(model), args=(x,), loss=F.mse_loss, target=target)
    last = ravnest.capture(copy.deepcopy(model), args=(x, target), loss=F.mse_loss)
    expected = eager_step(model, (x,), loss=lambda y: F.mse_loss(y, target))
    for program in (given, last):
        assert_same(expected, Rewound(program, model).step((x, target), training=True))


def test_loss_as_a_module_with_weights_of_its_own():
    class Weighted(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("weight", torch.tensor([1.0, 2.0, 3.0]))

        def forward(self, output, target):
            return F.cross_entropy(output, target, weight=self.weight)

    model = nn.Linear(6, 3)
    x, labels = torch.randn(4, 6), torch.randint(0, 3, (4,))
    criterion = Weighted()
    program = ravnest.capture(copy.deepcopy(model), args=(x,), loss=criterion, target=labels)
    loss, output = program(x, labels)
    assert torch.equal(output, model(x))
    assert torch.equal(loss, criterion(model(x), labels))
    assert list(program.state_dict()) == list(model.state_dict())


def test_other_weights_load():
    program = ravnest.capture(zoo.CNN_Net(), args=(torch.rand(4, 1, 8, 8),))
    other = zoo.CNN_Net().eval()
    program.load_state_dict(other.state_dict())
    program.eval()
    x = torch.rand(3, 1, 8, 8)
    for runner in (program, program.slice(2)):
        assert torch.equal(runner(x), other(x))


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn", "bidirectional", "given_state"])
def test_recurrent_layers(kind):
    torch.manual_seed(0)
    makers = {
        "lstm": lambda: nn.LSTM(6, 5, num_layers=2, dropout=0.3, batch_first=True),
        "gru": lambda: nn.GRU(6, 5, num_layers=2, dropout=0.3, batch_first=True),
        "rnn": lambda: nn.RNN(6, 5, nonlinearity="relu", batch_first=True),
        "bidirectional": lambda: nn.LSTM(6, 5, bidirectional=True, batch_first=True),
        "given_state": lambda: nn.LSTM(6, 5, proj_size=3, batch_first=True),
    }
    model = makers[kind]()

    def inputs(size):
        x = torch.randn(size, 7, 6)
        if kind != "given_state":
            return (x,)
        return x, (torch.randn(1, size, 3), torch.randn(1, size, 5))

    program = ravnest.capture(copy.deepcopy(model), args=inputs(3))
    sizes = (3, 4) if kind != "given_state" else (3,)
    for size in sizes:
        check(program, model, inputs(size), loss=lambda output: squares(output[0]))
