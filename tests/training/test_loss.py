"""§5.4 Label smoothing against the cross-entropy of the smoothed distribution."""

import math

import pytest
import torch

from aiayn_plugin.benchmarks.measure import measure_peak_memory
from aiayn_plugin.kernels.chunking import CHUNK_SIZES
from aiayn_plugin.training.loss import label_smoothed_nll, projected_loss

PAD = 1
#: ε of large_example, for which ε/(V−1) is that of the paper's vocabulary.
TINY = 0.1 * 3000 / 37_000


def restate_loss(logits: list[float], target: int, epsilon: float) -> tuple[float, float]:
    """Return −Σ q_k log p_k, with ε/(V−1) on each wrong class, and −log p of the target."""
    z = sum(math.exp(s) for s in logits)
    log_p = [s - math.log(z) for s in logits]
    q = [1 - epsilon if k == target else epsilon / (len(logits) - 1) for k in range(len(logits))]
    return -sum(a * b for a, b in zip(q, log_p, strict=True)), -log_p[target]


def example():
    """Return features (3, 5, 6), a projection for 11 words, and targets with some padding."""
    torch.manual_seed(1)
    x = torch.randn(3, 5, 6, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(11, 6, dtype=torch.float64, requires_grad=True)
    target = torch.randint(2, 11, (3, 5))
    target[1, 3:] = PAD
    return x, weight, target


def large_example(dtype):
    """Return features, projection, target, and the gradients of the first two in float64.

    As in training, features are normalised, and the model has learned that one word is frequent,
    some are occasional and most are rare.
    """
    torch.manual_seed(1)
    x = torch.nn.functional.layer_norm(torch.randn(600, 32), (32,))
    weight = 32**-0.5 * torch.randn(3000, 32)
    x[:, 0], weight[300:, 0] = 3, -4
    x, weight = x.to(dtype), weight.to(dtype)
    target = torch.randint(2, 300, (600,))
    target[::2], target[1::20] = 2, PAD
    exact = [tensor.double().requires_grad_() for tensor in (x, weight)]
    projected_loss(*exact, target, TINY, PAD)[0].backward()
    return x.requires_grad_(), weight.requires_grad_(), target, [t.grad for t in exact]


@pytest.mark.parametrize("static_shapes", [False, True])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.2])
def test_loss_equals_its_definition(epsilon, static_shapes):
    x, weight, target = example()
    logits, flat = (x @ weight.t()).flatten(0, 1), target.flatten()
    pairs = [
        restate_loss(row, t, epsilon) for row, t in zip(logits.tolist(), flat.tolist(), strict=True)
    ]
    log_p = logits.log_softmax(dim=-1)
    target_log_p = log_p.gather(1, flat[:, None]).squeeze(1)
    loss = label_smoothed_nll(target_log_p, log_p.mean(dim=1), epsilon, 11)
    assert loss.tolist() == pytest.approx([a for a, _ in pairs], abs=1e-12)
    real = [pair for pair, t in zip(pairs, flat.tolist(), strict=True) if t != PAD]
    loss, nll = projected_loss(x, weight, target, epsilon, PAD, static_shapes)
    assert loss.item() == pytest.approx(sum(a for a, _ in real), abs=1e-10)
    assert nll.item() == pytest.approx(sum(b for _, b in real), abs=1e-10)


@pytest.mark.parametrize("static_shapes", [False, True])
@pytest.mark.parametrize("chunk_size", [10, 40, 10**6])
def test_gradients_in_chunks(monkeypatch, chunk_size, static_shapes):
    monkeypatch.setitem(CHUNK_SIZES, "cpu", chunk_size)
    x, weight, target = example()
    assert torch.autograd.gradcheck(
        lambda x, w: projected_loss(x, w, target, 0.1, PAD, static_shapes)[0],
        (x, weight),
        fast_mode=True,
    )


def test_gradients_scale_with_the_gradient_of_the_loss():
    gradients = []
    for factor in (1.0, 3.0):
        x, weight, target = example()
        (factor * projected_loss(x, weight, target, 0.1, PAD)[0]).backward()
        gradients.append((x.grad, weight.grad))
    for once, thrice in zip(*gradients, strict=True):
        torch.testing.assert_close(3 * once, thrice, rtol=1e-12, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("chunk_size", [2**16, 2**22])
def test_gradients_of_rare_words_survive_rounding(monkeypatch, dtype, chunk_size):
    """fairseq scales the loss only afterwards, too late for gradients that float16 has lost."""
    monkeypatch.setitem(CHUNK_SIZES, "cpu", chunk_size)
    x, weight, target, exact = large_example(dtype)
    loss, _ = projected_loss(x, weight, target, TINY, PAD)
    (16 * loss).backward()
    for tensor, expected in zip((x, weight), exact, strict=True):
        norm = expected.norm(dim=1)
        rows = norm > 0  # all but padding
        error = (tensor.grad.double() / 16 - expected).norm(dim=1)[rows] / norm[rows]
        assert error.max() < torch.finfo(dtype).eps + 4e-6


def test_float16_does_not_overflow_if_every_target_is_one_word():
    """The scaler can lower the loss scale only once the gradient is finite."""
    x, weight = torch.full((25_000, 4), 16.0).half(), torch.zeros(100, 4).half().requires_grad_()
    target = torch.full((25_000,), 5)
    (0.01 * projected_loss(x, weight, target, 0.1, PAD)[0]).backward()
    exact = 0.01 * 25_000 * 16 * (0.01 - 0.9)
    torch.testing.assert_close(weight.grad[5].float(), torch.full((4,), exact), rtol=2e-3, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_memory_stays_below_positions_times_vocabulary(monkeypatch, dtype):
    monkeypatch.setitem(CHUNK_SIZES, "cpu", 2**16)
    x, weight, target, _ = large_example(dtype)

    def run():
        loss, _ = projected_loss(x, weight, target, TINY, PAD)
        (16 * loss).backward()

    assert measure_peak_memory(run, x.device) < x.size(0) * weight.size(0)  # one byte per element


def test_no_grad_computes_no_gradients():
    x, weight, target = example()
    losses, writes_gradients = [], []
    for enabled in (False, True):
        with torch.set_grad_enabled(enabled), torch.profiler.profile() as profile:
            losses.append(projected_loss(x, weight, target, 0.1, PAD)[0].item())
        writes_gradients.append(any("index_put" in event.name for event in profile.events()))
    assert losses[0] == losses[1] and writes_gradients == [False, True]
