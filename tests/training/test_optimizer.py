"""§5.3: the schedule and Adam against independent restatements."""

import math

import pytest
import torch

from aiayn_plugin.errors import InputError
from aiayn_plugin.training.optimizer import build_adam, learning_rate


def restate_schedule(step: int, d_model: int, warmup: int) -> float:
    """Return a straight line up to 1/√(d_model·warmup), then that peak · √(warmup/step)."""
    peak = 1 / math.sqrt(d_model * warmup)
    return peak * step / warmup if step < warmup else peak * math.sqrt(warmup / step)


@pytest.mark.parametrize("d_model", [512, 1024])
@pytest.mark.parametrize("step", [1, 2, 2000, 3999, 4000, 4001, 100_000, 300_000])
def test_learning_rate_equals_equation_3(step, d_model):
    expected = restate_schedule(step, d_model, 4000)
    assert learning_rate(step, d_model) == pytest.approx(expected, rel=1e-12)


def test_learning_rate_needs_a_warmup():
    with pytest.raises(InputError, match="--warmup-updates must be at least 1, not 0"):
        learning_rate(1, 512, 0)


def test_adam_equals_algorithm_1():
    """ε is added after the bias correction: with tiny gradients it dominates."""
    torch.manual_seed(1)
    start, gradients = torch.randn(4).double(), torch.randn(5, 4).double() * 1e-8
    parameter = torch.nn.Parameter(start.clone())
    optimizer = build_adam([parameter], 0.1, (0.9, 0.98), 1e-9)
    for gradient in gradients:
        parameter.grad = gradient
        optimizer.step()
    for i in range(4):
        theta, m, v = start[i].item(), 0.0, 0.0
        for t, g in enumerate(gradients[:, i].tolist(), start=1):
            m = 0.9 * m + 0.1 * g
            v = 0.98 * v + 0.02 * g * g
            theta -= 0.1 * (m / (1 - 0.9**t)) / (math.sqrt(v / (1 - 0.98**t)) + 1e-9)
        assert parameter[i].item() == pytest.approx(theta, rel=1e-9)
