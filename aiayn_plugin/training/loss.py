"""§5.4 Label smoothing: ε/(V−1) on every wrong class, 1−ε on the right one."""

import math

import torch
from torch import Tensor

from ..kernels.autocast import autocast_once
from ..kernels.linear import add_transposed_product, linear
from ..model.embedding import score_rows

# float16 has two limits: its smallest positive number is 6e-8, and its largest 65,504.
#: With a vocabulary of 37,000 a wrong class has q = 0.1 / 36,999 = 2.7e-6, where float16 keeps 6
#: bits. p − q is multiplied by this before it becomes float16: 2.8e-3 has all of its 11 bits.
FLOAT16_SCALE = 2.0**10
#: Positions whose gradients of W are summed in float16. One position adds (p − q) · x, and
#: |p − q| < 1: with |x| ≤ 31, 2,048 positions stay below 2,048 · 31 = 63,488.
FLOAT16_ROWS = 2**11


def label_smoothed_nll(
    log_p_right: Tensor, mean_log_p: Tensor, epsilon: float, vocabulary: int
) -> Tensor:
    """Return the smoothed loss −Σ_k q_k log p_k of each position, in nats.

    log_p_right, mean_log_p: log p of the right class, and its mean over all V classes.
    q_k = ε'/V + (1−ε')·[k is right]. For V = 5 and ε = 0.1, ε' is 0.125: each wrong class has
    0.125/5 = 0.025 = ε/4, the right one 0.025 + 0.875 = 0.9.
    """
    shared = shared_probability(epsilon, vocabulary)
    return -(1 - shared) * log_p_right - shared * mean_log_p


def shared_probability(epsilon: float, vocabulary: int) -> float:
    """Return ε' = ε·V/(V−1), the part of q that all classes have in equal shares."""
    return epsilon * vocabulary / (vocabulary - 1)


class _ProjectedLoss(torch.autograd.Function):
    """Σ label_smoothed_nll(x Wᵀ), in pieces of rows, so that x Wᵀ is never held whole.

    The gradients are computed together with the loss, while the probabilities of a piece are there.
    What all classes share needs no look at them: the scores of a position add up to x · ΣW, and the
    gradient p − q has −ε'/V everywhere, which takes ε'/V · ΣW from that of each x, and ε'/V · Σx
    from that of each row of W.
    """

    @staticmethod
    def forward(
        ctx, x: Tensor, weight: Tensor, target: Tensor, epsilon: float, with_gradient: bool
    ):
        vocabulary, exact = weight.size(0), torch.promote_types(x.dtype, torch.float32)
        shared = shared_probability(epsilon, vocabulary)
        # The products are in autocast's precision, sums and gradients in float32 or better.
        inputs, W = autocast_once(x), autocast_once(weight)
        scale = FLOAT16_SCALE if inputs.dtype == torch.float16 else 1.0
        grad_x = torch.empty_like(x if with_gradient else x[:0], dtype=exact)
        grad_weight = torch.zeros_like(weight if with_gradient else weight[:0], dtype=exact)
        score_right, log_p_right = torch.empty(2, x.size(0), 1, dtype=exact, device=x.device)
        rows = score_rows(vocabulary, x.device.type)
        for start in range(0, x.size(0), rows):
            these = slice(start, start + rows)
            piece, right = inputs[these], target[these, None]
            scores = linear(piece, W)
            score_right[these] = scores.gather(1, right)
            slope, log_p_right[these] = _softmax(scores, right, exact, scale)
            if with_gradient:
                slope_right = (log_p_right[these].exp() - (1 - shared)) * scale
                slope.scatter_(1, right, slope_right.to(slope.dtype))
                grad_x[these] = linear(slope, W.t())
                _add_product(grad_weight, slope, piece, scale)
        # log p_k is the score of k less one number for all, which the right class tells.
        sum_of_W = W.sum(dim=0, dtype=exact)
        mean = (inputs * sum_of_W).sum(dim=1, keepdim=True) / vocabulary
        mean_log_p = mean + (log_p_right - score_right)
        loss = label_smoothed_nll(log_p_right, mean_log_p, epsilon, vocabulary).sum()
        nll = -log_p_right.sum()
        if with_gradient:
            grad_x.div_(scale).sub_(sum_of_W, alpha=shared / vocabulary)
            grad_weight.sub_(inputs.sum(dim=0, dtype=exact), alpha=shared / vocabulary)
        ctx.save_for_backward(grad_x, grad_weight)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx, grad_loss: Tensor, _):
        grad_x, grad_weight = ctx.saved_tensors
        # On a CPU a look at the number saves a copy as large as W. On a GPU it would wait for it.
        if grad_loss.device.type != "cpu" or grad_loss != 1:
            grad_x, grad_weight = grad_x * grad_loss, grad_weight * grad_loss
        return grad_x, grad_weight, None, None, None


# On a GPU, torch's kernels read and write different precisions at once. On a CPU they do so without
# vector instructions: a conversion of its own is faster there.


def _softmax(
    scores: Tensor, right: Tensor, exact: torch.dtype, scale: float
) -> tuple[Tensor, Tensor]:
    """Return p · scale (n, V) in the place of scores, and log p of the right classes (n, 1).

    Sums, and log p, are in the precision `exact`.
    """
    if scores.device.type != "cpu":
        log_p = scores.log_softmax(-1, exact)
        log_p_right = log_p.gather(1, right)
        if scale != 1:
            log_p += math.log(scale)
        return torch.exp(log_p, out=scores), log_p_right
    # Step by step, and in place: fewer passes over memory than log_softmax and exp.
    e = scores.to(exact)
    e -= e.amax(dim=1, keepdim=True)
    score_right = e.gather(1, right)
    total = e.exp_().sum(dim=1, keepdim=True)
    e *= scale / total
    return scores.copy_(e) if e is not scores else e, score_right - total.log()


def _add_product(grad_weight: Tensor, slope: Tensor, piece: Tensor, scale: float) -> None:
    """Add slopeᵀ piece / scale (V, d_model) to grad_weight, which may have a higher precision.

    slope: (n, V), piece: (n, d_model).
    """
    if slope.dtype == grad_weight.dtype:
        add_transposed_product(grad_weight, slope, piece)
        return
    rows = FLOAT16_ROWS if slope.dtype == torch.float16 else len(slope)
    piece = piece / scale if scale != 1 else piece
    for some_slopes, some in zip(slope.split(rows), piece.split(rows), strict=True):
        product = some_slopes.t() @ some
        grad_weight += product.to(grad_weight.dtype) if some.device.type == "cpu" else product


def projected_loss(
    x: Tensor,
    weight: Tensor,
    target: Tensor,
    epsilon: float,
    padding_idx: int,
    positions: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Project, smooth and sum, without ever holding the positions × vocabulary matrix.

    x: (…, d_model), weight: (V, d_model), both of one dtype, target: (…); positions whose target
    is padding_idx count nothing. `positions` says how many others there are: if it is None, a GPU
    has to count them before anything else can begin. Returns the sums of the smoothed loss (with
    gradients to x and weight) and of the plain negative log-likelihood (without), in nats.
    """
    x, target = x.flatten(0, -2), target.flatten()
    keep = target.ne(padding_idx)
    if positions is None:
        positions = int(keep.sum())
    if positions < len(target):
        kept = keep.nonzero_static(size=positions).squeeze(1)
        x, target = x.index_select(0, kept), target[kept]
    with_gradient = torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad)
    return _ProjectedLoss.apply(x, weight, target, epsilon, with_gradient)
