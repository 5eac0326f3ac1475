"""Products with weights that no longer change: of a model that searches, and does not train."""

from collections.abc import Callable

from torch import Tensor, nn

from ..kernels.linear import PackedProjection, packing_pays
from .attention import MultiHeadAttention
from .layers import FeedForward
from .transformer import Decoder, Encoder

#: Makes a module that maps x to xW + b, of a weight (outer, inner) and a bias (outer) or None.
Product = Callable[[Tensor, Tensor | None], nn.Module]


def fix_products(encoder: Encoder, decoder: Decoder, product: Product) -> None:
    """Let two stacks compute all products with weights by `product`, in place.

    A second time changes nothing.
    """
    if decoder.W_scores is not None:
        return
    decoder.W_scores = product(decoder.projection, None)
    for module in [*encoder.modules(), *decoder.modules()]:
        if isinstance(module, MultiHeadAttention):
            if module.causal:  # what decodes step by step
                stacked = module.side_by_side()
                module.W_QKV = product(stacked["weight"], stacked.get("bias"))
            names = ["W_Q", "W_K", "W_V", "W_O"]
        elif isinstance(module, FeedForward):
            names = ["W_1", "W_2"]
        else:
            continue
        for name in names:
            projection = getattr(module, name)
            setattr(module, name, product(projection.weight, projection.bias))


def pack(encoder: Encoder, decoder: Decoder) -> None:
    """Pack all weights of two stacks on a CPU, in place, where that makes products faster.

    The results are the same but for the order of sums. In float32 weights then take twice their
    memory.
    """
    if packing_pays(decoder.projection):
        fix_products(encoder, decoder, PackedProjection)
