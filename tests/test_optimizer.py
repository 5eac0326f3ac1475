"""§5.3: the schedule and Adam against independent restatements."""

import math

import pytest
import torch

from aiayn_plugin.boundary.optimizer import (
    AdamConfig,
    AiaynAdam,
    AiaynInverseSqrt,
    InverseSqrtConfig,
)
from aiayn_plugin.training.optimizer import lrate


def restated(step: int, d_model: int, warmup: int) -> float:
    """A straight line up to the peak 1/√(d_model·warmup), then the peak · √(warmup/step)."""
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


def adam(parameters, lr=0.1):
    return AiaynAdam(AdamConfig(lr=[lr]), parameters)


def test_update_k_is_taken_with_the_rate_of_k():
    optimizer = adam([torch.nn.Parameter(torch.zeros(1))])
    schedule = AiaynInverseSqrt(InverseSqrtConfig(warmup_updates=3, d_model=16), optimizer)
    taken = []
    for finished in range(6):
        taken.append(optimizer.get_lr())
        schedule.step_update(finished + 1)
    assert taken == pytest.approx([restated(k, 16, 3) for k in range(1, 7)])


def test_a_warmup_of_nothing_is_refused():
    with pytest.raises(ValueError, match="--warmup-updates must be at least 1"):
        AiaynInverseSqrt(InverseSqrtConfig(warmup_updates=0, d_model=16), adam([torch.nn.Parameter(
            torch.zeros(1))]))


def test_adam_is_algorithm_1_of_its_paper():
    """In particular, ε is added after the bias correction: with tiny gradients it decides."""
    torch.manual_seed(1)
    start, gradients = torch.randn(4).double(), torch.randn(5, 4).double() * 1e-8
    parameter = torch.nn.Parameter(start.clone())
    optimizer = adam([parameter], lr=0.1)
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


def test_a_restart_keeps_the_moments_and_takes_the_new_settings():
    def one(config):
        parameter = torch.nn.Parameter(torch.ones(3))
        parameter.grad = torch.ones(3)
        return AiaynAdam(config, [parameter])

    first = one(AdamConfig(lr=[0.1]))
    first.step()
    second = one(AdamConfig(lr=[0.1], adam_betas="(0.8, 0.9)", adam_eps=1e-6))
    second.load_state_dict(first.state_dict())
    assert second.param_groups[0]["betas"] == (0.8, 0.9)
    assert second.param_groups[0]["eps"] == 1e-6
    state = second.optimizer.state_dict()["state"][0]
    torch.testing.assert_close(state["exp_avg"], torch.full((3,), 0.1))
