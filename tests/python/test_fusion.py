"""Trained sub-models become one state dict again, bit for bit."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import safetensors.torch
import torch
import zoo
from torch import nn

import ravnest
from ravnest import _C
from ravnest.utils import model_fusion

COMMAND = Path(sys.executable).parent / "ravnest"


class Reordered(nn.Module):
    """Modules are used in another order than they are registered, one of them never."""

    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(3), persistent=False)
        self.last = nn.Linear(8, 4)
        self.norm = nn.BatchNorm1d(8)
        self.unused = nn.Linear(2, 2)
        self.first = nn.Linear(6, 8, dtype=torch.float32)
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, x):
        return self.last(torch.relu(self.norm(self.first(x)))) * self.scale


def tiny_gpt():
    return zoo.GPT(vocab=64, seq=16, width=32, heads=2, layers=4)


CASES = {
    "gpt": (tiny_gpt, lambda: (torch.randint(0, 64, (2, 16)),)),
    "resnet18": (zoo.resnet18, lambda: (torch.rand(2, 3, 32, 32),)),
    "reordered": (Reordered, lambda: (torch.rand(4, 6),)),
}


def plan(model, example, nodes=3):
    pool = {
        str(i): {"IP": f"0.0.0.0:{8080 + i}", "benchmarks": {"ram": 8, "bandwidth": 100}}
        for i in range(nodes)
    }
    Path("node_data").mkdir(exist_ok=True)
    Path("node_data/node_configs.json").write_text(json.dumps(pool))
    ravnest.clusterize(model, example, verbose=False)


def nodes_of(cluster=0):
    found = [json.loads(path.read_text()) for path in Path("node_data/nodes").glob("node_*.json")]
    return sorted((n for n in found if n["cluster"] == cluster), key=lambda n: n["stage"])


def trained_file(node):
    return Path(node["template_path"]) / f"submod_{node['stage']}.safetensors"


def save(node, tensors, **changes):
    """As a provider does; tensors that live elsewhere hold old values."""
    metadata = {
        "plan": node["plan"],
        "cluster": str(node["cluster"]),
        "stage": str(node["stage"]),
        "stages": str(node["cluster_length"]),
        "run": "run-1",
        "passes": "120",
    } | changes
    stored = {
        name: torch.full_like(tensor, 77) if name in node["tied"] else tensor.contiguous().clone()
        for name, tensor in tensors.items()
    }
    safetensors.torch.save_file(stored, trained_file(node), metadata)


def save_all(model):
    """Every stage's part of the model's state dict, under the names that the stage has."""
    state = model.state_dict()
    for node in nodes_of():
        stage = _C.read_pt2(str(Path(node["template_path"]) / node["sub_model"]))
        save(node, {name: state[name] for name in stage.state_dict()})


def trained(build):
    """A model whose every number is another one than the plan's."""
    model = build()
    with torch.no_grad():
        for tensor in model.state_dict().values():
            if tensor.is_floating_point():
                tensor.add_(torch.rand_like(tensor) / 8)
            else:
                tensor.add_(41)
    return model


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)


@pytest.mark.parametrize("name", CASES)
def test_the_state_dict_is_the_models_own(project, name):
    build, example = CASES[name]
    plan(build(), example())
    model = trained(build)
    save_all(model)
    fused = model_fusion(cluster_id=0)
    expected = model.state_dict()
    assert list(fused) == list(expected)
    for key, tensor in expected.items():
        assert fused[key].dtype == tensor.dtype, key
        assert fused[key].shape == tensor.shape, key
        assert torch.equal(fused[key], tensor), key
    other = build()
    other.load_state_dict(torch.load("trained/trained_state_dict.pt", weights_only=True))
    x = example()
    assert torch.equal(other.eval()(*x), model.eval()(*x))
    beside = safetensors.torch.load_file("trained/trained_state_dict.safetensors")
    assert beside.keys() == expected.keys()
    assert all(torch.equal(beside[key], tensor) for key, tensor in expected.items())


def test_tied_names_share_their_storage(project):
    plan(tiny_gpt(), (torch.randint(0, 64, (2, 16)),))
    model = trained(tiny_gpt)
    assert any(node["tied"] for node in nodes_of())
    save_all(model)
    fused = ravnest.model_fusion()
    by_storage = {}
    for key, tensor in model.state_dict().items():
        by_storage.setdefault(tensor.data_ptr(), []).append(key)
    tied = [names for names in by_storage.values() if len(names) > 1]
    assert tied
    for names in tied:
        assert len({fused[key].data_ptr() for key in names}) == 1


def test_every_dtype_comes_back(project):
    class Everything(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)
            for dtype in ("bool", "uint8", "int8", "int16", "int32", "int64", "uint16"):
                value = torch.tensor([[1, 0, 1], [1, 1, 1]]).to(getattr(torch, dtype))
                self.register_buffer(f"of_{dtype}", value)
            for dtype in ("float16", "bfloat16", "float64"):
                self.register_buffer(f"of_{dtype}", torch.randn(2, 1).to(getattr(torch, dtype)))
            self.register_buffer("empty", torch.empty(0, 4))
            self.register_buffer("steps", torch.tensor(7))

        def forward(self, x):
            return self.linear(torch.relu(self.linear(x))).relu()

    model = Everything()
    plan(model, (torch.rand(2, 3),), nodes=1)
    save_all(model)
    fused = model_fusion()
    for key, tensor in model.state_dict().items():
        assert fused[key].dtype == tensor.dtype, key
        assert torch.equal(fused[key], tensor), key
    mapped = torch.load("trained/trained_state_dict.pt", weights_only=True, mmap=True)
    assert torch.equal(mapped["linear.weight"], model.linear.weight)


def test_the_command_says_what_it_fused(project):
    plan(Reordered(), (torch.rand(4, 6),))
    save_all(Reordered())
    done = subprocess.run(
        [COMMAND, "fuse", "--out", "here/state.pt"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    count = sum(p.numel() for p in Reordered().parameters())
    nbytes = sum(t.nbytes for t in Reordered().state_dict().values())
    assert done.stdout == (
        f"Fused cluster 0: 12 tensors, {count} parameters, {nbytes} B in here/state.pt and "
        "state.safetensors\n"
    )
    assert Path("here/state.safetensors").exists()


def test_sentences_for_what_is_not_there(project):
    with pytest.raises(ValueError, match="no plan in 'node_data': run clusterize first"):
        model_fusion()
    plan(Reordered(), (torch.rand(4, 6),))
    with pytest.raises(ValueError, match="node_0 at 0.0.0.0:8080 has not saved its weights: .*="):
        model_fusion()
    save_all(Reordered())
    with pytest.raises(ValueError, match="has no cluster 3: it has 1"):
        model_fusion(cluster_id=3)
    with pytest.raises(ValueError, match="whole number of 0 or more, got 'all'"):
        model_fusion("all")
    node = nodes_of()[1]
    save(node, safetensors.torch.load_file(trained_file(node)), run="run-2")
    with pytest.raises(ValueError, match="different runs: run-1 .node_0 .* and run-2 .node_1 "):
        model_fusion()
    trained_file(node).unlink()
    with pytest.raises(ValueError, match="node_1 at 0.0.0.0:8081 has not saved"):
        model_fusion()
    done = subprocess.run([COMMAND, "fuse"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("ravnest: [package] node_1 at 0.0.0.0:8081 has not saved")
    assert not Path("trained").exists()


def test_a_new_plan_needs_new_training(project):
    plan(Reordered(), (torch.rand(4, 6),))
    save_all(Reordered())
    kept = trained_file(nodes_of()[0]).read_bytes()
    plan(tiny_gpt(), (torch.randint(0, 64, (2, 16)),))
    trained_file(nodes_of()[0]).write_bytes(kept)
    with pytest.raises(ValueError, match="are of plan [0-9a-f]{16}, and the node's plan is"):
        model_fusion()
