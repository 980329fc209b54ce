"""Sub-models on disk: each stage is a file that torch.export.load opens."""

import torch
import torch.nn.functional as F
import zoo
from against_eager import SEED, leaves

import ravnest


def run_in_row(stages, *values):
    """A row where each stage takes just what the one before gives."""
    for stage in stages:
        values = leaves(stage(*values))
    (output,) = values
    return output


def captured_cnn():
    torch.manual_seed(0)
    return ravnest.capture(zoo.CNN_Net(), args=(torch.rand(4, 1, 8, 8),))


def test_stages_saved_and_opened_by_torch_export(tmp_path):
    program = captured_cnn()
    stages = program.slice(3)
    modules = []
    for number, stage in enumerate(stages):
        stage.save(tmp_path / f"submod_{number}.pt2")
        modules.append(torch.export.load(tmp_path / f"submod_{number}.pt2").module())
    x = torch.rand(7, 1, 8, 8)
    torch.manual_seed(SEED)
    expected = program(x)
    torch.manual_seed(SEED)
    assert torch.equal(run_in_row(modules, x), expected)


def test_stages_saved_and_loaded(tmp_path):
    program = captured_cnn()
    loaded = []
    for number, stage in enumerate(program.slice(3)):
        stage.save(tmp_path / f"submod_{number}.pt2")
        loaded.append(ravnest.Program.load(tmp_path / f"submod_{number}.pt2"))
    program.eval()
    for stage in loaded:
        stage.eval()
    x = torch.rand(7, 1, 8, 8)
    assert torch.equal(run_in_row(loaded, x), program(x))


def test_every_cut_of_every_kind_of_crossing_can_be_saved(tmp_path):
    """Skip connections, sizes, tied weights, labels: whatever crosses, both files open."""
    tokens = torch.randint(0, 20, (3, 8))
    program = ravnest.capture(
        zoo.GPT(vocab=20, seq=8, layers=1, heads=2, width=8),
        args=(tokens,),
        loss=zoo.next_token_loss,
        target=tokens,
    )
    for cut in range(1, program.num_ops):
        for stage in program.slice([cut]):
            stage.save(tmp_path / "stage.pt2")
            torch.export.load(tmp_path / "stage.pt2")
            assert str(ravnest.Program.load(tmp_path / "stage.pt2")) == str(stage)


def test_a_stage_holds_its_own_weights_only(tmp_path):
    stages = captured_cnn().slice([3, 12])
    names = [set(stage.state_dict()) for stage in stages]
    assert set.union(*names) == set(zoo.CNN_Net().state_dict())
    assert sum(len(each) for each in names) == len(set.union(*names))
    stages[0].save(tmp_path / "first.pt2")
    assert set(ravnest.Program.load(tmp_path / "first.pt2").state_dict()) == names[0]


def test_reads_what_torch_export_wrote(tmp_path):
    model = zoo.UNet(width=4, depth=2)
    exported = torch.export.export(
        model,
        (torch.randn(4, 3, 8, 8),),
        dynamic_shapes=({0: torch.export.Dim.AUTO},),
        strict=False,
    )
    torch.export.save(exported, tmp_path / "unet.pt2")
    program = ravnest.Program.load(tmp_path / "unet.pt2")
    x = torch.randn(5, 3, 8, 8)
    assert torch.equal(program(x), model(x))
    assert set(program.state_dict()) == set(model.state_dict())


def test_trained_weights_are_what_is_saved(tmp_path):
    program = captured_cnn()
    optimizer = torch.optim.SGD(program.parameters().values(), lr=0.1)
    F.mse_loss(program(torch.rand(4, 1, 8, 8)), torch.rand(4, 10)).backward()
    optimizer.step()
    program.save(tmp_path / "trained.pt2")
    loaded = ravnest.Program.load(tmp_path / "trained.pt2")
    for name, tensor in program.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor), name


def test_loaded_weights_do_not_change_the_file(tmp_path):
    captured_cnn().save(tmp_path / "model.pt2")
    before = (tmp_path / "model.pt2").read_bytes()
    loaded = ravnest.Program.load(tmp_path / "model.pt2")
    with torch.no_grad():
        for parameter in loaded.parameters().values():
            parameter.zero_()
    loaded(torch.rand(4, 1, 8, 8))
    assert (tmp_path / "model.pt2").read_bytes() == before


def test_a_program_can_be_saved_over_the_file_it_came_from(tmp_path):
    path = tmp_path / "model.pt2"
    captured_cnn().save(path)
    loaded = ravnest.Program.load(path)
    expected = {name: tensor.clone() for name, tensor in loaded.state_dict().items()}
    loaded.save(path)
    for program in (loaded, ravnest.Program.load(path)):
        for name, tensor in expected.items():
            assert torch.equal(program.state_dict()[name], tensor), name
