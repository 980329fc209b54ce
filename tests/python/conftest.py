import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Sums come out in one order only, and a loaded machine stays usable."""
    torch.set_num_threads(1)
