"""Linear layers by both CPU libraries: the same numbers and gradients."""

import pytest
import torch
import torch.nn.functional as F

from aiayn_plugin.kernels.linear import Linear, add_transposed_matmul, linear

LARGE = (2, 128, 256, 256)  # batch, n, inner, outer: 2^24 multiplications
ONEDNN = "mkldnn::_linear_pointwise"


@pytest.fixture
def onednn(monkeypatch):
    """Use oneDNN on any processor, if this torch has it."""
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this torch has no oneDNN")
    monkeypatch.setattr("aiayn_plugin.kernels.linear.prefers_onednn", lambda: True)


def operands(batch, n, inner, outer, bias):
    torch.manual_seed(1)
    x, weight = torch.randn(batch, n, inner), torch.randn(outer, inner)
    return [x, weight, *([torch.randn(outer)] if bias else [])]


def profile_operations(function):
    """Return the names of the operations that a function runs."""
    with torch.profiler.profile() as profile:
        function()
    return {event.key for event in profile.key_averages()}


@pytest.mark.parametrize("bias", [False, True])
def test_both_libraries_agree(onednn, bias):
    inputs = [tensor.requires_grad_() for tensor in operands(*LARGE, bias)]
    results = []
    for function in (F.linear, linear):
        out = function(*inputs)
        results.append([out, *torch.autograd.grad(out.cos().sum(), inputs)])
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-3)
    exact = F.linear(*(tensor.double() for tensor in inputs))
    torch.testing.assert_close(results[1][0].double(), exact, rtol=0, atol=3e-4)


def test_transposed_weight_and_input_without_gradient(onednn):
    x, weight = operands(*LARGE, bias=False)
    expected = F.linear(x, weight.t())
    torch.testing.assert_close(linear(x, weight.t()), expected, rtol=0, atol=1e-3)
    weight.requires_grad_()
    linear(x, weight).sum().backward()
    torch.testing.assert_close(weight.grad[0], x.sum(dim=(0, 1)), rtol=0, atol=1e-2)
    assert x.grad is None


def test_a_transposed_matmul_is_added(onednn):
    torch.manual_seed(1)
    a, b, total = torch.randn(512, 512), torch.randn(512, 256), torch.ones(512, 256)
    used = profile_operations(lambda: add_transposed_matmul(total, a, b))
    assert ONEDNN in used
    torch.testing.assert_close(total, 1 + a.t() @ b, rtol=0, atol=1e-3)


@pytest.mark.parametrize("with_gradient", [False, True])
def test_only_large_float32_matmuls_use_onednn(onednn, with_gradient):
    module = Linear(256, 256)

    def run(shape, dtype=torch.float32):
        with torch.set_grad_enabled(with_gradient):
            module.to(dtype)(torch.randn(*shape[:3], dtype=dtype))

    assert ONEDNN in profile_operations(lambda: run(LARGE))
    assert ONEDNN not in profile_operations(lambda: run((1, 8, 256)))
    assert ONEDNN not in profile_operations(lambda: run(LARGE, torch.float64))
    with torch.autocast("cpu", torch.bfloat16):
        assert ONEDNN not in profile_operations(lambda: run(LARGE))


def test_without_onednn_the_result_is_torchs_own(monkeypatch):
    x, weight = operands(*LARGE, bias=False)
    monkeypatch.setattr("aiayn_plugin.kernels.linear.prefers_onednn", lambda: False)
    assert torch.equal(linear(x, weight), F.linear(x, weight))


def test_missing_bias_is_not_a_parameter():
    """fairseq's trainer takes all parameters that are None for one shared weight."""
    module = Linear(3, 2, bias=False)
    assert module.bias is None and list(module._parameters) == list(module.state_dict())
    assert list(module.state_dict()) == ["weight"]
