"""§5.3: the schedule and Adam against independent restatements."""

import math

import pytest
import torch

from aiayn_plugin.errors import InputError
from aiayn_plugin.training.optimizer import adam, lrate


def restated(step: int, d_model: int, warmup: int) -> float:
    """Return a straight line up to 1/√(d_model·warmup), then that peak · √(warmup/step)."""
    peak = 1 / math.sqrt(d_model * warmup)
    return peak * step / warmup if step < warmup else peak * math.sqrt(warmup / step)


@pytest.mark.parametrize("d_model", [512, 1024])
@pytest.mark.parametrize("step", [1, 2, 2000, 3999, 4000, 4001, 100_000, 300_000])
def test_schedule(step, d_model):
    assert lrate(step, d_model) == pytest.approx(restated(step, d_model, 4000), rel=1e-12)


def test_the_papers_peaks():
    assert lrate(4000, 512) == pytest.approx(6.99e-4, rel=1e-3)
    assert lrate(4000, 1024) == pytest.approx(4.94e-4, rel=1e-3)
    assert lrate(3999, 512) < lrate(4000, 512) > lrate(4001, 512)


def test_a_warmup_of_nothing_is_refused():
    with pytest.raises(InputError, match="--warmup-updates must be at least 1, not 0"):
        lrate(1, 512, 0)


def test_adam_is_algorithm_1_of_its_paper():
    """ε is added after the bias correction: with tiny gradients it decides."""
    torch.manual_seed(1)
    start, gradients = torch.randn(4).double(), torch.randn(5, 4).double() * 1e-8
    parameter = torch.nn.Parameter(start.clone())
    optimizer = adam([parameter], 0.1, (0.9, 0.98), 1e-9)
    for gradient in gradients:
        parameter.grad = gradient.clone()
        optimizer.step()
    for i in range(4):
        theta, m, v = start[i].item(), 0.0, 0.0
        for t, g in enumerate(gradients[:, i].tolist(), start=1):
            m = 0.9 * m + 0.1 * g
            v = 0.98 * v + 0.02 * g * g
            theta -= 0.1 * (m / (1 - 0.9**t)) / (math.sqrt(v / (1 - 0.98**t)) + 1e-9)
        assert parameter[i].item() == pytest.approx(theta, rel=1e-9)
