"""Whole training runs, as a user runs them."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from commands import TRAIN, last_line, losses, wait_until
from mirror import content

from aiayn_plugin.atomic import hold_lock


def weights(path):
    """Return the weights in a checkpoint."""
    return torch.load(path, weights_only=True)["model"]


def test_the_last_epoch_is_saved_even_if_the_interval_does_not_divide_it(succeed, corpus, tmp_path):
    succeed(
        *("fairseq-train", corpus, *TRAIN, "--tokens-per-update", "4000", "--max-tokens", "1500"),
        *("--save-dir", tmp_path, "--save-interval", "2", "--max-epoch", "3"),
    )
    saved = {path.name for path in tmp_path.glob("checkpoint[0-9].pt")}
    assert saved == {"checkpoint2.pt", "checkpoint3.pt"}


def test_a_run_stopped_and_started_is_the_same_run(run, succeed, corpus, tmp_path):
    """Step, learning rate, optimizer, data order and dropout resume: weights are bit-identical."""
    command = [
        *("fairseq-train", corpus, *TRAIN, "--tokens-per-update", "4000", "--max-tokens", "1500"),
        *("--save-interval-updates", "4", "--disable-validation", "--update-ordered-indices-seed"),
    ]
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    first = succeed(*command, "--save-dir", whole, "--max-update", "12")
    for end in ("11", "12"):
        log = succeed(*command, "--save-dir", halves, "--max-update", end)
    assert re.search(r"Loaded checkpoint .*checkpoint_last.pt \(epoch 2 @ 11 updates\)", log.stdout)
    expected, found = weights(whole / "checkpoint_last.pt"), weights(halves / "checkpoint_last.pt")
    for name in expected:
        assert torch.equal(expected[name], found[name]), name

    # a finished run takes no further update, and only records that it was started
    def checkpoints():
        return {path: data for path, data in content(halves).items() if path.suffix == ".pt"}

    files = checkpoints()
    log = run(*command, "--save-dir", halves, "--max-update", "12")
    assert log.returncode == 0 and "train_inner" not in log.stdout + log.stderr
    assert "| this run has finished (--max-update 12, after 12 updates)" in log.stdout
    assert checkpoints() == files

    # what a log opens with, and what the batches are
    assert "not enough disk" not in first.stdout
    assert re.search(r"setting +paper +this run\nN +6 +1 +< changed\n", first.stdout)
    assert re.search(r"label_smoothing +0.1 +0.1\n", first.stdout)
    batches = re.search(
        r"each has ([\d,]+) target and ([\d,]+) source tokens .* in (\d+) batches of at most "
        r"([\d,]+) tokens on one device, with ([\d.]+)% padding",
        first.stdout,
    )
    target, source, accumulated, most, padding = (
        float(n.replace(",", "")) for n in batches.groups()
    )
    assert target == pytest.approx(4000, rel=0.05) and source > 0
    assert accumulated >= 3 and most <= 1500 and 0 < padding < 10
    logged = [int(float(n)) for n in re.findall(r"train_inner .* wpb=([\d.]+)", first.stdout)]
    assert len(logged) == 12 and max(logged) < 1.2 * 4000

    # every interval has its checkpoint, also where an epoch ends with it, and no epoch has one
    names = sorted(path.name for path in whole.iterdir())
    updates = {int(name.split("_")[2][:-3]) for name in names if name.count("_") == 2}
    assert updates == {4, 8, 12}
    assert not [name for name in names if re.fullmatch(r"checkpoint\d+.pt", name)]


@pytest.mark.long
def test_only_one_run_at_a_time_uses_a_directory(run, succeed, corpus, tmp_path):
    """A killed run leaves no lock, even while the processes that load its data live on."""
    options = [corpus, *TRAIN, "--num-workers", "2", "--disable-validation"]
    options += ["--save-dir", tmp_path, "--max-update"]
    program, log = Path(sys.executable).with_name("fairseq-train"), tmp_path / "log"
    with (
        open(log, "w") as file,
        subprocess.Popen([program, *options, "100000"], stdout=file, stderr=file) as first,
    ):
        try:
            wait_until(lambda: "train_inner" in log.read_text(), first)
            message = "in use by another training run: stop it, or give a different --save-dir"
            assert last_line(run("fairseq-train", *options, "1")).endswith(
                f"{tmp_path} is {message}"
            )
            assert first.poll() is None
        finally:
            first.kill()
    with hold_lock(tmp_path, "still locked", timeout=4):
        pass
    succeed("fairseq-train", *options, "1")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="fairseq 0.12.2 has no hook for this")
def test_patience_resumes_its_count_after_a_restart(run, corpus, tmp_path):
    """Without learning no validation is better than the first one."""
    options = [
        *(corpus, *TRAIN, "--save-dir", tmp_path, "--no-epoch-checkpoints"),
        *("--lr-scheduler", "fixed", "--lr", "0", "--patience", "2", "--save-interval", "1"),
    ]
    command = ["fairseq-train", *options]
    first = run(*command, "--max-epoch", "2")
    assert first.returncode == 0 and "early stop" not in first.stdout, first.stderr
    second = run(sys.executable, "-m", "fairseq_cli.train", *options, "--max-epoch", "9")
    assert second.stdout.count("| valid on 'valid' subset |") == 1, second.stderr
    assert "early stop since valid performance hasn't improved for last 2 runs" in second.stdout
    third = run(*command, "--max-epoch", "9")
    assert "this run has finished (--patience 2): nothing left to train" in third.stdout
    assert third.returncode == 0 and "valid on" not in third.stdout, third.stderr


@pytest.mark.long
@pytest.mark.parametrize("flags", [["--bf16"], ["--eval-bleu", "--eval-bleu-detok", "space"]])
def test_precision_and_evaluation_train_and_restart(succeed, corpus, tmp_path, flags):
    command = [
        *("fairseq-train", corpus, *TRAIN, *flags, "--save-dir", tmp_path, "--disable-validation"),
    ]
    if "--eval-bleu" in flags:
        command.remove("--disable-validation")
        command += ["--eval-bleu-args", '{"beam": 1, "max_len_b": 5}', "--max-tokens-valid", "4096"]
    for end in ("1", "2"):
        log = succeed(*command, "--max-update", end)
    assert "@ 1 updates)" in log.stdout and "num_updates=2" in log.stdout


@pytest.fixture
def small_disk(tmp_path):
    """A file system of a megabyte."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", tmp_path]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("may not mount a small file system here")
    yield tmp_path
    subprocess.run(["umount", "-l", tmp_path], check=True)


def test_a_full_disk_ends_the_run_and_leaves_complete_files(run, corpus, small_disk):
    log = run(
        *("fairseq-train", corpus, *TRAIN, "--save-dir", small_disk, "--max-update", "6"),
        *("--save-interval-updates", "1", "--keep-interval-updates", "1", "--disable-validation"),
    )
    assert re.search(
        r"error: .*/checkpoint_1_\d.pt cannot be written: No space left on device; "
        "free disk space and run the same command again$",
        last_line(log),
    )
    names = {path.name for path in small_disk.iterdir()} - {"run.jsonl"}
    assert "checkpoint_last.pt" in names and not any(name.endswith(".tmp") for name in names)
    for name in names:
        assert weights(small_disk / name)


@pytest.mark.parametrize("stops", [[6], pytest.param([3, 6], marks=pytest.mark.long)])
def test_two_processes_equal_one_with_twice_the_accumulation(run, succeed, corpus, tmp_path, stops):
    options = [corpus, *TRAIN, "--dropout", "0", "--batch-size", "300", "--warmup-updates", "4"]
    # With the paper's ε, rounding changes the update of near-zero gradients.
    options += ["--adam-eps", "1e-3", "--disable-validation", "--max-update"]
    # An epoch has 7 batches: 4 and 3, so that one of two processes has an empty one at its end,
    # in the first epoch after another batch of the same update, and later alone.
    alone = succeed(
        *("fairseq-train", *options, "6", "--update-freq", "4,6", "--save-dir", tmp_path / "alone")
    )
    program = Path(sys.executable).with_name("fairseq-train")
    in_two = []
    for stop in stops:
        log = succeed(
            *("torchrun", "--standalone", "--nproc_per_node", "2", program, *options, stop),
            *("--update-freq", "2,3"),
            *("--save-dir", tmp_path / "two"),
            env={"OMP_NUM_THREADS": "1"},
        )
        assert "(rank 1)" in log.stdout + log.stderr
        in_two += losses(log)
    assert len(losses(alone)) == 6 and losses(alone) == in_two
    record = (tmp_path / "two" / "run.jsonl").read_text()
    assert record.count('"event": "start"') == record.count('"devices": 2') == len(stops)
    one, two = (weights(tmp_path / name / "checkpoint_last.pt") for name in ("alone", "two"))
    for name, weight in one.items():
        # the rate of the last update is 0.07
        torch.testing.assert_close(two[name], weight, rtol=0, atol=1e-4)

    # As on two nodes that do not share --save-dir.
    shutil.copytree(tmp_path / "two", tmp_path / "0")
    on_its_node = 'exec "$@" --save-dir "$0/$RANK"'
    log = run(
        *("torchrun", "--standalone", "--nproc_per_node", "2", "--no-python"),
        *("bash", "-c", on_its_node, tmp_path, program, *options, "9", "--update-freq", "2"),
        env={"OMP_NUM_THREADS": "1"},
    )
    assert log.returncode != 0 and "only 1 of 2 processes find" in log.stderr
