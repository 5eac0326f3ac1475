"""Disk space for the checkpoints of a training run."""

import pytest
from models import configuration
from omegaconf import OmegaConf

from aiayn_plugin.fairseq_plugin.disk_space import check_disk_space, needed_bytes, used_bytes

pytestmark = pytest.mark.usefixtures("quiet")


@pytest.mark.parametrize(
    "settings, checkpoints, values",
    [
        ({}, 22, 3),  # 20 to average, the best and the last: float32 weights and two moments each
        ({"checkpoint.no_save_optimizer_state": True}, 22, 1),
        ({"checkpoint.keep_interval_updates": -1}, 502, 3),
        ({"optimization.max_update": 3000}, 5 + 2, 3),  # it writes five
        ({"optimization.max_update": 0, "optimization.max_epoch": 1}, 22, 3),
        ({"checkpoint.keep_last_epochs": 7, "checkpoint.no_epoch_checkpoints": False}, 22 + 7, 3),
        ({"checkpoint.keep_best_checkpoints": 10}, 22 + 10, 3),
        ({"ema.store_ema": True, "ema.ema_fp32": True}, 22, 5),
        ({"checkpoint.no_save": True}, 0, 3),
    ],
)
def test_settings_change_the_number_and_the_size_of_checkpoints(settings, checkpoints, values):
    cfg = configuration("--arch", "aiayn_big")
    for name, value in settings.items():
        OmegaConf.update(cfg, name, value)
    assert needed_bytes(cfg, 10) == checkpoints * values * 4 * 10


def test_more_checkpoints_than_the_disk_holds_give_a_warning(tmp_path, caplog):
    cfg = configuration("--arch", "aiayn_big")
    cfg.checkpoint.save_dir = str(tmp_path / "not" / "yet")
    check_disk_space(cfg, 1)
    assert not caplog.text
    check_disk_space(cfg, 10**14)
    assert "not enough disk space for the checkpoints" in caplog.text


def test_hard_links_count_once(tmp_path):
    (tmp_path / "checkpoint_1_2.pt").write_bytes(bytes(100))
    (tmp_path / "checkpoint_last.pt").hardlink_to(tmp_path / "checkpoint_1_2.pt")
    (tmp_path / "checkpoint_1_4.pt").write_bytes(bytes(50))
    assert used_bytes(str(tmp_path)) == 150
