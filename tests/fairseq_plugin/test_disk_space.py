"""The disk that the checkpoints of a training need."""

import pytest
from models import configuration

from aiayn_plugin.fairseq_plugin import disk_space as disk

pytestmark = pytest.mark.usefixtures("quiet")


def test_the_disk_of_a_big_run():
    """It keeps 20 checkpoints, the best and the last, each with three copies in float32."""
    needed = disk.disk_needed(configuration("--arch", "aiayn_big"), 214_171_648)
    assert needed == 22 * 3 * 4 * 214_171_648
    assert disk.disk_free("does/not/exist/yet") > 0
    cfg = configuration("--arch", "aiayn_big", "--no-save-optimizer-state")
    assert disk.disk_needed(cfg, 10) == 22 * 4 * 10
    cfg = configuration("--arch", "aiayn_big", "--keep-interval-updates", "-1")
    assert disk.disk_needed(cfg, 10) == 502 * 3 * 4 * 10


def test_the_disk_in_use_counts_each_file_once(tmp_path):
    (tmp_path / "checkpoint_1_2.pt").write_bytes(bytes(100))
    (tmp_path / "checkpoint_last.pt").hardlink_to(tmp_path / "checkpoint_1_2.pt")
    (tmp_path / "checkpoint_1_4.pt").write_bytes(bytes(50))
    assert disk.disk_used(str(tmp_path)) == 150
    assert disk.disk_used(str(tmp_path / "absent")) == 0


def test_a_run_without_checkpoints_needs_no_disk():
    assert disk.disk_needed(configuration("--arch", "aiayn_big", "--no-save"), 10) == 0
