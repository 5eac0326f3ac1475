"""§3.1 while decoding: the features of the next token, for a beam of hypotheses of each sentence.

Nothing is ever moved from hypothesis to hypothesis. The keys and values of all hypotheses of a
sentence, abandoned ones too, lie in one row of slots, in the order in which they were computed; a
mask says which slots belong to the past of which hypothesis, and only the mask follows the choices
of the search. All hypotheses of a sentence attend to its slots, and to its encoder output, whose
keys and values are computed once, in one matrix product.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from .attention import MultiHeadAttention, Projection
from .layers import DecoderLayer

#: On a CPU so many sentences are encoded at once, which is enough to keep it busy.
ENCODED = 64


def encode(encoder, tokens: Tensor) -> dict:
    """Encoder.forward of tokens (batch, m), with less padding where a CPU would pay for it: a few
    sentences at once, which have like lengths, because batches are sorted."""
    if tokens.device.type != "cpu" or len(tokens) <= ENCODED:
        return encoder(tokens)
    padding = tokens.eq(encoder.embedding.padding)
    memory = None
    for start in range(0, len(tokens), ENCODED):
        some = slice(start, start + ENCODED)
        columns = (~padding[some]).any(dim=0).nonzero()
        seen = slice(int(columns.min()), int(columns.max()) + 1)
        x = encoder(tokens[some, seen])["encoder_out"][0]
        if memory is None:
            memory = x.new_zeros(*tokens.shape, x.size(-1))
        memory[some, seen] = x
    return {"encoder_out": [memory], "encoder_padding_mask": [padding] if padding.any() else []}


class Slots:
    """A tensor (…, slots) or (…, slots, d) that grows at `dim` without being copied each time."""

    def __init__(self, dim: int) -> None:
        self.dim, self.used = dim, 0
        self.room = torch.empty(0)

    def append(self, x: Tensor) -> Tensor:
        """Take x in, and return all so far."""
        start, self.used = self.used, self.used + x.size(self.dim)
        if not start or self.used > self.room.size(self.dim):
            old, shape = self.room, list(x.shape)
            shape[self.dim] = max(64, 2 * self.used)
            self.room = x.new_empty(shape)
            if start:
                self.room.narrow(self.dim, 0, start).copy_(old.narrow(self.dim, 0, start))
        self.room.narrow(self.dim, start, self.used - start).copy_(x)
        return self.room.narrow(self.dim, 0, self.used)

    def keep(self, sentences: Tensor) -> None:
        """Forget all other sentences, the first dimension."""
        self.room = self.room.index_select(0, sentences)


class LayerState:
    """What one decoder layer has computed for the sentences of a batch."""

    def __init__(self, layer: DecoderLayer, memory: Tensor) -> None:
        own, other = layer.self_attention, layer.encoder_attention
        self.layer = layer
        (q, b_q), (k, b_k), (v, b_v) = _scaled(own), _weights(own.W_K), _weights(own.W_V)
        self.W_QKV = torch.cat((q, k, v))
        biases = [b for b in (b_q, b_k, b_v) if b is not None]
        self.b_QKV = torch.cat(biases) if biases else None
        self.W_Q, self.b_Q = _scaled(other)
        self.widths = [len(q), len(k), len(v)]
        self.k, self.v = Slots(3), Slots(2)  # keys are kept as columns: see _attend
        self.memory_k = _heads(other.W_K(memory), other).transpose(2, 3).contiguous()
        self.memory_v = _heads(other.W_V(memory), other).contiguous()

    def keep(self, sentences: Tensor) -> None:
        """Forget all other sentences."""
        self.k.keep(sentences)
        self.v.keep(sentences)
        self.memory_k = self.memory_k.index_select(0, sentences)
        self.memory_v = self.memory_v.index_select(0, sentences)

    def step(
        self, x: Tensor, past: Tensor, memory_mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """x (sentences, b, d_model) at the next position to the layer's output, and the weights of
        encoder-decoder attention. The masks are 0 and −∞."""
        layer, own, other = self.layer, self.layer.self_attention, self.layer.encoder_attention
        q, k, v = F.linear(x, self.W_QKV, self.b_QKV).split(self.widths, dim=-1)
        k = self.k.append(_heads(k, own).transpose(2, 3))
        v = self.v.append(_heads(v, own))
        if (unseen := v.size(2) - past.size(-1)) > 0:  # out of the neighbourhood of all
            k, v = k[:, :, :, unseen:], v[:, :, unseen:]
        context, _ = _attend(_heads(q, own), k, v, past)
        x = layer.add_norms[0](x, own.W_O(_joined(context)))
        q = _heads(F.linear(x, self.W_Q, self.b_Q), other)
        context, weights = _attend(q, self.memory_k, self.memory_v, memory_mask)
        x = layer.add_norms[1](x, other.W_O(_joined(context)))
        return layer.add_norms[2](x, layer.feed_forward(x)), weights


class Decoding:
    """The state of decoding a batch with a Decoder, which must not be training.

    encoder_out is what Encoder.forward returned for the batch.
    """

    def __init__(self, decoder, encoder_out: dict) -> None:
        self.decoder = decoder
        memory, masks = encoder_out["encoder_out"][0], encoder_out["encoder_padding_mask"]
        self.memory_mask = _mask(~masks[0][:, None, None], memory) if masks else None
        self.layers = [LayerState(layer, memory) for layer in decoder.layers]
        self.neighbourhood = decoder.layers[0].self_attention.neighbourhood
        self.past = torch.empty(0)  # (sentences, b, slots): whose past a slot belongs to
        self.widths: list[int] = []  # hypotheses of each sentence, step by step

    def step(
        self, tokens: Tensor, parents: Tensor | None, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Features of the next token, (sentences, b, d_model), for the decoder's output layer.

        tokens (sentences, b): the last token of each hypothesis. parents (sentences, b): which
        hypothesis of the step before it continues; None at the first step.
        With need_weights also the last layer's encoder-decoder attention (sentences, b, m), the
        mean over the heads.
        """
        self._remember(tokens, parents)
        position = len(self.widths) - 1
        where = torch.full((1, 1), position, device=tokens.device)
        x = self.decoder.embedding(tokens)
        x = x + self.decoder.positions(where, position + 1).to(x.dtype)
        past = self.past
        if self.neighbourhood is not None:
            past = past[:, :, sum(self.widths[: -self.neighbourhood]) :]
        past = _mask(past[:, None], x)
        for layer in self.layers:
            x, weights = layer.step(x, past, self.memory_mask)
        return x, weights.mean(dim=1) if need_weights else None

    def _remember(self, tokens: Tensor, parents: Tensor | None) -> None:
        sentences, b = tokens.shape
        itself = torch.eye(b, dtype=torch.bool, device=tokens.device).expand(sentences, b, b)
        if parents is None:
            self.past = itself
        else:
            of_parent = parents[:, :, None].expand(-1, -1, self.past.size(2))
            self.past = torch.cat((self.past.gather(1, of_parent), itself), dim=2)
        self.widths.append(b)

    def keep(self, sentences: Tensor) -> None:
        """Forget all sentences but these, given by their numbers in the batch as it is now."""
        for layer in self.layers:
            layer.keep(sentences)
        self.past = self.past.index_select(0, sentences)
        if self.memory_mask is not None:
            self.memory_mask = self.memory_mask.index_select(0, sentences)


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Equation (1) for a few queries, which are divided by √d_k already: q (…, b, d_k), k
    (…, d_k, m), v (…, m, d_v), mask (…, b, m) of 0 and −∞. Returns (…, b, d_v) and the weights
    (…, b, m).

    torch's fused attention takes two to three times as long on a CPU where b is small, and so does
    the product with keys that are rows.
    """
    scores = q @ k
    if mask is not None:
        scores += mask
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


def _weights(projection: Projection) -> tuple[Tensor, Tensor | None]:
    return projection.weight, getattr(projection, "bias", None)


def _scaled(attention: MultiHeadAttention) -> tuple[Tensor, Tensor | None]:
    """W_Q over √d_k, and its bias: what is divided before the product cannot overflow in float16,
    and not at every step."""
    weight, bias = _weights(attention.W_Q)
    scale = 1 / math.sqrt(attention.d_k)
    return weight * scale, None if bias is None else bias * scale


def _mask(seen: Tensor, like: Tensor) -> Tensor:
    """0 where seen, −∞ elsewhere, in the precision of `like`."""
    return torch.zeros(seen.shape, dtype=like.dtype, device=seen.device).masked_fill_(
        ~seen, -math.inf
    )


def _heads(x: Tensor, attention: MultiHeadAttention) -> Tensor:
    return x.unflatten(-1, (attention.h, -1)).transpose(1, 2)  # (sentences, h, b, d_k or d_v)


def _joined(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)  # (sentences, b, h·d_v)
