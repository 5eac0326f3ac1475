"""§3.1 The decoder's key-value cache, which the hypotheses of a sentence share.

A search keeps b hypotheses of each sentence, and at each step several of them may continue the same
one. Nothing is copied: the keys and values of all hypotheses of a sentence share one buffer of
slots, in the order in which they were computed, and a mask marks which slots are visible to which
hypothesis. For example, with b = 2, after two steps in which both hypotheses of step 2 continue the
first one of step 1:

    slots              step 1: hypothesis 1, 2    step 2: hypothesis 1, 2
    visible to 1               yes  no                    yes  no
    visible to 2               yes  no                    no   yes

The second slot will never be visible again. When the buffer is full, the slots that are visible to
any hypothesis move to a new one, and the rest are dropped: of the 61 slots of 16 steps with b = 4,
about 20 move.

All hypotheses of a sentence attend to its encoder output, whose keys and values are computed once.
"""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from ..kernels.device import has_bfloat16
from ..kernels.int8 import Int8Linear
from ..kernels.linear import linear
from ..model.attention import (
    MultiHeadAttention,
    Positions,
    additive_mask,
    scaled_dot_product_attention,
    split_heads,
)

#: Minimum number of free slots of a new buffer: enough for 4 steps of the paper's search.
MIN_FREE_SLOTS = 16
#: Capacities are multiples of this, since oneDNN generates code for each size.
CAPACITY_MULTIPLE = 16
#: Minimum batch size for bfloat16 attention in an int8 model to save more than converting costs.
MIN_BFLOAT16_BATCH = 16


class SlotTable:
    """The slots that are visible to each hypothesis: its past, or the last r positions."""

    def __init__(self, neighbourhood: int | None, dtype: torch.dtype) -> None:
        """dtype: of keys, values and attention."""
        self.neighbourhood, self.dtype, self.steps = neighbourhood, dtype, 0
        #: (batch, b, capacity); free slots are visible to no hypothesis.
        self.visible = torch.empty(0, dtype=torch.bool)
        #: The step in which each slot was filled, (batch, capacity).
        self.step_of_slot = torch.empty(0, dtype=torch.long)
        self.used = 0  # slots at the front that are filled
        #: The additive mask of this step, (batch, 1, b, capacity), shared by all layers.
        self.mask = torch.empty(0)

    def advance(self, tokens: Tensor, parents: Tensor | None = None) -> Tensor | None:
        """Begin the step that reads tokens (batch, b), whose hypotheses continue `parents`.

        Returns None or, if a new buffer is needed, the index of the old slot that each new slot
        copies, (batch, capacity); arbitrary for free slots.
        """
        batch, b = tokens.shape
        if self.steps == 0:
            self.visible = torch.zeros(batch, b, 0, dtype=torch.bool, device=tokens.device)
            self.step_of_slot = self.visible.new_zeros(batch, 0, dtype=torch.long)
        elif parents is not None:
            index = parents[:, :, None].expand(-1, -1, self.visible.size(2))
            self.visible = self.visible.gather(1, index)
        if self.neighbourhood is not None:
            self.visible &= (self.step_of_slot > self.steps - self.neighbourhood)[:, None]
        old_slots = None
        if self.used + b > self.visible.size(2):
            old_slots = self._drop_invisible_slots(max(MIN_FREE_SLOTS, 4 * b))
        new = slice(self.used, self.used + b)
        self.visible[:, :, new] = torch.eye(b, dtype=torch.bool, device=tokens.device)
        self.step_of_slot[:, new] = self.steps
        self.used, self.steps = self.used + b, self.steps + 1
        self.mask = additive_mask(self.visible[:, None], self.dtype)
        return old_slots

    def _drop_invisible_slots(self, free: int) -> Tensor:
        """Move visible slots to the front of a table with free slots; return their old indices.

        The sentence with the most visible slots determines how many are kept, so other sentences
        also keep masked slots.
        """
        is_visible = self.visible.any(dim=1)
        self.used = int(is_visible.sum(dim=1).max())
        free = max(free, self.used // 8)  # a fraction, so that copies become rarer
        free += -(self.used + free) % CAPACITY_MULTIPLE
        visible_first = is_visible.byte().sort(dim=1, descending=True, stable=True).indices
        old_slots = visible_first[:, : self.used]
        index = old_slots[:, None].expand(-1, self.visible.size(1), -1)
        self.visible = F.pad(self.visible.gather(2, index), (0, free))
        self.step_of_slot = F.pad(self.step_of_slot.gather(1, old_slots), (0, free))
        return F.pad(old_slots, (0, free))

    def select(self, rows: Tensor) -> None:
        """Keep these sentences, in this order."""
        self.visible = self.visible.index_select(0, rows)
        self.step_of_slot = self.step_of_slot.index_select(0, rows)


class SelfAttentionCache:
    """The buffer of keys and values of earlier positions, in one decoder layer."""

    keys: Tensor  #: (batch, h, capacity, d_k)
    values: Tensor  #: (batch, h, capacity, d_v)

    def __init__(self, attention: MultiHeadAttention, slots: SlotTable) -> None:
        self.h, self.slots = attention.h, slots
        self.widths = attention.qkv_widths()
        # One matmul instead of three: a step has too few positions to hide the cost of a call.
        self.project: Callable[[Tensor], Tensor]
        if attention.W_QKV is not None:
            self.project = attention.W_QKV
        else:
            weight, bias = attention.stack_qkv()
            self.project = partial(linear, weight=weight, bias=bias)

    def attention_inputs(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Store the keys and values of x (batch, b, d_model), the next position of each hypothesis.

        Returns queries (batch, h, b, d_k), the buffers of keys (batch, h, capacity, d_k) and values
        (batch, h, capacity, d_v), and the mask (batch, 1, b, capacity). The mask hides free slots;
        slicing them off would make bfloat16 matmuls copy the rest.
        """
        q, k, v = (
            split_heads(projected, self.h)
            for projected in self.project(x).to(self.slots.dtype).split(self.widths, dim=-1)
        )
        new = slice(self.slots.used - x.size(1), self.slots.used)
        self.keys[:, :, new] = k
        self.values[:, :, new] = v
        return q, self.keys, self.values, self.slots.mask

    def positions(self) -> Positions:
        """Return the positions of the queries, which are all the same, and of the keys."""
        keys = self.slots.step_of_slot[:, None]
        return keys.new_full((1, 1, 1), self.slots.steps - 1), keys

    def move(self, old_slots: Tensor) -> None:
        """Copy these slots (batch, capacity), as SlotTable.advance returns them, to new buffers."""
        batch, capacity = old_slots.shape
        if self.slots.steps == 1:  # nothing to copy; zeros, as an additive mask does not remove NaN
            _, d_k, d_v = (width // self.h for width in self.widths)
            self.keys, self.values = (
                old_slots.new_zeros(batch, self.h, capacity, d, dtype=self.slots.dtype)
                for d in (d_k, d_v)
            )
            return
        stride = self.keys.size(2)
        first = torch.arange(0, batch * self.h * stride, stride, device=old_slots.device)
        index = first.view(batch, self.h, 1) + old_slots[:, None]
        self.keys, self.values = (
            x.flatten(0, 2).index_select(0, index.flatten()).view(*index.shape, -1)
            for x in (self.keys, self.values)
        )


class CrossAttentionCache:
    """Keys and values of the encoder output, in one decoder layer."""

    def __init__(
        self,
        attention: MultiHeadAttention,
        memory: Tensor,
        mask: Tensor | None,
        dtype: torch.dtype,
    ) -> None:
        """memory: (batch, m, d_model); mask: additive (batch, 1, 1, m); dtype: of attention."""
        self.attention, self.mask = attention, mask
        self.keys, self.values = (
            split_heads(projection(memory), attention.h).to(dtype).contiguous()
            for projection in (attention.W_K, attention.W_V)
        )

    def attention_inputs(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Return the queries of x (batch, b, d_model), and the memory's keys, values and mask."""
        q = split_heads(self.attention.W_Q(x), self.attention.h).to(self.keys.dtype)
        return q, self.keys, self.values, self.mask

    def positions(self) -> None:
        """Return None: queries and keys are positions of different sentences."""


class DecoderCache:
    """The caches of all layers of a decoder, while it decodes a batch without gradients."""

    def __init__(self, layers, memory: Tensor, memory_padding: Tensor | None) -> None:
        """Begin to decode; memory and memory_padding are the output of Encoder.encode."""
        attention = layers[0].self_attention
        dtype = choose_dtype(attention, memory)
        mask = None
        if memory_padding is not None:
            mask = additive_mask(~memory_padding[:, None, None], dtype)
        self.slots = SlotTable(attention.neighbourhood, dtype)
        #: The caches of each layer's self-attention and encoder-decoder attention.
        self.layers: list[tuple[SelfAttentionCache, CrossAttentionCache]] = [
            (
                SelfAttentionCache(layer.self_attention, self.slots),
                CrossAttentionCache(layer.encoder_attention, memory, mask, dtype),
            )
            for layer in layers
        ]

    @property
    def position(self) -> int:
        """The position of the step that `advance` began, from 0."""
        return self.slots.steps - 1

    def advance(self, tokens: Tensor, parents: Tensor | None = None) -> None:
        """Begin the step that reads tokens (batch, b), the last one of each hypothesis.

        parents (batch, b): the hypothesis of the previous step that each one continues; default:
        itself.
        """
        old_slots = self.slots.advance(tokens, parents)
        if old_slots is not None:
            for self_cache, _ in self.layers:
                self_cache.move(old_slots)

    def select(self, rows: Tensor) -> None:
        """Keep these sentences, in this order; a sentence may repeat. Copies all of them."""
        self._replace(rows, lambda x: x.index_select(0, rows))

    def compact(self, rows: Tensor) -> None:
        """Keep these sentences, in this order, by moving them inside the buffers.

        Like select, but for no more rows than the cache has. It copies only rows that move: with
        rows (0, 4, 2), only sentence 4.
        """
        new_rows = torch.arange(len(rows), device=rows.device)
        new_rows = new_rows[rows != new_rows]
        moved = rows[new_rows]
        self._replace(
            rows, lambda x: x.index_copy_(0, new_rows, x.index_select(0, moved))[: len(rows)]
        )

    def _replace(self, rows: Tensor, select_rows: Callable[[Tensor], Tensor]) -> None:
        self.slots.select(rows)
        for self_cache, cross_cache in self.layers:
            for cache in (self_cache, cross_cache):
                cache.keys, cache.values = select_rows(cache.keys), select_rows(cache.values)
            if cross_cache.mask is not None:  # shared by the layers, so not changed in place
                cross_cache.mask = cross_cache.mask.index_select(0, rows)


def choose_dtype(attention: MultiHeadAttention, memory: Tensor) -> torch.dtype:
    """Return the dtype for attention over keys and values: the memory's, except in int8 models.

    Those attend in bfloat16 if the CPU has bfloat16 instructions and the memory
    (batch, m, d_model) holds enough sentences.
    """
    # A user's equation may have float32 weights.
    has_equation_1 = attention.equation is scaled_dot_product_attention
    is_int8 = has_equation_1 and isinstance(attention.W_O, Int8Linear)
    if is_int8 and len(memory) >= MIN_BFLOAT16_BATCH and has_bfloat16():
        return torch.bfloat16
    return memory.dtype
