"""§5.4 Label smoothing: ε/(V−1) on every wrong class, 1−ε on the right one."""

import torch
from torch import Tensor

from ..model.embedding import score_rows
from ..model.precision import autocast_once

# float16 has two limits: its smallest positive number is 6e-8, and its largest 65,504.
#: With a vocabulary of 37,000 a wrong class has q = 0.1 / 36,999 = 2.7e-6, where float16 keeps 6
#: bits. p − q is multiplied by this before it becomes float16: 2.8e-3 has all of its 11 bits.
FLOAT16_SCALE = 2.0**10
#: Positions whose gradients of W are summed in float16. One position adds (p − q) · x, and
#: |p − q| < 1: with |x| ≤ 31, 2,048 positions stay below 2,048 · 31 = 63,488.
FLOAT16_ROWS = 2**11


def label_smoothed_nll(log_p: Tensor, target: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """Return the smoothed loss −Σ_k q_k log p_k and the plain −log p_target of each position.

    log_p: (n, V), target: (n,); both results are (n,), in nats.
    With ε' = ε·V/(V−1), q_k = ε'/V + (1−ε')·[k = target]. For V = 5 and ε = 0.1, ε' is 0.125: each
    wrong class has 0.125/5 = 0.025 = ε/4, the right one 0.025 + 0.875 = 0.9.
    """
    nll = -log_p.gather(-1, target[:, None]).squeeze(-1)
    rescaled = epsilon * log_p.size(-1) / (log_p.size(-1) - 1)
    return (1 - rescaled) * nll - rescaled * log_p.mean(dim=-1), nll


class _ProjectedLoss(torch.autograd.Function):
    """Σ label_smoothed_nll(x Wᵀ), in pieces of rows, so that x Wᵀ is never held whole.

    The gradients are computed together with the loss, while the probabilities of a piece are there.
    """

    @staticmethod
    def forward(
        ctx, x: Tensor, weight: Tensor, target: Tensor, epsilon: float, with_gradient: bool
    ):
        vocabulary = weight.size(0)
        scale = FLOAT16_SCALE if x.dtype == torch.float16 else 1.0
        rescaled = epsilon * vocabulary / (vocabulary - 1)
        exact = torch.float64 if x.dtype == torch.float64 else torch.float32
        totals = torch.zeros(2, dtype=exact, device=x.device)
        grad_x = torch.empty_like(x if with_gradient else x[:0])
        grad_weight = torch.zeros_like(weight if with_gradient else weight[:0], dtype=exact)
        rows = score_rows(vocabulary, x.device.type)
        if scale != 1:
            rows = min(rows, FLOAT16_ROWS)
        for start in range(0, x.size(0), rows):
            piece, right = x[start : start + rows], target[start : start + rows]
            log_p = (piece @ weight.t()).log_softmax(dim=-1, dtype=exact)
            totals += torch.stack(label_smoothed_nll(log_p, right, epsilon)).sum(dim=1)
            if with_gradient:
                # The gradient of the loss by the scores is p − q.
                slope = log_p.exp_().sub_(rescaled / vocabulary)
                slope.scatter_add_(1, right[:, None], slope.new_full((len(right), 1), rescaled - 1))
                if scale != 1:
                    slope.mul_(scale)
                slope = slope.to(x.dtype)
                torch.mm(slope, weight, out=grad_x[start : start + rows])
                if exact == x.dtype:
                    grad_weight.addmm_(slope.t(), piece)
                else:
                    grad_weight += slope.t() @ (piece / scale)
        ctx.scale = scale
        ctx.save_for_backward(grad_x, grad_weight)
        ctx.mark_non_differentiable(nll := totals[1].clone())
        return totals[0].clone(), nll

    @staticmethod
    def backward(ctx, grad_loss: Tensor, _):
        grad_x, grad_weight = ctx.saved_tensors
        # On a CPU a look at the number saves a copy as large as W. On a GPU it would wait for it.
        if grad_loss.device.type != "cpu" or grad_loss != 1 or ctx.scale != 1:
            grad_x, grad_weight = grad_x * (grad_loss / ctx.scale), grad_weight * grad_loss
        return grad_x, grad_weight.to(grad_x.dtype), None, None, None


def projected_loss(
    x: Tensor, weight: Tensor, target: Tensor, epsilon: float, padding_idx: int
) -> tuple[Tensor, Tensor]:
    """Project, smooth and sum, without ever holding the positions × vocabulary matrix.

    x: (…, d_model), weight: (V, d_model), both of one dtype, target: (…); positions whose target
    is padding_idx count nothing. Returns the sums of the smoothed loss (with gradients to x and
    weight) and of the plain negative log-likelihood (without), in nats.
    """
    keep = target.ne(padding_idx)
    x, weight, target = autocast_once(x[keep]), autocast_once(weight), target[keep]
    with_gradient = torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad)
    return _ProjectedLoss.apply(x, weight, target, epsilon, with_gradient)
