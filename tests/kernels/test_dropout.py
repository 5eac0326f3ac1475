"""§5.4 Residual dropout: its rate, its scale, its seed."""

import pytest
import torch

from aiayn_plugin.kernels.dropout import dropout


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5])
def test_dropout_rate_and_mean(p):
    torch.manual_seed(1)
    x = torch.ones(1000, 1003)
    y = dropout(x, p)
    dropped = y.eq(0).double().mean().item()
    assert dropped == pytest.approx(p, abs=5 * (p * (1 - p) / x.numel()) ** 0.5)
    assert y[y != 0].unique().tolist() == pytest.approx([1 / (1 - p)], rel=1e-4)
    # Neighbouring elements, which share a 64-bit draw, are independent.
    pairs = (y[:, 1:].eq(0) & y[:, :-1].eq(0)).double().mean().item()
    assert pairs == pytest.approx(p * p, abs=5 * (p * p / x.numel()) ** 0.5)


def test_gradient_is_the_scaled_mask():
    x = torch.randn(64, requires_grad=True)
    y = dropout(x, 0.4)
    y.sum().backward()
    torch.testing.assert_close(x.grad * x.detach(), y.detach())


def test_backward_pass_stores_one_byte_per_element():
    saved = []
    x = torch.randn(1000, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(saved.append, lambda tensor: tensor):
        dropout(x, 0.4)
    assert sum(tensor.nbytes for tensor in saved if tensor is not None) <= 1000 + 8


def test_p_of_0_and_1_and_evaluation():
    x = torch.randn(5, 3)
    assert torch.equal(dropout(x, 0.0), x)
    assert torch.equal(dropout(x, 0.7, training=False), x)
    assert dropout(x, 1.0).eq(0).all()


def test_seed_determines_the_result():
    x = torch.ones(100)
    results = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        results.append(dropout(x, 0.5))
    assert torch.equal(results[0], results[1]) and not torch.equal(results[0], results[2])
