"""--int8: matrix products of 8-bit numbers, to search with on a CPU."""

import torch
from torch import Tensor, nn

from ..errors import InputError
from .packing import fix_products
from .transformer import Decoder, Encoder

#: Some processors add two products of 8-bit numbers in 16 bits. Without instructions that do not
#: (VNNI), torch gives x 7 bits, so that no sum is too large.
SEVEN_BITS = not getattr(torch.cpu, "_is_vnni_supported", lambda: False)()


#: From so many outputs oneDNN is faster than FBGEMM: 1,024 rows of 512 take 7.9 ms to 8,000 outputs
#: by oneDNN and 12.7 by FBGEMM, to 1,536 both about 1.8 (a core of an EPYC). The sums are the same
#: whole numbers.
MANY_OUTPUTS = 4096


class Int8Projection(nn.Module):
    """x ↦ xW + b, with W and x as 8-bit numbers.

    Each output of W has a scale of its own: a row (0.5, −1, 0.25) is kept as (64, −127, 32), with
    1/127. x has one scale for all of it, which follows from its smallest and its largest number: so
    a sentence's result depends, a little, on the others of its batch. The products are summed up
    exactly, and come out in float32.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        """Raises InputError for weights that are not finite, or not in float32 on a CPU."""
        super().__init__()
        weight = weight.detach()
        if weight.device.type != "cpu" or weight.dtype != torch.float32:
            raise InputError(
                "8-bit numbers are for a model in float32 on a CPU: give --cpu (or "
                "aiayn's --device cpu), and neither --fp16 nor --bf16"
            )
        if not weight.isfinite().all():
            raise InputError(
                "the model has weights that are NaN or infinite: translate with an "
                "earlier checkpoint"
            )
        scales = weight.abs().amax(dim=1).clamp(min=torch.finfo(torch.float32).tiny) / 127
        numbers = torch.quantize_per_channel(
            weight, scales.double(), torch.zeros(len(weight), dtype=torch.long), 0, torch.qint8
        )
        quantized = torch.backends.quantized
        usual, engines = quantized.engine, quantized.supported_engines
        if len(weight) >= MANY_OUTPUTS and "onednn" in engines and not SEVEN_BITS:
            quantized.engine = "onednn"  # of the whole process, while this weight is packed
        try:
            self.packed = torch.ops.quantized.linear_prepack(
                numbers, bias.detach() if bias is not None else None
            )
        finally:
            quantized.engine = usual

    def forward(self, x: Tensor) -> Tensor:
        """Map (…, inner) in float32 to (…, outer)."""
        return torch.ops.quantized.linear_dynamic(x, self.packed, SEVEN_BITS)


def in_int8(encoder: Encoder, decoder: Decoder) -> None:
    """Let two stacks compute all products with weights by 8-bit numbers, in place.

    Embeddings, sums and norms stay in float32; so does attention, but for a search's on a processor
    that computes in bfloat16. Then the model can search, and no longer train. Raises InputError as
    Int8Projection does.
    """
    fix_products(encoder, decoder, Int8Projection)
    if getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)():
        decoder.cache_dtype = torch.bfloat16
