"""The GPU's kernel for short sentences, computed by Triton's interpreter, against the equation."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from aiayn_plugin.kernels.attention import Window, build_mask

pytest.importorskip("triton", reason="needs Triton")
from aiayn_plugin.kernels.short_attention import short_attention  # noqa: E402

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="tests/test_gpu.py runs it")


@pytest.mark.parametrize("n, m", [(1, 2), (7, 7), (17, 40), (40, 17), (64, 64)])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_output_and_gradients_equal_those_of_the_equation(n, m, causal, padded):
    torch.manual_seed(1)
    m = n if causal else m
    shapes = [(2, length, 3, d) for length, d in ((n, 16), (m, 16), (m, 32), (n, 32))]
    q, k, v, grad = (torch.randn(shape).transpose(1, 2) for shape in shapes)
    padding = (torch.arange(m)[:, None] < torch.tensor([0, m // 2])).t() if padded else None
    results = []
    for dtype in (torch.float32, torch.float64):
        inputs = [x.to(dtype).requires_grad_() for x in (q, k, v)]
        if dtype == torch.float32:
            out = short_attention(*inputs, padding, causal)
        else:
            mask = build_mask(n, m, padding, Window(n - 1, 0) if causal else None, q.device)
            out = scaled_dot_product_attention(*inputs, mask)
        results.append([out, *torch.autograd.grad(out, inputs, grad.to(dtype))])
    for actual, exact in zip(*results, strict=True):
        torch.testing.assert_close(actual.double(), exact, rtol=1e-5, atol=1e-5)


@pytest.mark.long
def test_torch_can_compile_it_for_any_shape_and_layout():
    q, k, v = (torch.randn(2, 5, 2, 16).transpose(1, 2).requires_grad_() for _ in range(3))
    padding = torch.zeros(2, 5, dtype=torch.bool)
    torch.library.opcheck(short_attention, (q, k, v, padding, True))
