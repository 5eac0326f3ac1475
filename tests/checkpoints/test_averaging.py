"""§6.1 Averaging, of hand-made checkpoints."""

import pytest
import torch

from aiayn_plugin.checkpoints.averaging import average
from aiayn_plugin.cli import main


def checkpoint(path, values, name="w", dtype=torch.float32, **more):
    """Write a checkpoint with one weight and the number n, and return its path."""
    weights = {name: torch.tensor(values, dtype=dtype), "n": torch.tensor(3), **more}
    torch.save({"model": weights, "cfg": {"a": 1}, "last_optimizer_state": {"big": 1}}, path)
    return path


def test_the_mean_in_float32(tmp_path):
    paths = [
        checkpoint(tmp_path / f"{x}.pt", [1.0, x], dtype=torch.float16)
        for x in (2048.0, 2050.0, 2054.0)
    ]
    state = average(paths)
    assert state["model"]["w"].dtype == torch.float32
    assert state["model"]["w"].tolist() == pytest.approx([1.0, 6152 / 3], rel=1e-7)
    assert state["model"]["n"].item() == 3
    assert state["cfg"] == {"a": 1} and state["last_optimizer_state"] is None


def test_sums_are_in_float64(tmp_path):
    paths = [checkpoint(tmp_path / f"{x}.pt", [x]) for x in (1e8, 1.0, -1e8)]
    assert average(paths)["model"]["w"].item() == pytest.approx(1 / 3)


def test_a_matrix_with_two_names_is_stored_once(tmp_path):
    shared, paths = torch.randn(5), [tmp_path / "1.pt", tmp_path / "2.pt"]
    equal = {"w": shared, "tied": shared, "apart": shared.clone()}
    torch.save({"model": equal}, paths[0])
    torch.save({"model": {**equal, "apart": -shared}}, paths[1])
    mean = average(paths)["model"]
    assert mean["w"].data_ptr() == mean["tied"].data_ptr()
    assert torch.equal(mean["w"], shared) and not mean["apart"].any()


def test_the_last_checkpoints_by_number_of_updates(tmp_path, error):
    for epoch, updates in ((1, 90), (1, 100), (2, 1000), (2, 200)):
        checkpoint(tmp_path / f"checkpoint_{epoch}_{updates}.pt", [float(updates)])
    checkpoint(tmp_path / "checkpoint_last.pt", [7.0])
    checkpoint(tmp_path / "checkpoint3.pt", [8.0])
    out = tmp_path / "new" / "mean.pt"

    def mean(*options):
        main(["average", "--inputs", str(tmp_path), "--output", str(out), *options])
        return torch.load(out, weights_only=True)["model"]["w"].item()

    assert mean("--num-update-checkpoints", "2") == 600.0
    bounded = ("--num-update-checkpoints", "2", "--checkpoint-upper-bound", "200")
    assert mean(*bounded) == 150.0
    more = ("--num-update-checkpoints", "4", "--checkpoint-upper-bound", "200")
    message = "holds 3 update checkpoints up to 200, not 4: give --num-update-checkpoints 3 "
    assert message in error("average", "--inputs", tmp_path, "--output", out, *more)
    assert mean("--num-epoch-checkpoints", "1") == 8.0
    assert [p.name for p in out.parent.iterdir()] == ["mean.pt"], "nothing unfinished is left"


def test_bad_input_gives_one_line(tmp_path, error):
    good = checkpoint(tmp_path / "good.pt", [1.0, 2.0])
    checkpoint(tmp_path / "shape.pt", [1.0])
    checkpoint(tmp_path / "names.pt", [1.0, 2.0], name="v")
    checkpoint(tmp_path / "numbers.pt", [1.0, 2.0], n=torch.tensor(4))
    checkpoint(tmp_path / "types.pt", [1.0, 2.0], n=torch.tensor(3.0))
    for name, state in {
        "dictionary": {"dictionaries": {"source": "a", "target": "b"}},
        "settings": {"settings": {"h": 4, "neighbourhood": None, "positions": "sinusoids"}},
    }.items():
        weights = torch.load(good, weights_only=True)
        torch.save({**weights, "task_state": state}, tmp_path / f"{name}.pt")
    (tmp_path / "short.pt").write_bytes(good.read_bytes()[:300])
    (tmp_path / "twin.pt").hardlink_to(good)  # like checkpoint_last.pt to a numbered checkpoint
    out = tmp_path / "out.pt"
    cases = {
        "shape.pt": "different models: w is (1,) in shape.pt and (2,) in good.pt",
        "names.pt": "different models: v is (2,) in names.pt and missing in good.pt",
        "numbers.pt": "disagree on n, which cannot be averaged",
        "types.pt": "disagree on n, which cannot be averaged",
        "dictionary.pt": "were trained with different settings or dictionaries",
        "settings.pt": "were trained with different settings or dictionaries",
        "short.pt": "short.pt cannot be loaded safely: it is truncated",
        "twin.pt": "are the same checkpoint, which would count twice",
        "absent.pt": "absent.pt does not exist: check the paths",
    }
    for name, message in cases.items():
        assert message in error("average", "--inputs", good, tmp_path / name, "--output", out)
        assert not out.exists()
    message = error("average", "--inputs", good, "--output", out.with_suffix(".safetensors"))
    assert "out.safetensors: checkpoints end in .pt; aiayn bundle" in message
    for name in ("checkpoint1.pt", "checkpoint_best.pt", "checkpoint_last.pt"):
        (tmp_path / name).touch()
    for options, message in (
        (
            ["--num-update-checkpoints", "3"],
            "holds 0 update checkpoints, not 3: give --num-epoch-checkpoints 1 or --inputs "
            f"{tmp_path / 'checkpoint_last.pt'}",
        ),
        (["--num-update-checkpoints", "0"], "cannot average 0"),
        (["--checkpoint-upper-bound", "3"], "needs --num-update-checkpoints"),
        ([], f"{tmp_path} is a directory: give --num-update-checkpoints N or"),
    ):
        assert message in error("average", "--inputs", tmp_path, "--output", out, *options)


def test_the_average_does_not_keep_the_last_checkpoints_moving_average(tmp_path):
    weights = {"w": torch.ones(2)}
    extra = {"ema": weights, "ema_fp32_params": weights, "epoch": 1}
    paths = [tmp_path / "1.pt", tmp_path / "2.pt"]
    for path in paths:
        torch.save({"model": weights, "cfg": None, "extra_state": extra}, path)
    assert average(paths)["extra_state"] == {"epoch": 1}
