"""The GPU's kernel for short sentences, computed by Triton's interpreter, against the equation."""

import pytest
import torch
from short_attention_check import check_short_attention

pytest.importorskip("triton", reason="needs Triton")
from aiayn_plugin.kernels.short_attention import short_attention  # noqa: E402

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="tests/test_gpu.py runs it")


@pytest.mark.parametrize("n, m", [(1, 2), (7, 7), (17, 40), (40, 17), (64, 64)])
@pytest.mark.parametrize("kind", ["causal", "full", "encoder-decoder"])
@pytest.mark.parametrize("padded", [False, True])
def test_output_and_gradients_equal_those_of_the_equation(n, m, kind, padded):
    check_short_attention(n, m, kind, padded, h=3, d_k=16, d_v=32, tolerance=1e-5)


def test_torch_can_compile_it_for_any_shape():
    padding = torch.zeros(2, 5, dtype=torch.bool)
    for widths in ((96,), (32, 64)):
        projected = [torch.randn(2, 5, width).requires_grad_() for width in widths]
        torch.library.opcheck(short_attention, (projected, padding, 2, 16, True))
