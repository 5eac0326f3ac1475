"""§5.4 Residual dropout: its rate, its scale, its seed."""

import pytest
import torch

from aiayn_plugin.kernels.dropout import dropout


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5])
def test_drops_at_the_rate_and_keeps_the_mean(p):
    torch.manual_seed(1)
    x = torch.ones(1000, 1003)
    y = dropout(x, p)
    dropped = y.eq(0).double().mean().item()
    assert dropped == pytest.approx(p, abs=5 * (p * (1 - p) / x.numel()) ** 0.5)
    assert y[y != 0].unique().tolist() == pytest.approx([1 / (1 - p)], rel=1e-4)
    # no element follows its neighbour, of which it shares the draw
    pairs = (y[:, 1:].eq(0) & y[:, :-1].eq(0)).double().mean().item()
    assert pairs == pytest.approx(p * p, abs=5 * (p * p / x.numel()) ** 0.5)


def test_gradient_is_the_mask():
    x = torch.randn(64, requires_grad=True)
    y = dropout(x, 0.4)
    y.sum().backward()
    torch.testing.assert_close(x.grad * x.detach(), y.detach())


def test_keeps_one_byte_an_element_for_the_backward_pass():
    kept = []
    x = torch.randn(1000, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(kept.append, lambda saved: saved):
        dropout(x, 0.4)
    assert sum(saved.nbytes for saved in kept if saved is not None) <= 1000 + 8


def test_boundaries():
    x = torch.randn(5, 3)
    assert torch.equal(dropout(x, 0.0), x)
    assert torch.equal(dropout(x, 0.7, training=False), x)
    assert dropout(x, 1.0).eq(0).all()


def test_the_seed_decides():
    x = torch.ones(100)
    results = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        results.append(dropout(x, 0.5))
    assert torch.equal(results[0], results[1]) and not torch.equal(results[0], results[2])
