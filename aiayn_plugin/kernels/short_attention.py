"""Attention over short sentences on a GPU: one Triton program computes a whole head.

For up to 128 positions, all scores of a head fit in the registers of one multiprocessor, so neither
the scores nor their softmax is ever stored; the backward pass computes them again. Kernels for long
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
    """Return the addresses (rows, columns) of one head of a tensor, and which are valid."""
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
    """Return the compile-time settings of the kernels."""
    size = max(16, triton.next_power_of_2(max(q.size(2), k.size(2))))
    return {
        "SIZE": size,
        "D_K": q.size(3),
        "D_V": v.size(3),
        "CAUSAL": causal,
        "PADDED": padding is not None,
        "num_warps": 2 if size <= 32 else 4 if size <= 64 else 8,
    }


def _with_contiguous_rows(*tensors: Tensor) -> list[Tensor]:
    """Copy tensors whose rows, the last dimension, are not contiguous."""
    return [x if x.stride(-1) == 1 else x.contiguous() for x in tensors]


def _like_heads(x: Tensor, width: int) -> Tensor:
    """Return an empty tensor (batch, h, n, width), of x's sizes, stored as (batch, n, h, width)."""
    batch, h, n, _ = x.shape
    return x.new_empty(batch, n, h, width).transpose(1, 2)


@torch.library.custom_op("aiayn::short_attention", mutates_args=())
def short_attention(
    q: Tensor, k: Tensor, v: Tensor, padding: Tensor | None, causal: bool
) -> Tensor:
    """Return softmax(QKᵀ/√d_k)V, (batch, h, n, d_v), for at most 128 queries and keys.

    q: (batch, h, n, d_k), k: (batch, h, m, d_k), v: (batch, h, m, d_v); d_k and d_v are powers of
    two of at least 16. padding: boolean (batch, m), True at padding; no sentence may be all
    padding. causal: position i attends to positions up to i, and to itself if it is padding.
    """
    q, k, v = _with_contiguous_rows(q, k, v)
    padding = None if padding is None else padding.contiguous()
    out = _like_heads(q, v.size(3))
    _forward[(q.size(0), q.size(1))](
        q, k, v, out, padding, q.size(2), k.size(2), 1 / math.sqrt(q.size(3)),
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *out.stride()[:3],
        **_settings(q, k, v, causal, padding),
    )  # fmt: skip
    return out


@short_attention.register_fake
def _(q, k, v, padding, causal):
    return _like_heads(q, v.size(3))


@torch.library.custom_op("aiayn::short_attention_backward", mutates_args=())
def _short_attention_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, padding: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    grad, q, k, v = _with_contiguous_rows(grad, q, k, v)
    padding = None if padding is None else padding.contiguous()
    dq, dk, dv = (_like_heads(x, x.size(3)) for x in (q, k, v))
    _backward[(q.size(0), q.size(1))](
        q, k, v, grad, dq, dk, dv, padding, q.size(2), k.size(2), 1 / math.sqrt(q.size(3)),
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *grad.stride()[:3],
        *dq.stride()[:3], *dk.stride()[:3], *dv.stride()[:3],
        **_settings(q, k, v, causal, padding),
    )  # fmt: skip
    return dq, dk, dv


@_short_attention_backward.register_fake
def _(grad, q, k, v, padding, causal):
    return tuple(_like_heads(x, x.size(3)) for x in (q, k, v))


def _setup(ctx, inputs, output):
    q, k, v, padding, ctx.causal = inputs
    ctx.save_for_backward(q, k, v, padding)


def _differentiate(ctx, grad):
    return *_short_attention_backward(grad, *ctx.saved_tensors, ctx.causal), None, None


short_attention.register_autograd(_differentiate, setup_context=_setup)
