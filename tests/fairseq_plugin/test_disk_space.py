"""Disk space for the checkpoints of a training run."""

import pytest
from models import configuration

from aiayn_plugin.fairseq_plugin.disk_space import (
    check_disk_space,
    free_bytes,
    needed_bytes,
    used_bytes,
)

pytestmark = pytest.mark.usefixtures("quiet")


def test_disk_space_of_a_big_training():
    """It keeps 20 checkpoints, the best and the last: float32 weights and two moments each."""
    needed = needed_bytes(configuration("--arch", "aiayn_big"), 214_171_648)
    assert needed == 22 * 3 * 4 * 214_171_648
    assert free_bytes("does/not/exist/yet") > 0
    cfg = configuration("--arch", "aiayn_big", "--no-save-optimizer-state")
    assert needed_bytes(cfg, 10) == 22 * 4 * 10
    cfg = configuration("--arch", "aiayn_big", "--keep-interval-updates", "-1")
    assert needed_bytes(cfg, 10) == 502 * 3 * 4 * 10
    cfg = configuration("--arch", "aiayn_big", "--max-update", "3000")  # it writes five
    assert needed_bytes(cfg, 10) == (5 + 2) * 3 * 4 * 10
    cfg = configuration("--arch", "aiayn_big", "--max-update", "0", "--max-epoch", "1")
    assert needed_bytes(cfg, 10) == 22 * 3 * 4 * 10
    cfg = configuration("--arch", "aiayn_big", "--keep-last-epochs", "7")
    assert needed_bytes(cfg, 10) == (22 + 7) * 3 * 4 * 10


def test_more_checkpoints_than_the_disk_holds_are_a_warning(tmp_path, caplog):
    cfg = configuration("--arch", "aiayn_base", "--save-dir", str(tmp_path))
    check_disk_space(cfg, 1)
    assert not caplog.text
    check_disk_space(cfg, 10**14)
    assert "not enough disk space for the checkpoints" in caplog.text


def test_hard_links_count_once(tmp_path):
    (tmp_path / "checkpoint_1_2.pt").write_bytes(bytes(100))
    (tmp_path / "checkpoint_last.pt").hardlink_to(tmp_path / "checkpoint_1_2.pt")
    (tmp_path / "checkpoint_1_4.pt").write_bytes(bytes(50))
    assert used_bytes(str(tmp_path)) == 150
    assert used_bytes(str(tmp_path / "absent")) == 0


def test_a_training_without_checkpoints_needs_no_space():
    assert needed_bytes(configuration("--arch", "aiayn_big", "--no-save"), 10) == 0
