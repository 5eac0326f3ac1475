"""--bf16: matrix products in bfloat16, and all else, weights and optimiser too, in float32."""

import torch
from torch import Tensor


def for_products(x: Tensor) -> Tensor:
    """x as torch's autocast, where it is on, would cast it for each of several products."""
    device = x.device.type
    return x.to(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else x
