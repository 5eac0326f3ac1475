"""§5.4 Label smoothing: ε/(V−1) on every wrong class, 1−ε on the correct one."""

import math

import torch
from torch import Tensor

from ..kernels.autocast import cast_for_autocast
from ..kernels.chunking import rows_per_chunk
from ..kernels.compilation import compile_on_gpu
from ..kernels.linear import add_transposed_matmul, linear

# In float16 the smallest positive number is 6e-8 and the largest 65,504, hence two constants.
#: Scales p before its conversion to float16, which keeps only 6 bits of p = 2.7e-6; scaled to
#: 2.8e-3 it keeps all 11.
FLOAT16_SCALE = 2.0**10
#: Number of positions whose gradients of W are summed in float16. Each adds p · x, or for the
#: correct class (p − 1 + ε') · x, so with |x| ≤ 63, 1,024 positions stay below 1,024 · 63 = 64,512.
#: LayerNorm limits |x| to √d_model (32 for big) times its gain.
FLOAT16_ROWS = 2**10
#: Elements that a CPU converts to float32 at once. New memory for a large tensor costs more than
#: the arithmetic on it; small tensors reuse memory.
TILE_SIZE = 2**20


def label_smoothed_nll(
    target_log_p: Tensor, mean_log_p: Tensor, epsilon: float, vocabulary: int
) -> Tensor:
    """Return the smoothed loss −Σ_k q_k log p_k of each position, in nats.

    target_log_p: log p of the correct class; mean_log_p: mean of log p over all V classes.
    q_k = ε'/V + (1−ε')·[k is correct]. For V = 5 and ε = 0.1, ε' is 0.125: each wrong class has
    q = 0.125/5 = 0.025 = ε/4, and the correct one q = 0.025 + 0.875 = 0.9.
    """
    uniform = uniform_mass(epsilon, vocabulary)
    return -(1 - uniform) * target_log_p - uniform * mean_log_p


def uniform_mass(epsilon: float, vocabulary: int) -> float:
    """Return ε' = ε·V/(V−1), the probability mass that q spreads uniformly over all classes."""
    return epsilon * vocabulary / (vocabulary - 1)


def projected_loss(
    x: Tensor,
    weight: Tensor,
    target: Tensor,
    epsilon: float,
    padding_idx: int,
    static_shapes: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """Compute logits and loss in chunks, without ever storing the positions × vocabulary matrix.

    x: (…, d_model), weight: (V, d_model), of one dtype; target: (…), where padding_idx marks
    positions to ignore. static_shapes: process ignored positions too, with loss 0, so that no shape
    depends on the targets, as CUDA graphs require (default: not on a CPU).
    Returns the sums, in nats, of the smoothed loss (with gradients for x and weight) and of the
    plain negative log-likelihood (without).
    """
    x, target = x.flatten(0, -2), target.flatten()
    is_target = target.ne(padding_idx)
    if static_shapes is None:
        static_shapes = x.device.type != "cpu"
    if static_shapes:
        # Rows of zeros contribute nothing to the sums over x or to the gradient of W.
        x = x.masked_fill(~is_target[:, None], 0)
    elif not is_target.all():
        x, target, is_target = x[is_target], target[is_target], is_target[is_target]
    needs_grad = torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad)
    return _ProjectedLoss.apply(x, weight, target, is_target, epsilon, needs_grad)


class _ProjectedLoss(torch.autograd.Function):
    """Σ label_smoothed_nll(x Wᵀ) over the rows where is_target, in chunks of rows.

    The gradients are computed together with the loss, while a chunk's probabilities are in memory.
    The uniform part of q, ε'/V for every class, needs no pass over the classes: the logits of a
    position sum to x · ΣW, and its −ε'/V in every element of p − q subtracts ε'/V · ΣW from the
    gradient of each x, and ε'/V · Σx from that of each row of W.
    """

    @staticmethod
    def forward(
        ctx,
        x: Tensor,
        weight: Tensor,
        target: Tensor,
        is_target: Tensor,
        epsilon: float,
        needs_grad: bool,
    ):
        vocabulary, sum_dtype = weight.size(0), torch.promote_types(x.dtype, torch.float32)
        uniform = uniform_mass(epsilon, vocabulary)
        # Matmuls are in autocast's dtype, sums and gradients in sum_dtype: at least float32.
        inputs, W = cast_for_autocast(x), cast_for_autocast(weight)
        scale = FLOAT16_SCALE if inputs.dtype == torch.float16 else 1.0
        grad_x = torch.empty_like(x if needs_grad else x[:0], dtype=sum_dtype)
        grad_weight = torch.zeros_like(weight if needs_grad else weight[:0], dtype=sum_dtype)
        target_logit, target_log_p = torch.empty(2, x.size(0), 1, dtype=sum_dtype, device=x.device)
        rows = rows_per_chunk(vocabulary, x.device.type)
        for start in range(0, len(x), rows):
            chunk = slice(start, start + rows)
            x_chunk, target_chunk = inputs[chunk], target[chunk, None]
            logits = linear(x_chunk, W)
            target_logit[chunk] = logits.gather(1, target_chunk)
            # p · scale, from which the gradient of the logits is computed in place.
            grad_logits, target_log_p[chunk] = _softmax_(logits, target_chunk, sum_dtype, scale)
            if needs_grad:
                grad_target = (target_log_p[chunk].exp() - (1 - uniform)) * scale
                # Not scatter_, which on a CPU copies bfloat16 logits twice.
                row = torch.arange(len(logits), device=x.device)[:, None]
                grad_logits[row, target_chunk] = grad_target.to(grad_logits.dtype)
                grad_x[chunk] = linear(grad_logits, W.t())
                _accumulate_grad_weight(grad_weight, grad_logits, x_chunk, scale)
        # logit − log p is the log normaliser, the same for every class: take it from the target's.
        sum_of_W = weight.sum(dim=0, dtype=sum_dtype)
        mean_logit = (inputs * sum_of_W).sum(dim=1, keepdim=True) / vocabulary
        mean_log_p = mean_logit + (target_log_p - target_logit)
        losses = label_smoothed_nll(target_log_p, mean_log_p, epsilon, vocabulary)
        loss, nll = (torch.where(is_target[:, None], x, 0).sum() for x in (losses, -target_log_p))
        if needs_grad:
            grad_x.div_(scale).sub_(sum_of_W, alpha=uniform / vocabulary)
            grad_weight.sub_(inputs.sum(dim=0, dtype=sum_dtype), alpha=uniform / vocabulary)
        ctx.save_for_backward(grad_x, grad_weight)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx, grad_loss: Tensor, _):
        grad_x, grad_weight = ctx.saved_tensors
        # On a CPU, checking for 1 saves a copy as large as W. On a GPU it would synchronise.
        if grad_loss.device.type != "cpu" or grad_loss != 1:
            grad_x, grad_weight = grad_x * grad_loss, grad_weight * grad_loss
        return grad_x, grad_weight, None, None, None, None


# On a GPU, torch's kernels mix dtypes at no cost. On a CPU, mixing dtypes prevents vectorisation,
# so the functions below convert first.


def _softmax_(
    logits: Tensor, target: Tensor, sum_dtype: torch.dtype, scale: float
) -> tuple[Tensor, Tensor]:
    """Return softmax(logits) · scale (n, V) and log p of target (n, 1); may overwrite logits.

    Sums and log p are in sum_dtype.
    """
    if logits.device.type != "cpu":
        return _fused_softmax(logits, target, sum_dtype, scale)
    target_log_p = torch.empty_like(target, dtype=sum_dtype)
    rows = max(1, TILE_SIZE // logits.size(1))
    for tile, tile_target, log_p in zip(
        *(x.split(rows) for x in (logits, target, target_log_p)), strict=True
    ):
        # Step by step and in place: fewer passes over memory than log_softmax and exp.
        exp = tile.to(sum_dtype)
        exp -= exp.amax(dim=1, keepdim=True)
        target_logit = exp.gather(1, tile_target)
        total = exp.exp_().sum(dim=1, keepdim=True)
        exp *= scale / total
        if exp is not tile:
            tile.copy_(exp)
        torch.sub(target_logit, total.log_(), out=log_p)
    return logits, target_log_p


@compile_on_gpu()
def _fused_softmax(
    logits: Tensor, target: Tensor, sum_dtype: torch.dtype, scale: float
) -> tuple[Tensor, Tensor]:
    """Return softmax(logits) · scale (n, V) and log p of target (n, 1).

    Does not overwrite logits: torch 2.11 would then take log p from the new values.
    """
    log_p = logits.log_softmax(-1, sum_dtype)
    target_log_p = log_p.gather(1, target)
    if scale != 1:
        log_p += math.log(scale)
    return log_p.exp_().to(logits.dtype), target_log_p


def _accumulate_grad_weight(
    grad_weight: Tensor, grad_logits: Tensor, x: Tensor, scale: float
) -> None:
    """Add grad_logitsᵀ x / scale (V, d_model) to grad_weight, whose precision may be higher.

    grad_logits: (n, V), x: (n, d_model).
    """
    if grad_logits.dtype == grad_weight.dtype:
        add_transposed_matmul(grad_weight, grad_logits, x)
        return
    rows = FLOAT16_ROWS if grad_logits.dtype == torch.float16 else len(grad_logits)
    x = x / scale if scale != 1 else x
    for grad_rows, x_rows in zip(grad_logits.split(rows), x.split(rows), strict=True):
        gradient = grad_rows.t() @ x_rows
        if gradient.device.type == "cpu":
            height = max(1, TILE_SIZE // gradient.size(1))
            for total, tile in zip(grad_weight.split(height), gradient.split(height), strict=True):
                total += tile.to(total.dtype)
        else:
            grad_weight += gradient
