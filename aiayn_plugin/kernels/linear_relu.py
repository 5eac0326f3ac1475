"""A linear layer followed by ReLU, which a GPU can compute in one kernel."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .autocast import cast_for_autocast


def linear_relu(x: Tensor, layer: Any) -> Tensor:
    """Return max(0, layer(x)) for a linear layer, and x (…, in_features)."""
    is_graded = torch.is_grad_enabled()
    if x.is_cuda and is_graded and torch.is_autocast_enabled("cuda"):
        inputs, weight, bias = map(cast_for_autocast, (x, layer.weight, layer.bias))
        return _linear_relu(inputs.flatten(0, -2), weight, bias).unflatten(0, x.shape[:-1])
    # In place only without gradients: with them, autograd would copy a tensor of width d_ff.
    return F.relu(layer(x), inplace=not is_graded)


@torch.library.custom_op("aiayn::linear_relu", mutates_args=())
def _linear_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch.ops.aten._addmm_activation(bias, x, weight.t())


@_linear_relu.register_fake
def _(x, weight, bias):
    return x.new_empty(x.size(0), weight.size(0))


def _setup(ctx, inputs, output):
    x, weight, _ = inputs
    ctx.save_for_backward(x, weight, output)


def _differentiate(ctx, grad):
    x, weight, out = ctx.saved_tensors
    grad = torch.ops.aten.threshold_backward(grad, out, 0)
    return grad @ weight, grad.t() @ x, grad.sum(dim=0)


_linear_relu.register_autograd(_differentiate, setup_context=_setup)
