"""§3.1 while decoding: keys and values of earlier positions, for several hypotheses of a sentence.

A search keeps b hypotheses of each sentence, and at each step some of them continue the same one.
Nothing is moved then. The keys and values of all hypotheses of a sentence lie in one row of slots,
in the order in which they were computed, and a mask says which slots are the past of which
hypothesis. For example, with b = 2, after two steps in which both hypotheses of step 2 continue the
first one of step 1:

    slots        step 1: hypothesis 1, 2    step 2: hypothesis 1, 2
    seen by 1            yes  no                    yes  no
    seen by 2            yes  no                    no   yes

Nobody will ever see the second slot again. When there is no room for a step, what is seen moves to
a new room, and such slots are left behind: of the 61 slots of 16 steps with b = 4 about 20 move.

All hypotheses of a sentence attend to its encoder output, whose keys and values are computed once.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from ..kernels.linear import linear
from ..model.attention import MultiHeadAttention, additive, heads

#: Free slots of a new room, or a few more: for 4 steps of the paper's search.
FREE = 16
#: Sentences whose keys and values are worth another precision. One alone takes 77 ms with bfloat16
#: in a model of 8 bits, and 62 without (base, an EPYC).
MANY = 16
#: Rooms have a multiple of so many slots. oneDNN writes code for each number of them.
ROUND = 16


class Past:
    """For each hypothesis, the slots that it sees: its past, or the last r positions of it."""

    def __init__(self, neighbourhood: int | None) -> None:
        self.neighbourhood, self.steps = neighbourhood, 0
        #: (sentences, b, slots), free ones too, which nobody sees.
        self.seen = torch.empty(0, dtype=torch.bool)
        self.end = 0  # of the slots that are taken
        self.step_of = torch.empty(0, dtype=torch.long)  # (sentences, slots)
        self._mask: Tensor | None = None

    def advance(self, tokens: Tensor, parents: Tensor | None) -> Tensor | None:
        """Begin the next step, in which each hypothesis continues one of `parents`.

        Returns None, or if new rooms are needed, the old slot (sentences, slots) for each new one;
        any old slot for one that is free.
        """
        sentences, b = tokens.shape
        if self.steps == 0:
            self.seen = torch.zeros(sentences, b, 0, dtype=torch.bool, device=tokens.device)
            self.step_of = self.seen.new_zeros(sentences, 0, dtype=torch.long)
        elif parents is not None:
            index = parents[:, :, None].expand(-1, -1, self.seen.size(2))
            self.seen = self.seen.gather(1, index)
        if self.neighbourhood is not None:
            self.seen &= (self.step_of > self.steps - self.neighbourhood)[:, None]
        # With gradients each step has a room of its own: to write into that of earlier steps would
        # spoil what their backward pass needs.
        moved = None
        if torch.is_grad_enabled() or self.end + b > self.seen.size(2):
            moved = self._move(b if torch.is_grad_enabled() else max(FREE, 4 * b))
        new = slice(self.end, self.end + b)
        self.seen[:, :, new] = torch.eye(b, dtype=torch.bool, device=tokens.device)
        self.step_of[:, new] = self.steps
        self.end, self.steps, self._mask = self.end + b, self.steps + 1, None
        return moved

    def _move(self, free: int) -> Tensor:
        """Keep the slots that somebody sees, with so many free ones; return the old slots."""
        live = self.seen.any(dim=1)
        # A sentence that sees fewer than another keeps some that it does not see.
        self.end = int(live.sum(dim=1).max()) if live.numel() else 0
        free = max(free, self.end // 8)
        free += -(self.end + free) % ROUND
        old = live.byte().sort(dim=1, descending=True, stable=True).indices[:, : self.end]
        seen = self.seen.gather(2, old[:, None].expand(-1, self.seen.size(1), -1))
        self.seen, self.step_of, old = (
            F.pad(x, (0, free)) for x in (seen, self.step_of.gather(1, old), old)
        )
        return old

    def mask(self, like: Tensor) -> Tensor:
        """Return the mask of this step, (sentences, 1, b, slots), which all layers share."""
        if self._mask is None:
            self._mask = additive(self.seen[:, None], like)
        return self._mask

    def select(self, rows: Tensor) -> None:
        """Keep these sentences."""
        self.seen, self._mask = self.seen.index_select(0, rows), None
        self.step_of = self.step_of.index_select(0, rows)


class SelfAttentionCache:
    """Keys and values of the positions so far, in one decoder layer."""

    def __init__(self, attention: MultiHeadAttention, past: Past, like: Tensor) -> None:
        """like: an empty tensor of the precision to keep and to attend in."""
        self.h, self.past = attention.h, past
        self.widths = [attention.h * d for d in (attention.d_k, attention.d_k, attention.d_v)]
        # One product instead of three: a step has few positions to share the cost of starting one.
        stacked = attention.side_by_side() if attention.W_QKV is None else {}
        self.W_QKV = attention.W_QKV or (lambda x: linear(x, **stacked))
        self.keys = like.new_empty(0, self.h, 0, attention.d_k)  # (sentences, h, slots, d_k)
        self.values = like.new_empty(0, self.h, 0, attention.d_v)

    def queries_keys_values(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Take in x (sentences, b, d_model), the next position of each hypothesis.

        Returns queries (sentences, h, b, d_k), keys (sentences, h, slots, d_k), values (sentences,
        h, slots, d_v) and the mask (sentences, 1, b, slots). Free slots are among them: a product
        in bfloat16 would copy a part of a tensor.
        """
        q, k, v = (
            heads(projected, self.h)
            for projected in self.W_QKV(x).to(self.keys.dtype).split(self.widths, dim=-1)
        )
        start = self.past.end - x.size(1)
        self.keys[:, :, start : self.past.end] = k
        self.values[:, :, start : self.past.end] = v
        return q, self.keys, self.values, self.past.mask(v)

    def move(self, old: Tensor) -> None:
        """Make new rooms, with what the old slots hold."""
        sentences, slots = len(old), self.keys.size(2)
        if not slots:
            # No arbitrary numbers in free slots: 0 times NaN would be NaN.
            self.keys, self.values = (
                x.new_zeros(sentences, self.h, old.size(1), x.size(3))
                for x in (self.keys, self.values)
            )
            return
        first = torch.arange(0, sentences * self.h * slots, slots, device=old.device)
        rows = first.view(sentences, self.h, 1) + old[:, None]
        self.keys, self.values = (
            x.flatten(0, 2).index_select(0, rows.flatten()).view(*rows.shape, -1)
            for x in (self.keys, self.values)
        )

    def select(self, rows: "Rows") -> None:
        """Keep these sentences."""
        self.keys, self.values = rows.of(self.keys), rows.of(self.values)


class MemoryCache:
    """Keys and values of the encoder's output, in one decoder layer."""

    def __init__(
        self, attention: MultiHeadAttention, memory: Tensor, mask: Tensor | None, like: Tensor
    ) -> None:
        """like: as for SelfAttentionCache."""
        self.attention, self.mask = attention, mask
        self.keys, self.values = (
            heads(projection(memory), attention.h).to(like.dtype).contiguous()
            for projection in (attention.W_K, attention.W_V)
        )

    def queries_keys_values(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Return the queries of x (sentences, b, d_model); the memory stays what it is."""
        q = heads(self.attention.W_Q(x), self.attention.h).to(self.keys.dtype)
        return q, self.keys, self.values, self.mask

    def select(self, rows: "Rows") -> None:
        """Keep these sentences."""
        self.keys, self.values = rows.of(self.keys), rows.of(self.values)
        if self.mask is not None:  # of all layers: it stays as it is
            self.mask = self.mask.index_select(0, rows.rows)


class Rows:
    """Rows to keep, in this order; a row may come twice."""

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows
        places = torch.arange(len(rows), device=rows.device)
        self.places = places[rows != places]  # where another row comes
        self.few = 2 * len(self.places) <= len(rows)

    def of(self, x: Tensor) -> Tensor:
        """Return these rows of x; where few of them move, x itself changes, which copies few."""
        if not self.few or len(self.rows) > len(x) or torch.is_grad_enabled():
            return x.index_select(0, self.rows)
        moved = x.index_select(0, self.rows[self.places])
        return x.index_copy_(0, self.places, moved)[: len(self.rows)]


class DecoderCache:
    """The caches of all layers of a decoder, while it decodes a batch of sentences."""

    def __init__(
        self,
        layers,
        memory: Tensor,
        memory_padding: Tensor | None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Begin to decode; memory and memory_padding are what Encoder.encode returned.

        dtype: the precision of keys, values and attention of MANY sentences; None: that of the
        memory, as of few, for which to change it takes longer than it saves.
        """
        dtype = dtype if dtype and len(memory) >= MANY else memory.dtype
        like, mask = memory.new_empty(0, dtype=dtype), None
        if memory_padding is not None:
            mask = additive(~memory_padding[:, None, None], like)
        self.past = Past(layers[0].self_attention.neighbourhood)
        #: For each layer the cache of its self-attention and of its attention over the encoder.
        self.layers: list[tuple[SelfAttentionCache, MemoryCache]] = [
            (
                SelfAttentionCache(layer.self_attention, self.past, like),
                MemoryCache(layer.encoder_attention, memory, mask, like),
            )
            for layer in layers
        ]

    @property
    def position(self) -> int:
        """The position of the step that `advance` prepared; the first is 0."""
        return self.past.steps - 1

    def advance(self, tokens: Tensor, parents: Tensor | None = None) -> None:
        """Prepare the step that reads tokens (sentences, b), the last one of each hypothesis.

        parents (sentences, b): which hypothesis of the step before each one continues; without
        them, each one continues itself.
        """
        old = self.past.advance(tokens, parents)
        if old is not None:
            for own, _ in self.layers:
                own.move(old)

    def select(self, rows: Tensor) -> None:
        """Keep these sentences, in this order; a sentence may come twice."""
        self.past.select(rows)
        kept = Rows(rows)
        for own, memory in self.layers:
            own.select(kept)
            memory.select(kept)
