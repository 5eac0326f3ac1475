"""§5.4 Label smoothing: ε/(V−1) on every wrong class, 1−ε on the right one."""

import torch
from torch import Tensor

from .precision import for_products

#: Elements of one piece of the tokens × vocabulary matrix: enough rows to be worth reading W for
#: (with a vocabulary of 37,000, 28 rows take 2.4 times as long as 113), and little memory.
PIECE = {"cpu": 2**22, "cuda": 2**26}
#: What p − q is multiplied by, so that float16 holds the ε/(V−1) of a large vocabulary, and x
#: divided by for a product with it; the sum over so many rows at most stays in reach as well, where
#: no element of x is above 32.
SCALE, SCALED_ROWS = {torch.float16: 2.0**10}, 2**11


def label_smoothed_nll(log_p: Tensor, target: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """The smoothed loss −Σ_k q_k log p_k and the plain −log p_target of each position.

    log_p: (n, V), target: (n,); both results are (n,), in nats.
    Written with ε' = ε·V/(V−1), for which q_k = ε'/V + (1−ε')·[k = target].
    """
    nll = -log_p.gather(-1, target[:, None]).squeeze(-1)
    rescaled = epsilon * log_p.size(-1) / (log_p.size(-1) - 1)
    return (1 - rescaled) * nll - rescaled * log_p.mean(dim=-1), nll


class _ProjectedLoss(torch.autograd.Function):
    """Σ label_smoothed_nll(x Wᵀ), in pieces of rows, so that x Wᵀ is never held whole.

    The gradients are computed with the loss, while a piece's probabilities are at hand.
    """

    @staticmethod
    def forward(
        ctx, x: Tensor, weight: Tensor, target: Tensor, epsilon: float, with_gradient: bool
    ):
        vocabulary, scale = weight.size(0), SCALE.get(x.dtype, 1.0)
        rescaled = epsilon * vocabulary / (vocabulary - 1)
        exact = torch.float64 if x.dtype == torch.float64 else torch.float32
        totals = torch.zeros(2, dtype=exact, device=x.device)
        grad_x = torch.empty_like(x if with_gradient else x[:0])
        grad_weight = torch.zeros_like(weight if with_gradient else weight[:0], dtype=exact)
        rows = max(1, PIECE.get(x.device.type, PIECE["cpu"]) // vocabulary)
        if scale != 1:
            rows = min(rows, SCALED_ROWS)
        for start in range(0, x.size(0), rows):
            piece, right = x[start : start + rows], target[start : start + rows]
            log_p = (piece @ weight.t()).log_softmax(dim=-1, dtype=exact)
            totals += torch.stack(label_smoothed_nll(log_p, right, epsilon)).sum(dim=1)
            if with_gradient:
                # ∂loss/∂logits = p − q
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
        ctx.save_for_backward(grad_x, grad_weight)
        ctx.mark_non_differentiable(nll := totals[1].clone())
        return totals[0].clone(), nll

    @staticmethod
    def backward(ctx, grad_loss: Tensor, _):
        grad_x, grad_weight = ctx.saved_tensors
        scale = SCALE.get(grad_x.dtype, 1.0)
        # On a GPU a look at the number would wait for it; elsewhere it saves a copy as large as W.
        if grad_loss.device.type != "cpu" or grad_loss != 1 or scale != 1:
            grad_x, grad_weight = grad_x * (grad_loss / scale), grad_weight * grad_loss
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
    x, weight, target = for_products(x[keep]), for_products(weight), target[keep]
    with_gradient = torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad)
    return _ProjectedLoss.apply(x, weight, target, epsilon, with_gradient)
