"""Whole trainings, as a user runs them and as fairseq's trainer runs them."""

import io
import logging
import re
import sys
from pathlib import Path

import pytest
import torch
from fairseq import checkpoint_utils, options, tasks, utils
from fairseq.data.iterators import GroupedIterator
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.distributed import utils as distributed_utils
from fairseq.trainer import Trainer

from aiayn_plugin.training.optimizer import lrate

SMALL = ["--arch", "aiayn_tiny", "--N", "1", "--d-model", "32", "--d-ff", "64", "--cpu",
         "--log-format", "simple", "--log-interval", "1", "--num-workers", "0"]
#: Without what fairseq does with CUDA alone: flattened gradients, and skipping what overflows.
FP16 = ["--fp16", "--fp16-no-flatten-grads", "--fp16-init-scale", "4"]


def trainer(corpus, save_dir, *flags):
    """fairseq's trainer for a command line, and its first batches; continues from save_dir."""
    argv = [str(corpus), *SMALL, "--save-dir", str(save_dir), *flags]
    cfg = convert_namespace_to_omegaconf(
        options.parse_args_and_arch(options.get_training_parser(), argv)
    )
    utils.set_torch_seed(cfg.common.seed)
    task = tasks.setup_task(cfg.task)
    model, criterion = task.build_model(cfg.model), task.build_criterion(cfg.criterion)
    made = Trainer(cfg, task, model, criterion)
    _, epoch = checkpoint_utils.load_checkpoint(cfg.checkpoint, made)
    return made, epoch


def rates_taken(made, epoch, updates):
    """The rate that the optimiser holds at the moment it takes each update."""
    taken = []
    made.optimizer.optimizer.register_step_pre_hook(
        lambda optimizer, args, kwargs: taken.append(optimizer.param_groups[0]["lr"])
    )
    batches = epoch.next_epoch_itr(shuffle=True)
    for _ in range(updates):
        made.train_step([next(batches)])
    return taken


@pytest.fixture
def quiet():
    logging.disable(logging.INFO)
    yield
    logging.disable(logging.NOTSET)


def test_update_k_is_taken_with_the_rate_of_k_also_after_a_restart(corpus, tmp_path, quiet):
    made, epoch = trainer(corpus, tmp_path, "--warmup-updates", "3")
    assert rates_taken(made, epoch, 2) == pytest.approx([lrate(k, 32, 3) for k in (1, 2)])
    checkpoint_utils.save_checkpoint(made.cfg.checkpoint, made, epoch, 1.0)
    made, epoch = trainer(corpus, tmp_path, "--warmup-updates", "3")
    assert made.get_num_updates() == 2
    assert rates_taken(made, epoch, 3) == pytest.approx([lrate(k, 32, 3) for k in (3, 4, 5)])


def test_what_processes_of_a_resumed_run_send_each_other(corpus, tmp_path, quiet):
    """Rank 0 loads a checkpoint and sends it, each tensor replaced by a number, to the others."""
    made, epoch = trainer(corpus, tmp_path)
    rates_taken(made, epoch, 1)
    checkpoint_utils.save_checkpoint(made.cfg.checkpoint, made, epoch, 1.0)
    state = checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "checkpoint_last.pt"))
    buffer = io.BytesIO()
    torch.save(distributed_utils._split_tensors_from_obj(state, []), buffer)
    buffer.seek(0)
    received = torch.load(buffer, map_location="cpu")
    assert received["cfg"].model.d_model == 32
    assert received["model"]["decoder.embedding.weight"].index >= 0


def test_validation_loses_no_sentence(corpus, tmp_path, quiet):
    """Batches of fairseq are multiples of 8, and what is left over is dropped: 1,014 mod 8 is 6."""
    made, _ = trainer(corpus, tmp_path, "--required-batch-size-multiple", "8")
    made.task.load_dataset("valid")
    batches = made.get_valid_iterator("valid").next_epoch_itr(shuffle=False)
    assert sum(batch["nsentences"] for batch in batches) == 1014


def test_a_typed_schedule_and_smoothing_win(corpus, tmp_path, quiet):
    flags = ["--lr-scheduler", "fixed", "--lr", "0.001", "--label-smoothing", "0.2"]
    made, epoch = trainer(corpus, tmp_path, *flags)
    assert made.get_criterion().eps == 0.2
    assert rates_taken(made, epoch, 2) == [0.001, 0.001]


@pytest.mark.parametrize("precision", [[], ["--bf16"], FP16], ids=["float32", "bf16", "fp16"])
def test_the_fused_loss_is_the_one_of_fairseqs_criterion(corpus, tmp_path, precision, quiet):
    """Same model, same batch: loss, nll and gradients as from the whole matrix of scores."""
    losses, slopes = [], []
    for criterion in ("aiayn_label_smoothed_cross_entropy", "label_smoothed_cross_entropy"):
        flags = ["--criterion", criterion, "--label-smoothing", "0.1", "--dropout", "0"]
        made, epoch = trainer(corpus, tmp_path / criterion, *flags, *precision)
        sample, _ = made._prepare_sample(next(epoch.next_epoch_itr(shuffle=False)))
        loss, size, log = made.criterion(made.model, sample)
        loss.backward()
        losses.append(torch.stack((loss.float(), log["nll_loss"].float())) / size)
        slopes.append(made.get_model().projection.grad.float() / size)
    loose = {"rtol": 0.02, "atol": 2e-4} if precision else {"rtol": 1e-5, "atol": 1e-7}
    torch.testing.assert_close(losses[0], losses[1], **loose)
    torch.testing.assert_close(slopes[0], slopes[1], **loose)


@pytest.mark.parametrize("flags", [["--bf16"], FP16], ids=["bf16", "fp16"])
def test_half_precision_trains_as_float32_does(corpus, tmp_path, flags, quiet):
    """From the same weights, on the same batches; and what is summed up over updates is float32."""
    losses = []
    for precision in ([], flags):
        made, epoch = trainer(
            corpus, tmp_path, "--dropout", "0", "--warmup-updates", "50", *precision
        )
        batches = 20 * list(epoch.next_epoch_itr(shuffle=True))
        losses.append([made.train_step([batch])["loss"] for batch in batches[:20]])
    assert losses[1] == pytest.approx(losses[0], abs=0.01) and losses[1] != losses[0]
    assert losses[1][-1] < losses[1][0] - 0.5
    moments = made.optimizer.optimizer.state.values()
    kept = [tensor for state in moments for tensor in state.values()]
    kept += [weight for group in made.optimizer.param_groups for weight in group["params"]]
    assert {tensor.dtype for tensor in kept} == {torch.float32}


def test_bfloat16_rounds_neither_weights_nor_residual_sums(corpus, tmp_path, quiet):
    made, epoch = trainer(corpus, tmp_path, "--bf16")
    sample, _ = made._prepare_sample(next(epoch.next_epoch_itr(shuffle=True)))
    features, _ = made.model(**sample["net_input"], features_only=True)
    weights = made.get_model().parameters()
    assert {tensor.dtype for tensor in (features, *weights)} == {torch.float32}


def weights(path):
    return torch.load(path, weights_only=True)["model"]


def test_a_run_stopped_and_started_is_the_same_run(run, corpus, tmp_path):
    """Step, rate, optimiser, data order and dropout: the weights are equal to the last bit."""
    command = ["fairseq-train", corpus, "--user-dir", "aiayn_plugin", *SMALL,
               "--tokens-per-update", "4000", "--max-tokens", "1500",
               "--save-interval-updates", "4", "--validate-interval", "100"]
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    first = run(*command, "--save-dir", whole, "--max-update", "12")
    assert first.returncode == 0, first.stderr
    for end in ("5", "12"):
        log = run(*command, "--save-dir", halves, "--max-update", end)
        assert log.returncode == 0, log.stderr
    assert re.search(r"Loaded checkpoint .*checkpoint_last.pt \(epoch . @ 5 updates\)", log.stdout)
    expected, found = weights(whole / "checkpoint_last.pt"), weights(halves / "checkpoint_last.pt")
    for name in expected:
        assert torch.equal(expected[name], found[name]), name

    # what a log opens with, and what the batches are
    assert re.search(r"setting +paper +this run\nN +6 +1 +< changed\n", first.stdout)
    assert re.search(r"label_smoothing +0.1 +0.1\n", first.stdout)
    batches = re.search(r"of ([\d,]+) target and ([\d,]+) source tokens .*: (\d+) batches of at "
                        r"most ([\d,]+) tokens on each of 1 devices", first.stdout)
    target, source, accumulated, most = (int(n.replace(",", "")) for n in batches.groups())
    assert target == pytest.approx(4000, rel=0.05) and source > 0
    assert accumulated >= 3 and most <= 1500
    logged = [int(float(n)) for n in re.findall(r"train_inner .* wpb=([\d.]+)", first.stdout)]
    assert len(logged) == 12 and max(logged) < 1.2 * 4000

    # every interval has its checkpoint, also where an epoch ends with it, and no epoch has one
    names = sorted(path.name for path in whole.iterdir())
    updates = {int(name.split("_")[2][:-3]) for name in names if name.count("_") == 2}
    assert updates == {4, 8, 12}
    assert not [name for name in names if re.fullmatch(r"checkpoint\d+.pt", name)]


@pytest.mark.parametrize("flags", [["--bf16"], ["--eval-bleu", "--eval-bleu-detok", "space"]])
def test_precision_and_evaluation_train_and_restart(run, corpus, tmp_path, flags):
    command = ["fairseq-train", corpus, "--user-dir", "aiayn_plugin", *SMALL, *flags,
               "--save-dir", tmp_path, "--disable-validation"]
    if "--eval-bleu" in flags:
        command.remove("--disable-validation")
        command += ["--eval-bleu-args", '{"beam": 1, "max_len_b": 5}', "--max-tokens-valid", "4096"]
    for end in ("1", "2"):
        log = run(*command, "--max-update", end)
        assert log.returncode == 0, log.stderr[-2000:]
    assert "@ 1 updates)" in log.stdout and "num_updates=2" in log.stdout


def test_bad_input_ends_with_one_line(run, corpus, tmp_path):
    command = ["fairseq-train", corpus, "--user-dir", "aiayn_plugin", "--arch", "aiayn_base",
               "--cpu", "--save-dir", tmp_path]
    for flag, message in (
        (("--h", "7"), "d_model 512 is not divisible by h 7: change one of them, or give --d-k "
                       "and --d-v"),
        (("--warmup-updates", "0"), "--warmup-updates must be at least 1, not 0"),
    ):
        log = run(*command, *flag)
        assert log.returncode == 1
        assert log.stderr.strip().splitlines()[-1] == f"fairseq-train: error: {message}"
        assert "Traceback" not in log.stderr


def test_more_checkpoints_than_the_disk_holds_are_a_warning(run, corpus, tmp_path):
    command = ["fairseq-train", corpus, "--user-dir", "aiayn_plugin", *SMALL, "--save-dir",
               tmp_path, "--max-update", "1", "--disable-validation"]
    assert "not enough disk" not in run(*command).stdout
    log = run(*command, "--keep-interval-updates", "1000000000")
    assert log.returncode == 0, log.stderr
    warning = "WARNING | aiayn_plugin.boundary.disk | not enough disk for the checkpoints"
    assert warning in log.stdout


@pytest.mark.parametrize("devices", [1, 2, 8])
def test_tokens_of_an_update_whatever_the_devices(corpus, tmp_path, devices, quiet):
    """The batches that fairseq deals to each device, grouped as its trainer groups them."""
    made, _ = trainer(corpus, tmp_path, "--tokens-per-update", "600", "--max-tokens", "300")
    task, updates, tokens, sentences = made.task, 0, 0, 0
    task.planned = None  # made for one device
    for device in range(devices):
        epoch = task.get_batch_iterator(
            task.dataset("train"), 300, None, None, num_shards=devices, shard_id=device, seed=1,
            required_batch_size_multiple=1, disable_iterator_cache=True,
        ).next_epoch_itr(shuffle=True)
        grouped = list(GroupedIterator(epoch, made.cfg.optimization.update_freq[0]))
        updates = len(grouped)
        for batch in (batch for group in grouped for batch in group if batch):
            assert batch["target"].numel() <= 300
            tokens += batch["ntokens"]
            sentences += batch["nsentences"]
    assert sentences == len(task.dataset("train"))
    assert tokens / updates == pytest.approx(600, rel=0.05)


@pytest.mark.long
def test_the_big_model_takes_the_papers_updates(run, prepare, tmp_path):
    """The paper's settings in the log, and a restart, with the real big model."""
    command = ["fairseq-train", prepare(100, 10, 5), "--user-dir", "aiayn_plugin", "--arch",
               "aiayn_big", "--cpu", "--log-format", "simple", "--log-interval", "1",
               "--save-dir", tmp_path]
    for end in ("1", "2"):
        log = run(*command, "--max-update", end)
        assert log.returncode == 0, log.stderr[-2000:]
    assert f"lr={lrate(3, 1024):.6g}" in log.stdout, "the rate of the update that comes next"
    changed = re.findall(r"^(\w+) .*< changed$", log.stdout, re.MULTILINE)
    assert changed == ["max_update"]
    assert re.search(r"peak_learning_rate +0.000494 +0.000494\n", log.stdout)
    assert re.search(r"dropout +0.3 +0.3\n", log.stdout)


def test_two_processes_are_one_with_twice_the_accumulation(run, corpus, tmp_path):
    fairseq_train = [Path(sys.executable).with_name("fairseq-train"), corpus, "--user-dir",
                     "aiayn_plugin", *SMALL, "--dropout", "0", "--batch-size", "20",
                     "--warmup-updates", "4", "--disable-validation", "--max-update"]
    alone = run(*fairseq_train, "6", "--update-freq", "2", "--save-dir", tmp_path / "alone")
    assert alone.returncode == 0, alone.stderr
    two = ""
    for updates in ("3", "6"):  # and stopped between
        log = run("torchrun", "--nproc_per_node", "2", *fairseq_train, updates, "--save-dir",
                  tmp_path / "two", env={"OMP_NUM_THREADS": "1"})  # fmt: skip
        assert log.returncode == 0, log.stderr[-2000:]
        two += log.stdout + log.stderr
    assert "(rank 1)" in two
    losses = [re.findall(r" loss=([\d.]+),", text) for text in (alone.stdout + alone.stderr, two)]
    assert len(losses[0]) == 6 and losses[0] == losses[1]
    weights = [torch.load(tmp_path / name / "checkpoint_last.pt")["model"]
               for name in ("alone", "two")]
    for name, weight in weights[0].items():
        torch.testing.assert_close(weights[1][name], weight, rtol=0, atol=1e-5)
