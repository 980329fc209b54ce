"""clusterize and simulate, as the documents have them and beyond."""

import json
import random
import shutil
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
import torch
import zoo
from torch import nn

import ravnest
from ravnest.operations.utils import clusterize as old_clusterize

COMMAND = Path(sys.executable).parent / "ravnest"
REFERENCE_KEYS = {
    "node_id",
    "local_host",
    "local_port",
    "template_path",
    "rank",
    "ring_size",
    "cluster_length",
    "param_addresses",
    "ring_ids",
    "forward_target_host",
    "forward_target_port",
    "backward_target_host",
    "backward_target_port",
    "node_type",
}


def pool(count, ram=8, bandwidth=10, **more):
    return {
        str(i): {
            "IP": f"0.0.0.0:{8080 + i}",
            "benchmarks": {"ram": ram, "bandwidth": bandwidth, **more},
        }
        for i in range(count)
    }


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A blank project directory with the reference's three nodes."""
    monkeypatch.chdir(tmp_path)
    Path("node_data").mkdir()
    write_pool(pool(3))
    return tmp_path


def write_pool(nodes):
    Path("node_data/node_configs.json").write_text(json.dumps(nodes))


def node(index):
    return json.loads(Path(f"node_data/nodes/node_{index}.json").read_text())


def digits():
    torch.manual_seed(0)
    return zoo.CNN_Net(), torch.rand(64, 1, 8, 8)


def test_the_walkthrough_gives_one_cluster_of_three_in_the_order_of_the_nodes(project, capsys):
    ravnest.set_seed(42)
    model, x = digits()
    plan = ravnest.clusterize(model=model, example_args=(x,))
    assert [len(c["stages"]) for c in plan.clusters] == [3]
    assert [node(i)["node_type"] for i in range(3)] == ["root", "stem", "leaf"]
    out = capsys.readouterr().out
    assert out.startswith(
        "Node(0, Cluster(0))\nself.IP(0.0.0.0:8080)\nRing IDs({0: 'conv2d_1.weight'})\n"
        "Address2Param({'0.0.0.0:8080': 'conv2d_1.weight'})\n\n\nNode(1, Cluster(0))\n"
    )
    tree = {
        str(p.relative_to("node_data/cluster_0"))
        for p in Path("node_data").rglob("*.*")
        if p.is_file() and "cluster_0" in p.parts
    }
    assert tree == {
        "0.0.0.0:8080/model_inputs.json",
        *(f"0.0.0.0:{8080 + i}/submod.pt2" for i in range(3)),
        *(
            f"0.0.0.0:{8080 + i}/submod_{i}_{way}.json"
            for i in range(3)
            for way in ("input", "output")
        ),
    }


def test_node_files_have_the_references_keys(project):
    model, x = digits()
    ravnest.clusterize(model, (x,), verbose=False)
    first, second, third = (node(i) for i in range(3))
    assert first.keys() >= REFERENCE_KEYS
    assert (first["backward_target_host"], first["backward_target_port"]) == (None, None)
    assert (first["forward_target_host"], first["forward_target_port"]) == ("0.0.0.0", 8081)
    assert (second["backward_target_port"], second["forward_target_port"]) == (8080, 8082)
    assert third["forward_target_host"] is None
    assert first["template_path"] == "node_data/cluster_0/0.0.0.0:8080/"
    assert (first["rank"], first["ring_size"], first["cluster_length"]) == (0, 1, 3)


@pytest.mark.parametrize("seed", range(8))
def test_the_reference_pools_for_every_seed(project, seed):
    model, x = digits()
    program = ravnest.capture(model, (x,))
    for nodes, expected in (
        (pool(3), [3]),
        (pool(2, 128, 20) | {"2": pool(3, 64, 40)["2"]}, [3]),
        (pool(6), [3, 3]),
    ):
        write_pool(nodes)
        plan = ravnest.clusterize(program, seed=seed, out=None, verbose=False)
        assert [len(c["stages"]) for c in plan.clusters] == expected


def test_without_examples_from_the_old_path(project):
    model, _ = digits()
    plan = old_clusterize(model=model)
    assert not plan.data["costs_known"]
    assert [node(i)["node_type"] for i in range(3)] == ["root", "stem", "leaf"]
    assert "parameter sizes decided" in str(plan)


def test_the_sub_models_chained_are_the_model(project):
    model, x = digits()
    model.eval()
    ravnest.clusterize(model, (x,), verbose=False)
    value = x
    for i in range(3):
        stage = ravnest.Program.load(f"node_data/cluster_0/0.0.0.0:{8080 + i}/submod.pt2").eval()
        value = stage(value)
        value = value[0] if isinstance(value, (tuple, list)) else value
    assert torch.equal(value, model(x))
    names = [
        name
        for i in range(3)
        for name in ravnest.Program.load(
            f"node_data/cluster_0/0.0.0.0:{8080 + i}/submod.pt2"
        ).state_dict()
    ]
    assert sorted(names) == sorted(model.state_dict())


@pytest.mark.parametrize("form", ["module", "scripted", "loaded", "pt2", "pt"])
def test_models_in_every_form(project, form):
    model, x = digits()
    if form == "scripted":
        model = torch.jit.script(model)
    elif form in ("loaded", "pt"):
        torch.jit.script(model).save("model_scripted.pt")
        model = torch.jit.load("model_scripted.pt") if form == "loaded" else "model_scripted.pt"
    elif form == "pt2":
        ravnest.capture(model, (x,)).save("model.pt2")
        model = "model.pt2"
    plan = ravnest.clusterize(model, (x,), verbose=False)
    assert plan.data["batch"] == 64
    assert len(plan.clusters[0]["stages"]) == 3


def test_keyword_examples_and_a_bare_tensor(project):
    model, x = digits()
    assert ravnest.clusterize(model, example_kwargs={"x": x}, verbose=False).data["batch"] == 64
    assert ravnest.clusterize(model, x, verbose=False).data["batch"] == 64


def test_pass_data_runs_the_model_and_leaves_it_alone(project):
    model, x = digits()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state = torch.get_rng_state()
    program = ravnest.capture(model, (x,))
    plan = ravnest.clusterize(program, (x,), pass_data=True, verbose=False)
    plain = ravnest.clusterize(program, (x,), verbose=False)
    assert torch.equal(torch.get_rng_state(), state)
    for name, tensor in {**model.state_dict(), **program.state_dict()}.items():
        assert torch.equal(tensor, before[name]), name
    # Measured, not guessed: about the same memory, other numbers for work.
    ratio = plan.data["model_bytes"] / plain.data["model_bytes"]
    assert 0.85 < ratio < 1.15
    shares = [[s["flops_share"] for s in p.clusters[0]["stages"]] for p in (plan, plain)]
    assert shares[0] != shares[1]
    with pytest.raises(ValueError, match="needs example inputs"):
        ravnest.clusterize(model, pass_data=True)


def test_too_little_ram_is_a_value_error_with_the_numbers(project):
    write_pool(pool(2, ram=0.00001))
    model, x = digits()
    with pytest.raises(ValueError, match=r"training it takes .* GB .* 2 machines have .*Enough"):
        ravnest.clusterize(model, (x,))
    assert not Path("node_data/nodes").exists()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "line 1 is not JSON"),
        ("{\n  0: 1}", "line 2 is not JSON"),
        ("{}", "an empty one"),
        ('{"0": {"benchmarks": {"ram": 1, "bandwidth": 1}}}', 'key "IP" is missing'),
        (json.dumps(pool(2, ram=-1)), 'expected "ram" to be'),
        (json.dumps({**pool(1), "1": pool(1)["0"]}), "the same IP"),
    ],
)
def test_a_malformed_pool_is_named(project, text, sentence):
    Path("node_data/node_configs.json").write_text(text)
    model, x = digits()
    with pytest.raises(ValueError, match=r"node_configs\.json: .*" + sentence):
        ravnest.clusterize(model, (x,))


def test_a_missing_pool_is_named(project):
    shutil.rmtree("node_data")
    model, x = digits()
    with pytest.raises(OSError, match=r"node_configs\.json"):
        ravnest.clusterize(model, (x,))


def test_again_replaces_the_plan_and_nothing_else(project):
    model, x = digits()
    write_pool(pool(6))
    Path("node_data/notes.txt").write_text("mine")
    ravnest.clusterize(model, (x,), verbose=False)
    assert Path("node_data/cluster_1").is_dir()
    write_pool(pool(3))
    ravnest.clusterize(model, (x,), verbose=False)
    assert not Path("node_data/cluster_1").exists()
    assert sorted(p.name for p in Path("node_data/nodes").iterdir()) == [
        f"node_{i}.json" for i in range(3)
    ]
    assert Path("node_data/notes.txt").read_text() == "mine"


def test_clusters_can_be_fixed_or_found(project):
    write_pool(pool(4, bandwidth=1000, speed=50))
    model, x = digits()
    program = ravnest.capture(model, (x,))
    for count in (1, 2, 4):
        plan = ravnest.clusterize(program, clusters=count, out=None, verbose=False)
        assert len(plan.clusters) == count
    found = ravnest.clusterize(program, clusters="auto", out=None, verbose=False)
    rates = {
        count: ravnest.clusterize(program, clusters=count, out=None, verbose=False)
        .simulate(minutes=1)
        .samples_per_second
        for count in range(1, 5)
    }
    assert len(found.clusters) == max(rates, key=rates.get)
    with pytest.raises(ValueError, match="expected clusters to be"):
        ravnest.clusterize(program, clusters="three", out=None)


def test_bad_arguments_get_a_sentence(project):
    model, x = digits()
    program = ravnest.capture(model, (x,))
    for options in ({"batch": "a"}, {"seed": -1}, {"population": 1}, {"clusters": 10**30}):
        with pytest.raises(ValueError, match="expected"):
            ravnest.clusterize(program, out=None, verbose=False, **options)
    plan = ravnest.clusterize(program, out=None, verbose=False)
    for options in (
        {"minutes": "5"},
        {"churn": (10,)},
        {"churn": (0, 0)},
        {"away": [(0, 1)]},
        {"reduce_factor": -1},
    ):
        with pytest.raises(ValueError, match="expected"):
            plan.simulate(**options)
    with pytest.raises(OSError, match="no/such"):
        ravnest.clusterize(program, picture="no/such/plan.svg", verbose=False)
    assert not Path("node_data/nodes").exists()


def test_examples_give_the_batch_of_a_file(project):
    model, x = digits()
    ravnest.capture(model, (x,)).save("model.pt2")
    assert ravnest.clusterize("model.pt2", (x[:8],), verbose=False).data["batch"] == 8


def test_ctrl_c_ends_planning(project):
    write_pool(pool(400, speed=50))
    script = (
        "import ravnest, sys; p = ravnest.Program.load('model.pt2'); print('go', flush=True);"
        "ravnest.clusterize(p, out=None, population=2000, generations=100000)"
    )
    model, x = digits()
    ravnest.capture(model, (x,)).save("model.pt2")
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "go\n"
    process.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in process.communicate(timeout=60)[1]


def test_every_zoo_shape_is_planned(project):
    write_pool(pool(7, bandwidth=100, speed=50))
    for model, args in (
        (zoo.GPT(layers=2, width=32, heads=2, seq=16, vocab=50), (torch.randint(0, 50, (4, 16)),)),
        (zoo.UNet(width=4, depth=2), (torch.randn(2, 3, 16, 16),)),
        (zoo.LSTMClassifier(), (torch.randint(0, 1000, (4, 12)),)),
        (
            zoo.inception_v3(num_classes=10, width=0.25, small_input=True),
            (torch.randn(2, 3, 75, 75),),
        ),
    ):
        plan = ravnest.clusterize(model, args, verbose=False)
        held = [name for s in plan.clusters[0]["stages"] for name in s["parameters"]]
        tied = len(dict(model.named_parameters()))
        assert len(held) == len(set(held)) == tied
        for ring in plan.rings:
            assert len(ring["holders"]) == len(plan.clusters)


def test_pictures(project):
    model, x = digits()
    plan = ravnest.clusterize(model, (x,), picture="plan.svg", verbose=False)
    plan.simulate(minutes=0.1, picture="timeline.svg")
    for name in ("plan.svg", "timeline.svg"):
        root = ElementTree.parse(name).getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert "0.0.0.0:8080" in Path(name).read_text()


def test_simulation_answers_how_fast_and_why(project):
    write_pool(pool(3, bandwidth=1000, speed=5))
    model, x = digits()
    calm = ravnest.simulate(model, (x,), minutes=5)
    gone = ravnest.simulate(model, (x,), minutes=5, away=[(1, 60, 210)])
    slower = ravnest.simulate(model, (x,), minutes=5, schedule="sync")
    assert gone.samples_per_second == pytest.approx(calm.samples_per_second / 2, rel=0.05)
    assert slower.samples_per_second < calm.samples_per_second
    assert "samples/s" in str(calm)
    for machine in calm.data["clusters"][0]["machines"]:
        assert machine["busy"] + sum(machine["idle"].values()) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="async or sync"):
        ravnest.simulate(model, (x,), schedule="both")


def test_set_seed_seeds_everything():
    ravnest.set_seed(7)
    first = (random.random(), np.random.rand(), torch.rand(1).item())
    ravnest.set_seed(7)
    assert first == (random.random(), np.random.rand(), torch.rand(1).item())
    with pytest.raises(ValueError, match="expected a whole number"):
        ravnest.set_seed(-1)


# The command


def run(*arguments):
    return subprocess.run(
        [COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=120
    )


@pytest.fixture
def saved(project):
    model, x = digits()
    ravnest.capture(model, (x,)).save("model.pt2")
    return project


def test_the_command_writes_the_same_plan(saved):
    ravnest.clusterize("model.pt2", seed=3, out="from_python", verbose=False)
    done = run("clusterize", "--model", "model.pt2", "--seed", 3, "--picture", "plan.svg")
    assert done.returncode == 0, done.stderr
    assert "Node(2, Cluster(0))" in done.stdout
    assert "3 machines in 1 cluster" in done.stdout
    assert Path("plan.svg").exists()
    theirs = json.loads(Path("from_python/nodes/node_0.json").read_text())
    assert {**node(0), "template_path": ""} == {**theirs, "template_path": ""}


def test_the_command_in_json_and_dry(saved):
    done = run("clusterize", "--model", "model.pt2", "--json", "--dry-run", "--clusters", "auto")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["clusters"]
    assert not Path("node_data/nodes").exists()


def test_the_command_refuses_with_a_sentence(saved):
    for arguments, sentence in (
        (("clusterize",), "--model is required"),
        (("clusterize", "--model", "model.pt2", "--clusters", "many"), "expected 'auto'"),
        (("clusterize", "--model", "none.pt2"), "none.pt2"),
        (("simulate", "--model", "model.pt2", "--churn", "soon"), "expected absences"),
        (("simulate", "--model", "model.pt2", "--minutes", "-1"), "expected a number from"),
    ):
        done = run(*arguments)
        assert done.returncode in (1, 2)
        assert done.stdout == ""
        assert sentence in done.stderr


def test_simulate_from_the_command_line(saved):
    done = run(
        "simulate",
        "--model",
        "model.pt2",
        "--minutes",
        1,
        "--churn",
        "2@10-20",
        "--picture",
        "timeline.svg",
    )
    assert done.returncode == 0, done.stderr
    assert "async:" in done.stdout and "sync:" in done.stdout
    assert Path("timeline.svg").exists()
    done = run("simulate", "--model", "model.pt2", "--minutes", 1, "--json")
    assert json.loads(done.stdout)["schedule"] == "async"


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x):
        return self.a(x)


def test_more_machines_than_parts_leave_spares(project, capsys):
    plan = ravnest.clusterize(Tiny(), (torch.rand(2, 4),))
    assert plan.data["spares"]
    assert "has no stage" in capsys.readouterr().out


def test_shard_divides_data_among_clusters(tmp_path):
    nodes = {
        str(i): {"IP": f"127.0.0.1:{9000 + i}", "benchmarks": {"ram": 8, "bandwidth": 10}}
        for i in range(6)
    }
    pool = tmp_path / "node_configs.json"
    pool.write_text(json.dumps(nodes))
    model = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(6)))
    ravnest.clusterize(
        model, (torch.rand(2, 4),), clusters=2, nodes=pool, out=tmp_path, verbose=False
    )
    data = list(range(7))
    by_node = [list(ravnest.shard(data, f"node_{i}", tmp_path)) for i in range(6)]
    parts = {tuple(part) for part in by_node}
    assert sorted(parts) == [(0, 2, 4, 6), (1, 3, 5)]
    assert all(by_node.count(list(part)) == 3 for part in parts), "the same for all of a cluster"
    with pytest.raises(ValueError, match="a sample or more for each of 2 clusters, got 1"):
        ravnest.shard([0], "node_0", tmp_path)
    with pytest.raises(ValueError, match="node_9"):
        ravnest.shard(data, "node_9", tmp_path)
