"""A check of the kernel for short sentences, by Triton's interpreter and on a GPU."""

import torch
from torch.nn.functional import scaled_dot_product_attention

from aiayn_plugin.kernels.attention import Window, build_mask


def check_short_attention(n, m, kind, padded, h, d_k, d_v, tolerance, **like):
    """Assert that its output and gradients are those of equation (1) in float64.

    kind: "causal" or "full" self-attention over n positions, or "encoder-decoder" to m positions.
    like: the dtype and device of the kernel's inputs.
    """
    from aiayn_plugin.kernels.short_attention import short_attention  # needs Triton

    torch.manual_seed(1)
    m = m if kind == "encoder-decoder" else n
    shapes = [(3, n, h * (2 * d_k + d_v))]
    if kind == "encoder-decoder":
        shapes = [(3, n, h * d_k), (3, m, h * (d_k + d_v))]
    projected = [torch.randn(shape, **like).requires_grad_() for shape in shapes]
    grad = torch.randn(3, n, h * d_v, **like)
    lengths = torch.tensor([0, min(1, m - 1), m // 2])
    padding = (torch.arange(m) < lengths[:, None]).to(grad.device) if padded else None
    out = short_attention(projected, padding, h, d_k, kind == "causal")
    actual = [out, *torch.autograd.grad(out, projected, grad)]

    projected = [x.detach().double().requires_grad_() for x in projected]
    q, k, *v = [part for x in projected for part in x.split(h * d_k, dim=2)]
    heads = [x.unflatten(2, (h, -1)).transpose(1, 2) for x in (q, k, torch.cat(v, dim=2))]
    window = Window(n - 1, 0) if kind == "causal" else None
    mask = build_mask(n, m, padding, window, grad.device)
    out = scaled_dot_product_attention(*heads, mask).transpose(1, 2).flatten(2)
    exact = [out, *torch.autograd.grad(out, projected, grad.double())]
    for x, y in zip(actual, exact, strict=True):
        assert (x.double() - y).norm() <= tolerance * y.norm()
