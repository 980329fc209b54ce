"""The example of two clusters, in its short form."""

import shutil
from pathlib import Path

import pytest
from local_cluster import Scripts, write_pool

SORTER = Path(__file__).resolve().parents[2] / "examples" / "sorter"
SHORT = (1, 2560)  # epochs, sequences


@pytest.fixture
def folder(tmp_path):
    for path in SORTER.glob("*.py"):
        shutil.copy(path, tmp_path)
    write_pool(tmp_path, 6)
    return tmp_path


def run(scripts, name, *args):
    scripts.start(name, f"{name}.py", *args)
    assert scripts.exit_codes(within=120)[name] == 0, scripts.log(name)
    return scripts.log(name)


def test_scripts_train_two_clusters_that_sort_alike(folder):
    with Scripts(folder) as scripts:
        run(scripts, "cluster_formation")
        for i in (5, 0, 4, 1, 3, 2):
            scripts.start(f"node_{i}", "provider.py", f"node_{i}", *SHORT)
        assert set(scripts.exit_codes(within=120).values()) == {0}, scripts.logs()
        assert "of unseen sequences are sorted exactly" in run(scripts, "evaluate")


def test_one_call_trains_them(folder):
    with Scripts(folder) as scripts:
        assert "40 batches on two clusters" in run(scripts, "fit_sorter", *SHORT)
    assert (folder / "curves.png").stat().st_size > 0
