import pytest

from ravnest.local_pool import local_pool


def test_a_folder_is_for_one_fit_at_a_time(tmp_path):
    shape = {"providers": 1, "clusters": 1}
    with local_pool(tmp_path, shape, 1) as first:
        first.on_number(7)
        with (
            pytest.raises(ValueError, match="another fit is running"),
            local_pool(tmp_path, shape | {"providers": 2}, 1),
        ):
            pass
        assert (tmp_path / "unfinished" / "job.json").exists()
        first.check()
    with local_pool(tmp_path, shape, 1) as again:
        assert again.number == 7
