"""Attention over short sentences on a GPU: one Triton program computes a whole head.

Up to 128 positions, all scores of a head fit in the registers of one multiprocessor, so neither the
scores nor their softmax is ever stored; the backward pass computes them again. Kernels for long
sentences work in blocks of 64 or 128 positions, most of which a short sentence wastes.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _weights(q, k, padding, b, n, m, scale, i, j, CAUSAL: tl.constexpr, PADDED: tl.constexpr):
    """Return the attention weights (SIZE, SIZE) in float32; 0 outside of n × m."""
    scores = tl.dot(q, tl.trans(k)) * scale
    allowed = (j < m)[None, :]
    if CAUSAL:
        allowed = allowed & (j[None, :] <= i[:, None])
    if PADDED:
        is_padding = tl.load(padding + b * m + j, mask=j < m, other=1) != 0
        if CAUSAL:  # every position attends to itself, so that no row is masked entirely
            allowed = allowed & (~is_padding[None, :] | (i[:, None] == j[None, :]))
        else:
            allowed = allowed & ~is_padding[None, :]
    scores = tl.where(allowed, scores, float("-inf"))
    exp = tl.exp(scores - tl.max(scores, axis=1)[:, None])
    return tl.where((i < n)[:, None], exp / tl.sum(exp, axis=1)[:, None], 0.0)


@triton.jit
def _tile(base, b, h, rows, columns, size, stride_b, stride_h, stride_n):
    """Return the addresses (rows, columns) of one head of a tensor, and which of them exist."""
    address = base + b.to(tl.int64) * stride_b + h * stride_h
    return address + rows[:, None] * stride_n + columns[None, :], (rows < size)[:, None]


@triton.jit(do_not_specialize=["n", "m"])
def _forward(
    q_, k_, v_, out_, padding, n, m, scale,
    qb, qh, qn, kb, kh, kn, vb, vh, vn, ob, oh, on,
    SIZE: tl.constexpr, D_K: tl.constexpr, D_V: tl.constexpr,
    CAUSAL: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    b, h = tl.program_id(0), tl.program_id(1)
    i, j, d_k, d_v = tl.arange(0, SIZE), tl.arange(0, SIZE), tl.arange(0, D_K), tl.arange(0, D_V)
    q_at, q_mask = _tile(q_, b, h, i, d_k, n, qb, qh, qn)
    k_at, k_mask = _tile(k_, b, h, j, d_k, m, kb, kh, kn)
    v_at, v_mask = _tile(v_, b, h, j, d_v, m, vb, vh, vn)
    o_at, o_mask = _tile(out_, b, h, i, d_v, n, ob, oh, on)
    q = tl.load(q_at, mask=q_mask, other=0.0)
    k = tl.load(k_at, mask=k_mask, other=0.0)
    v = tl.load(v_at, mask=v_mask, other=0.0)
    p = _weights(q, k, padding, b, n, m, scale, i, j, CAUSAL, PADDED)
    tl.store(o_at, tl.dot(p.to(v.dtype), v).to(v.dtype), mask=o_mask)


@triton.jit(do_not_specialize=["n", "m"])
def _backward(
    q_, k_, v_, grad_, dq_, dk_, dv_, padding, n, m, scale,
    qb, qh, qn, kb, kh, kn, vb, vh, vn, gb, gh, gn,
    dqb, dqh, dqn, dkb, dkh, dkn, dvb, dvh, dvn,
    SIZE: tl.constexpr, D_K: tl.constexpr, D_V: tl.constexpr,
    CAUSAL: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    b, h = tl.program_id(0), tl.program_id(1)
    i, j, d_k, d_v = tl.arange(0, SIZE), tl.arange(0, SIZE), tl.arange(0, D_K), tl.arange(0, D_V)
    q_at, q_mask = _tile(q_, b, h, i, d_k, n, qb, qh, qn)
    k_at, k_mask = _tile(k_, b, h, j, d_k, m, kb, kh, kn)
    v_at, v_mask = _tile(v_, b, h, j, d_v, m, vb, vh, vn)
    g_at, g_mask = _tile(grad_, b, h, i, d_v, n, gb, gh, gn)
    q = tl.load(q_at, mask=q_mask, other=0.0)
    k = tl.load(k_at, mask=k_mask, other=0.0)
    v = tl.load(v_at, mask=v_mask, other=0.0)
    grad = tl.load(g_at, mask=g_mask, other=0.0)
    p = _weights(q, k, padding, b, n, m, scale, i, j, CAUSAL, PADDED)
    dv = tl.dot(tl.trans(p.to(v.dtype)), grad)
    dv_at, dv_mask = _tile(dv_, b, h, j, d_v, m, dvb, dvh, dvn)
    tl.store(dv_at, dv.to(v.dtype), mask=dv_mask)
    dp = tl.dot(grad, tl.trans(v))
    # the derivative of softmax: dS = P ∘ (dP − row sums of P ∘ dP)
    ds = p * (dp - tl.sum(p * dp, axis=1)[:, None]) * scale
    ds = ds.to(q.dtype)
    dq_at, dq_mask = _tile(dq_, b, h, i, d_k, n, dqb, dqh, dqn)
    tl.store(dq_at, tl.dot(ds, k).to(q.dtype), mask=dq_mask)
    dk_at, dk_mask = _tile(dk_, b, h, j, d_k, m, dkb, dkh, dkn)
    tl.store(dk_at, tl.dot(tl.trans(ds), q).to(q.dtype), mask=dk_mask)


def _settings(q: Tensor, k: Tensor, v: Tensor, causal: bool, padding: Tensor | None) -> dict:
    """Return the sizes for which Triton compiles the kernels."""
    size = max(16, triton.next_power_of_2(max(q.size(2), k.size(2))))
    return {
        "SIZE": size,
        "D_K": q.size(3),
        "D_V": v.size(3),
        "CAUSAL": causal,
        "PADDED": padding is not None,
        "num_warps": 2 if size <= 32 else 4 if size <= 64 else 8,
    }


def _split(projected: list[Tensor], h: int, d_k: int) -> list[Tensor]:
    """Return views of queries, keys and values: (batch, h, n or m, d_k or d_v)."""
    width = h * d_k
    q, kv = (
        projected if len(projected) == 2 else (projected[0][..., :width], projected[0][..., width:])
    )
    return [x.unflatten(-1, (h, -1)).transpose(1, 2) for x in (q, kv[..., :width], kv[..., width:])]


def _empty_output(projected: list[Tensor], h: int, d_k: int) -> Tensor:
    """Return an empty tensor (batch, n, h·d_v)."""
    return projected[0].new_empty(
        *projected[0].shape[:2], sum(x.size(2) for x in projected) - 2 * h * d_k
    )


@torch.library.custom_op("aiayn::short_attention", mutates_args=())
def short_attention(
    projected: list[Tensor], padding: Tensor | None, h: int, d_k: int, causal: bool
) -> Tensor:
    """Return h heads of softmax(QKᵀ/√d_k)V, concatenated, for at most 128 queries and keys.

    projected: the queries, keys and values of all heads side by side. In self-attention it is one
    tensor (batch, n, h·(2·d_k + d_v)), else the queries (batch, n, h·d_k), and the keys and values
    (batch, m, h·(d_k + d_v)): so one matmul computes each tensor, and one its gradient.
    d_k and d_v are powers of two of at least 16. padding: boolean (batch, m), True at padding,
    which must not be all of a sentence. causal: position i attends to positions up to i, and to
    itself if it is padding. Returns (batch, n, h·d_v).
    """
    projected = [x.contiguous() for x in projected]
    q, k, v = _split(projected, h, d_k)
    out = _empty_output(projected, h, d_k)
    heads = out.unflatten(-1, (h, -1)).transpose(1, 2)
    _forward[(q.size(0), h)](
        q, k, v, heads, padding, q.size(2), k.size(2), 1 / math.sqrt(d_k),
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *heads.stride()[:3],
        **_settings(q, k, v, causal, padding),
    )  # fmt: skip
    return out


@short_attention.register_fake
def _(projected, padding, h, d_k, causal):
    return _empty_output(projected, h, d_k)


@torch.library.custom_op("aiayn::short_attention_backward", mutates_args=())
def _short_attention_backward(
    grad: Tensor, projected: list[Tensor], padding: Tensor | None, h: int, d_k: int, causal: bool
) -> list[Tensor]:
    projected = [x.contiguous() for x in projected]
    gradients = [torch.empty_like(x) for x in projected]
    q, k, v = _split(projected, h, d_k)
    dq, dk, dv = _split(gradients, h, d_k)
    grad = grad.contiguous().unflatten(-1, (h, -1)).transpose(1, 2)
    _backward[(q.size(0), h)](
        q, k, v, grad, dq, dk, dv, padding, q.size(2), k.size(2), 1 / math.sqrt(d_k),
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *grad.stride()[:3],
        *dq.stride()[:3], *dk.stride()[:3], *dv.stride()[:3],
        **_settings(q, k, v, causal, padding),
    )  # fmt: skip
    return gradients


@_short_attention_backward.register_fake
def _(grad, projected, padding, h, d_k, causal):
    return [x.new_empty(x.shape) for x in projected]


def _setup(ctx, inputs, output):
    projected, padding, ctx.h, ctx.d_k, ctx.causal = inputs
    ctx.save_for_backward(padding, *projected)


def _differentiate(ctx, grad):
    padding, *projected = ctx.saved_tensors
    gradients = _short_attention_backward(grad, projected, padding, ctx.h, ctx.d_k, ctx.causal)
    return gradients, None, None, None, None


short_attention.register_autograd(_differentiate, setup_context=_setup)
