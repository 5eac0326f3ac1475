"""Products by torch's two libraries: the same numbers and gradients."""

import pytest
import torch
import torch.nn.functional as F

from aiayn_plugin.kernels import linear as products

LARGE = (2, 128, 256, 256)  # sentences, positions, inner, outer: 2^24 multiplications
SMALL = (2, 128, 256, 255)


@pytest.fixture
def amd(monkeypatch):
    """Take oneDNN as on a processor of AMD, where this torch has it."""
    onednn = torch.backends.mkldnn.is_available()
    if not onednn or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        pytest.skip("this torch has no oneDNN")
    monkeypatch.setattr(products, "_is_amd", lambda: True)


def operands(sentences, n, inner, outer, bias):
    torch.manual_seed(1)
    x, weight = torch.randn(sentences, n, inner), torch.randn(outer, inner)
    return [x, weight, *([torch.randn(outer)] if bias else [])]


def names(function):
    with torch.profiler.profile() as profile:
        function()
    return {event.key for event in profile.key_averages()}


@pytest.mark.parametrize("shape", [LARGE, SMALL])
@pytest.mark.parametrize("bias", [False, True])
def test_both_libraries_agree(amd, shape, bias):
    inputs = [one.requires_grad_() for one in operands(*shape, bias)]
    found = []
    for product in (F.linear, products.linear):
        out = product(*inputs)
        found.append([out, *torch.autograd.grad(out.cos().sum(), inputs)])
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-3)
    exact = F.linear(*(one.double() for one in inputs))
    torch.testing.assert_close(found[1][0].double(), exact, rtol=0, atol=3e-4)


def test_a_matrix_may_be_transposed_and_need_no_gradient(amd):
    x, weight = operands(*LARGE, bias=False)
    torch.testing.assert_close(
        products.linear(x, weight.t()), F.linear(x, weight.t()), rtol=0, atol=1e-3
    )
    weight.requires_grad_()
    products.linear(x, weight).sum().backward()
    torch.testing.assert_close(weight.grad[0], x.sum(dim=(0, 1)), rtol=0, atol=1e-2)
    assert x.grad is None


@pytest.mark.parametrize("with_gradient", [False, True])
def test_large_products_in_float32_take_onednn(amd, with_gradient):
    module = products.Linear(256, 256)

    def go(shape, dtype=torch.float32):
        with torch.set_grad_enabled(with_gradient):
            module.to(dtype)(torch.randn(*shape[:3], dtype=dtype))

    name = "mkldnn::_linear_pointwise"
    assert name in names(lambda: go(LARGE))
    assert name not in names(lambda: go((1, 8, 256)))
    assert name not in names(lambda: go(LARGE, torch.float64))
    with torch.autocast("cpu", torch.bfloat16):
        assert name not in names(lambda: go(LARGE))


def test_other_processors_keep_torchs_own(monkeypatch):
    monkeypatch.setattr(products, "_is_amd", lambda: False)
    x, weight = operands(*LARGE, bias=False)
    assert torch.equal(products.linear(x, weight), F.linear(x, weight))
