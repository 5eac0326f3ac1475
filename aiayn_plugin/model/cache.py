"""§3.1 while decoding: keys and values of earlier positions, for several hypotheses of a sentence.

A search keeps b hypotheses of each sentence, and at each step some of them continue the same one.
Nothing is moved then. The keys and values of all hypotheses of a sentence lie in one row of slots,
in the order in which they were computed, and a mask says which slots are the past of which
hypothesis. For example, with b = 2, after two steps in which both hypotheses of step 2 continue the
first one of step 1:

    slots        step 1: hypothesis 1, 2    step 2: hypothesis 1, 2
    seen by 1            yes  no                    yes  no
    seen by 2            yes  no                    no   yes

All hypotheses of a sentence attend to its encoder output, whose keys and values are computed once.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from .attention import MultiHeadAttention, additive, heads
from .products import linear


class Slots:
    """A tensor that grows along one dimension without being copied each time.

    It has room for a few more slots than it keeps. `append` returns these too: a product in
    bfloat16 would copy a part of a tensor. The mask hides them.
    """

    def __init__(self, dim: int) -> None:
        self.dim, self.start, self.end = dim, 0, 0
        self.room = torch.empty(0)

    def append(self, x: Tensor) -> Tensor:
        """Take x in, and return all that is kept, with the free slots after it."""
        kept, more = self.end - self.start, x.size(self.dim)
        if torch.is_grad_enabled():
            # Writing into the room would spoil what the backward pass of earlier steps needs.
            old = [self.room.narrow(self.dim, self.start, kept)] if kept else []
            self.room = torch.cat((*old, x), dim=self.dim)
            self.start, self.end = 0, kept + more
            return self.room
        if not kept or self.end + more > self.room.size(self.dim):
            shape = list(x.shape)
            # For 4 steps at first, and an eighth more than now after 32.
            shape[self.dim] = kept + max(4 * more, kept // 8)
            room = x.new_empty(shape)
            # No old numbers in free slots: 0 times NaN would be NaN.
            room.narrow(self.dim, kept, shape[self.dim] - kept).zero_()
            if kept:
                old_room = self.room.narrow(self.dim, self.start, kept)
                room.narrow(self.dim, 0, kept).copy_(old_room)
            self.room, self.start, self.end = room, 0, kept
        self.room.narrow(self.dim, self.end, more).copy_(x)
        self.end += more
        return self.room.narrow(self.dim, self.start, self.room.size(self.dim) - self.start)

    def forget(self, count: int) -> None:
        """Drop the oldest slots."""
        self.start += count

    def select(self, rows: Tensor) -> None:
        """Keep these rows of the first dimension, in this order; a row may come twice."""
        self.room = self.room.index_select(0, rows)


class SelfAttentionCache:
    """Keys and values of the positions so far, in one decoder layer."""

    def __init__(self, attention: MultiHeadAttention, past: "Past") -> None:
        self.h, self.past = attention.h, past
        self.widths = [attention.h * d for d in (attention.d_k, attention.d_k, attention.d_v)]
        # One product instead of three: a step has few positions to share the cost of starting one.
        stacked = attention.side_by_side() if attention.W_QKV is None else {}
        self.W_QKV = attention.W_QKV or (lambda x: linear(x, **stacked))
        # Keys are kept as columns: their product with a few queries takes less than half the time.
        self.keys, self.values = Slots(3), Slots(2)

    def queries_keys_values(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Take in x (sentences, b, d_model), the next position of each hypothesis.

        Returns queries (sentences, h, b, d_k), keys (sentences, h, slots, d_k), values (sentences,
        h, slots, d_v) and the mask (sentences, 1, b, slots), free slots included.
        """
        q, k, v = (heads(projected, self.h) for projected in
                   self.W_QKV(x).split(self.widths, dim=-1))
        k, v = self.keys.append(k.transpose(2, 3)), self.values.append(v)
        return q, k.transpose(2, 3), v, self.past.mask(x, v.size(2))

    def forget(self, count: int) -> None:
        """Drop the oldest slots."""
        self.keys.forget(count)
        self.values.forget(count)

    def select(self, rows: Tensor) -> None:
        """Keep these sentences."""
        self.keys.select(rows)
        self.values.select(rows)


class MemoryCache:
    """Keys and values of the encoder's output, in one decoder layer."""

    def __init__(self, attention: MultiHeadAttention, memory: Tensor, mask: Tensor | None) -> None:
        self.attention, self.mask = attention, mask
        self.keys = heads(attention.W_K(memory), attention.h).transpose(2, 3).contiguous()
        self.values = heads(attention.W_V(memory), attention.h).contiguous()

    def queries_keys_values(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Return the queries of x (sentences, b, d_model); the memory stays what it is."""
        q = heads(self.attention.W_Q(x), self.attention.h)
        return q, self.keys.transpose(2, 3), self.values, self.mask

    def select(self, rows: Tensor) -> None:
        """Keep these sentences."""
        self.keys = self.keys.index_select(0, rows)
        self.values = self.values.index_select(0, rows)
        if self.mask is not None:
            self.mask = self.mask.index_select(0, rows)


class Past:
    """For each hypothesis, the slots that it sees: its past, or the last r positions of it."""

    def __init__(self, neighbourhood: int | None) -> None:
        self.neighbourhood = neighbourhood
        self.seen = torch.empty(0, dtype=torch.bool)  # (sentences, b, slots)
        self.hypotheses: list[int] = []  # slots of each step that is kept
        self.steps = 0
        self._mask: Tensor | None = None

    def advance(self, tokens: Tensor, parents: Tensor | None) -> int:
        """Begin the next step, in which each hypothesis continues one of `parents`.

        Returns how many of the oldest slots no hypothesis sees any more.
        """
        sentences, b = tokens.shape
        itself = torch.eye(b, dtype=torch.bool, device=tokens.device).expand(sentences, b, b)
        if self.steps == 0:
            self.seen = itself
        else:
            if parents is not None:
                index = parents[:, :, None].expand(-1, -1, self.seen.size(2))
                self.seen = self.seen.gather(1, index)
            self.seen = torch.cat((self.seen, itself), dim=2)
        self.steps, self._mask = self.steps + 1, None
        self.hypotheses.append(b)
        if self.neighbourhood is None or len(self.hypotheses) <= self.neighbourhood:
            return 0
        unseen = self.hypotheses.pop(0)
        self.seen = self.seen[:, :, unseen:]
        return unseen

    def mask(self, like: Tensor, slots: int) -> Tensor:
        """Return the mask of this step, (sentences, 1, b, slots), which all layers share.

        Nobody sees the slots after those of this step: they are free.
        """
        if self._mask is None:
            seen = F.pad(self.seen, (0, slots - self.seen.size(2)))
            self._mask = additive(seen[:, None], like)
        return self._mask

    def select(self, rows: Tensor) -> None:
        """Keep these sentences."""
        self.seen, self._mask = self.seen.index_select(0, rows), None


class DecoderCache:
    """The caches of all layers of a decoder, while it decodes a batch of sentences."""

    def __init__(self, layers, memory: Tensor, memory_padding: Tensor | None) -> None:
        """Begin to decode; memory and memory_padding are what Encoder.encode returned."""
        mask = None
        if memory_padding is not None:
            mask = additive(~memory_padding[:, None, None], memory)
        self.past = Past(layers[0].self_attention.neighbourhood)
        #: For each layer the cache of its self-attention and of its attention over the encoder.
        self.layers = [(SelfAttentionCache(layer.self_attention, self.past),
                        MemoryCache(layer.encoder_attention, memory, mask)) for layer in layers]

    @property
    def position(self) -> int:
        """The position of the step that `advance` prepared; the first is 0."""
        return self.past.steps - 1

    def advance(self, tokens: Tensor, parents: Tensor | None = None) -> None:
        """Prepare the step that reads tokens (sentences, b), the last one of each hypothesis.

        parents (sentences, b): which hypothesis of the step before each one continues; without
        them, each one continues itself.
        """
        if unseen := self.past.advance(tokens, parents):
            for own, _ in self.layers:
                own.forget(unseen)

    def select(self, rows: Tensor) -> None:
        """Keep these sentences, in this order; a sentence may come twice."""
        self.past.select(rows)
        for own, memory in self.layers:
            own.select(rows)
            memory.select(rows)
