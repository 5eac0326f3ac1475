"""Tests that need a GPU: its kernels and dtypes, and moving a training run to it and back."""

import copy
import sys
from pathlib import Path

import pytest
import torch
from commands import LINES, losses
from fairseq import checkpoint_utils
from models import build, sentences, trainer
from torch.nn.functional import scaled_dot_product_attention

from aiayn_plugin.benchmarks.train import random_lengths, write_random_data
from aiayn_plugin.inference.translator import Translator
from aiayn_plugin.kernels.attention import Window, build_mask
from aiayn_plugin.kernels.compilation import enable_compilation
from aiayn_plugin.training.loss import projected_loss

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"),
    pytest.mark.usefixtures("quiet"),
]
#: Settings that make training runs comparable.
COMPARABLE = [
    *("--dropout", "0", "--tokens-per-update", "0", "--max-tokens", "1000"),
    *("--warmup-updates", "50", "--seed", "3"),
]
PRECISIONS = {"float32": [], "bf16": ["--bf16"], "fp16": ["--fp16"], "amp": ["--amp"]}


def train(corpus, folder, updates, *flags):
    """Return the losses of the next updates, the trainer and its epoch iterator."""
    training, epoch = trainer(corpus, folder, *COMPARABLE, *flags, cpu="--cpu" in flags)
    assert training.device.type == ("cpu" if "--cpu" in flags else "cuda")
    batches = list(epoch.next_epoch_itr(shuffle=False))
    start = training.get_num_updates()
    losses = []
    while training.get_num_updates() < start + updates:  # an fp16 overflow skips the update
        step = training.train_step([batches[training.get_num_updates() % len(batches)]])
        losses += [] if step is None else [float(step["loss"])]
    return losses, training, epoch


@pytest.mark.parametrize(
    "precision, tolerance",
    [(None, 1e-5), (torch.bfloat16, 0.05), (torch.float16, 2e-3)],
)
@pytest.mark.parametrize("compiled", [False, True])
def test_loss_and_gradients_equal_those_of_float64_on_a_cpu(precision, tolerance, compiled):
    enable_compilation(compiled)
    model = build(words=500, dropout=0.0)
    source, target = sentences(batch=8)
    results = []
    for device, dtype in (("cpu", torch.float64), ("cuda", torch.float32)):
        moved = copy.deepcopy(model).to(device, dtype)
        moved.matmul_dtype = precision if device == "cuda" else None
        features, _ = moved(source.to(device), None, target.to(device), features_only=True)
        with moved.autocast_matmuls():
            loss, _ = projected_loss(features, moved.projection, target.to(device), 0.1, 1)
        loss.backward()
        gradients = torch.cat([weight.grad.flatten() for weight in moved.parameters()])
        results.append([loss.detach().cpu().double(), gradients.cpu().double()])
    for actual, exact in zip(results[1], results[0], strict=True):
        assert (actual - exact).norm() < tolerance * exact.norm()


@pytest.mark.parametrize("kind", PRECISIONS)
def test_training_in_every_precision_equals_that_on_a_cpu(corpus, tmp_path, kind):
    expected, *_ = train(corpus, tmp_path / "cpu", 20, "--cpu")
    actual, *_ = train(corpus, tmp_path / "gpu", 20, *PRECISIONS[kind])
    assert actual == pytest.approx(expected, rel=1e-3 if kind == "float32" else 0.03)


@pytest.mark.parametrize(
    "flags", [[], ["--bf16"], ["--neighbourhood", "3"]], ids=["float32", "bf16", "restricted"]
)
def test_updates_never_synchronise(corpus, tmp_path, flags):
    """torch raises an error where the CPU waits for the GPU."""
    _, training, epoch = train(corpus, tmp_path, 1, *flags)  # the first update may wait
    sample, _ = training._prepare_sample(next(epoch.next_epoch_itr(shuffle=False)))
    torch.cuda.set_sync_debug_mode("error")
    try:
        loss, _, _ = training.criterion(training.model, sample)
        loss.backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.isfinite(loss) and torch.isfinite(training.get_model().projection.grad).all()


@pytest.mark.parametrize("first, then", [(["--cpu"], []), ([], ["--cpu"])], ids=["to", "away"])
@pytest.mark.parametrize("kind", [[], ["--bf16"]], ids=["float32", "bf16"])
def test_training_resumes_on_a_different_device(corpus, tmp_path, first, then, kind):
    _, training, epoch = train(corpus, tmp_path / "moved", 5, *first, *kind)
    checkpoint_utils.save_checkpoint(training.cfg.checkpoint, training, epoch, 1.0)
    actual, training, _ = train(corpus, tmp_path / "moved", 5, *then, *kind)
    assert training.get_num_updates() == 10
    expected, *_ = train(corpus, tmp_path / "same", 10, *first, *kind)
    assert actual == pytest.approx(expected[5:], rel=0.01)


@pytest.fixture(scope="module")
def random_data(tmp_path_factory):
    return write_random_data(tmp_path_factory.mktemp("random"), *random_lengths(400))


def repeat(data, folder, updates, *flags, disturb=None, after=None):
    """Return the losses of updates that repeat four batches, two at a time, and their trainer.

    disturb: a function of the model to call after this number of updates.
    """
    width = ("--d-model", "64", "--h", "4")
    training, epoch = trainer(data, folder, *width, *COMPARABLE, *flags, cpu=False)
    batches = list(epoch.next_epoch_itr(shuffle=False))
    pairs = [batches[-2:], batches[2:4]]
    losses = []
    for i in range(updates):
        if i == after:
            disturb(training.get_model())
        losses.append(float(training.train_step(pairs[i % 2])["loss"]))
    return losses, training


@pytest.mark.parametrize("kind", ["float32", "bf16"])
def test_replayed_updates_equal_launched_ones(random_data, tmp_path, kind):
    expected, training = repeat(random_data, tmp_path / "1", 12, "--no-compile", *PRECISIONS[kind])
    assert training.task.graphed_step is None
    actual, training = repeat(random_data, tmp_path / "2", 12, *PRECISIONS[kind])
    assert 2 <= training.task.graphed_step.step.graph_count <= 4
    assert actual == pytest.approx(expected, rel=1e-4 if kind == "float32" else 3e-3)
    assert actual[-1] < actual[0]


def drop_gradients(model):
    """Do what fairseq does when memory runs out in validation."""
    for weight in model.parameters():
        weight.grad = None


def grow_position_table(model):
    """Replace the tables of positions, and overwrite the memory of the old ones."""
    for stack in (model.encoder, model.decoder):
        stack.positions(torch.zeros(1, 1, dtype=torch.long, device="cuda"), 2000)
    torch.full((2**24,), torch.nan, device="cuda")


@pytest.mark.parametrize("disturb", [drop_gradients, grow_position_table])
@pytest.mark.parametrize("after", [2, 9], ids=["before capture", "after capture"])
def test_replays_survive_what_happens_between_them(random_data, tmp_path, disturb, after):
    expected, _ = repeat(random_data, tmp_path / "1", 16, "--no-compile")
    actual, training = repeat(random_data, tmp_path / "2", 16, disturb=disturb, after=after)
    assert training.task.graphed_step.step.graph_count >= 2
    assert actual == pytest.approx(expected, rel=1e-4)


def test_replayed_updates_draw_new_dropout(random_data, tmp_path):
    flags = ("--bf16", "--dropout", "0.5", "--warmup-updates", "100000000")
    losses, training = repeat(random_data, tmp_path, 9, *flags)  # at a learning rate near 0
    assert training.task.graphed_step.step.graph_count >= 2
    assert len({*losses[2::2]}) == len(losses[2::2])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("n, m", [(1, 7), (33, 20), (64, 64), (100, 128)])
@pytest.mark.parametrize("causal", [False, True])
def test_short_attention_equals_its_equation(n, m, causal, dtype):
    from aiayn_plugin.kernels.short_attention import short_attention  # needs Triton

    torch.manual_seed(1)
    n = m if causal else n
    shapes = [(3, length, 2, d) for length, d in ((n, 16), (m, 16), (m, 64), (n, 64))]
    q, k, v, grad = (torch.randn(x, device="cuda", dtype=dtype).transpose(1, 2) for x in shapes)
    padding = torch.arange(m, device="cuda") < torch.tensor([0, 1, m // 2], device="cuda")[:, None]
    results = []
    for kind in (dtype, torch.float64):
        inputs = [x.to(kind).detach().requires_grad_() for x in (q, k, v)]
        if kind == dtype:
            out = short_attention(*inputs, padding, causal)
        else:
            mask = build_mask(n, m, padding, Window(n - 1, 0) if causal else None, q.device)
            out = scaled_dot_product_attention(*inputs, mask)
        out.backward(grad.to(kind))
        results.append([out, *(x.grad for x in inputs)])
    for actual, exact in zip(*results, strict=True):
        assert (actual.double() - exact).norm() < 1e-2 * exact.norm()


def test_translations_on_gpu_and_cpu_are_the_same(model_dir):
    on_cpu, on_gpu = (Translator.load(model_dir, device=device) for device in ("cpu", "cuda"))
    for lines in (LINES, LINES[:1]):
        assert on_gpu.translate(lines) == on_cpu.translate(lines)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_half_precision_translates(model_dir, precision):
    exact, rounded = (
        Translator.load(model_dir, device="cuda", precision=name) for name in ("float32", precision)
    )
    both = zip(exact.translate_nbest(LINES), rounded.translate_nbest(LINES), strict=True)
    assert max(abs(actual[0].score - expected[0].score) for expected, actual in both) < 0.1


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="fewer than two GPUs")
@pytest.mark.parametrize("kind", ["float32", "bf16", "fp16"])
def test_two_gpus_equal_one_with_twice_the_accumulation(succeed, corpus, tmp_path, kind):
    found = []
    for processes, batches in ((1, 2), (2, 1)):
        log = succeed(
            *("torchrun", "--nproc_per_node", str(processes)),
            *(Path(sys.executable).with_name("fairseq-train"), corpus),
            *("--user-dir", "aiayn_plugin", "--arch", "aiayn_tiny", "--dropout", "0"),
            *("--max-update", "10", "--batch-size", "20", "--update-freq", str(batches)),
            *("--tokens-per-update", "0", "--log-format", "simple", "--log-interval", "1"),
            *("--save-dir", tmp_path / str(processes), *PRECISIONS[kind]),
        )
        found.append(losses(log))
    assert len(found[0]) > 5 and found[0] == pytest.approx(found[1], rel=0.01)
