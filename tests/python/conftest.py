import signal
import sys
from pathlib import Path

import pytest
import torch
from local_server import Pool

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Sums come out in one order only, and a loaded machine stays usable."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def hears_ctrl_c():
    """What a shell starts in the background ignores SIGINT, and what nohup starts SIGHUP; so would
    the children of the tests, which inherit what is ignored, and not what is handled."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)


@pytest.fixture(scope="module")
def lasting_pool(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAVNEST_HOME", str(folder / "home"))
        pool = Pool(folder)
        try:
            yield pool
        finally:
            pool.end()


@pytest.fixture
def pool(lasting_pool):
    try:
        yield lasting_pool
    finally:
        lasting_pool.settle()
