"""§3 Model architecture: the two stacks and the model, at fairseq's boundary."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Optional

import torch
import torch.nn.functional as F
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import (
    FairseqEncoder,
    FairseqEncoderDecoderModel,
    FairseqIncrementalDecoder,
    register_model,
    register_model_architecture,
)
from omegaconf import II
from torch import Tensor, nn

from . import fairseq_names
from .architectures import ARCHITECTURES, BASE
from .attention import Projection
from .dropout import dropout
from .embedding import ScaledEmbedding
from .errors import SettingError, fail
from .layers import DecoderLayer, EncoderLayer
from .positions import Positions, build_positions, positions_of
from .precision import for_products
from .recipe import SEARCH

POSITIONS = ("sinusoids", "learned", "fairseq")
#: Which of source embedding, target embedding and projection are one matrix (§3.4: all).
TIED = ("all", "target", "none")


def _paper(name: str, help: str) -> Any:
    return field(default=BASE[name], metadata={"help": help})


@dataclass
class TransformerConfig(FairseqDataclass):
    """What the paper varies, under the paper's names; the defaults are base's."""

    N: int = _paper("N", "layers of each stack (§3.1)")
    d_model: int = _paper("d_model", "width of embeddings and sub-layer outputs (§3.1)")
    d_ff: int = _paper("d_ff", "inner width of the feed-forward network (§3.3)")
    h: int = _paper("h", "attention heads (§3.2.2)")
    # Optional[int]: fairseq cannot make a command-line option of int | None.
    d_k: Optional[int] = _paper("d_k", "width of queries and keys; default: d_model / h")  # noqa: UP045
    d_v: Optional[int] = _paper("d_v", "width of values; default: d_model / h")  # noqa: UP045
    dropout: float = _paper("dropout", "P_drop on sub-layer outputs and embedding sums (§5.4)")
    attention_dropout: float = field(
        default=0.0, metadata={"help": "dropout on the attention weights (none in §5.4)"}
    )
    attention_bias: bool = field(
        default=False, metadata={"help": "biases in the projections of attention (none in §3.2.2)"}
    )
    positions: ChoiceEnum(POSITIONS) = _paper(  # type: ignore[valid-type]
        "positions", "the paper's sinusoids, learned vectors (Table 3, row E), fairseq's sinusoids"
    )
    neighbourhood: Optional[int] = field(  # noqa: UP045
        default=None,
        metadata={"help": "r of restricted self-attention (Table 1); default: all positions"},
    )
    tie_embeddings: ChoiceEnum(TIED) = field(  # type: ignore[valid-type]
        default="all",
        metadata={"help": "which share one matrix: source and target embedding and projection "
                  "(§3.4), only the last two, or none"},
    )
    feed_forward_gain: float = _paper(
        "feed_forward_gain", "factor on the Glorot initialisation of the feed-forward network"
    )
    checkpoint_activations: bool = field(
        default=False,
        metadata={"help": "keep only attention's inputs for the backward pass, and compute the "
                  "rest again there: less memory, slower"},
    )
    # Without a help, fairseq takes these from the task: learned positions are as many.
    max_source_positions: int = II("task.max_source_positions")
    max_target_positions: int = II("task.max_target_positions")

    def head_widths(self) -> tuple[int, int]:
        """d_k and d_v. Raises SettingError where they do not follow from d_model and h."""
        if self.h < 1:
            raise SettingError(f"h {self.h} must be at least 1")
        if (self.d_k is None or self.d_v is None) and self.d_model % self.h:
            raise SettingError(
                f"d_model {self.d_model} is not divisible by h {self.h}: change one of them, or "
                "give --d-k and --d-v"
            )
        d_k = self.d_model // self.h if self.d_k is None else self.d_k
        d_v = self.d_model // self.h if self.d_v is None else self.d_v
        if min(d_k, d_v) < 1:
            raise SettingError(f"d_k {d_k} and d_v {d_v} must be at least 1")
        return d_k, d_v


class Stack:
    """What encoder and decoder share: embedding + positions, then dropout (§3.4, §3.5, §5.4)."""

    embedding: ScaledEmbedding
    positions: Positions
    dropout: float
    training: bool

    def embed(self, tokens: Tensor, only_last: bool = False) -> Tensor:
        """(batch, n) tokens to (batch, n, d_model), or (batch, 1, d_model) of the last one."""
        positions = positions_of(tokens, self.embedding.padding)
        length = tokens.size(1)
        if only_last:
            tokens, positions = tokens[:, -1:], positions[:, -1:]
        x = self.embedding(tokens)
        x = x + self.positions(positions, length).to(x.dtype)
        return dropout(x, self.dropout, self.training)

    def max_positions(self) -> int:
        """How many tokens a sentence may have: a million, for fairseq, where there is no limit."""
        return self.positions.max_positions or 1_000_000


class Encoder(Stack, FairseqEncoder):
    """§3.1: a stack of N layers; no norm after the last one."""

    def __init__(self, cfg: TransformerConfig, dictionary, embedding: ScaledEmbedding) -> None:
        super().__init__(dictionary)
        self.embedding = embedding
        self.positions = build_positions(cfg.positions, cfg.d_model, cfg.max_source_positions)
        self.dropout = cfg.dropout
        self.layers = nn.ModuleList(
            EncoderLayer(cfg.d_ff, cfg.dropout, _attention(cfg), cfg.feed_forward_gain)
            for _ in range(cfg.N)
        )

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **unused) -> dict:
        """(batch, m) tokens to fairseq's dictionary, whose tensors are batch first.

        "encoder_out": [(batch, m, d_model)]; "encoder_padding_mask": [(batch, m)], True at
        padding, or [] where there is none.
        """
        padding = src_tokens.eq(self.embedding.padding)
        masks = [padding] if padding.any() else []
        x = self.embed(src_tokens)
        for layer in self.layers:
            x = layer(x, *masks)
        return {"encoder_out": [x], "encoder_padding_mask": masks}

    def reorder_encoder_out(self, encoder_out: dict, new_order: Tensor) -> dict:
        """Select sentences (rows) of an encoder output."""
        return {
            name: [tensor.index_select(0, new_order) for tensor in tensors]
            for name, tensors in encoder_out.items()
        }


class Decoder(Stack, FairseqIncrementalDecoder):
    """§3.1: a stack of N layers, and the projection to the vocabulary (§3.4)."""

    def __init__(
        self, cfg: TransformerConfig, dictionary, embedding: ScaledEmbedding, left_pad: bool
    ) -> None:
        super().__init__(dictionary)
        self.embedding = embedding
        self.positions = build_positions(cfg.positions, cfg.d_model, cfg.max_target_positions)
        self.dropout = cfg.dropout
        self.left_pad = left_pad
        if cfg.tie_embeddings == "none":
            self.W_vocabulary = Projection(cfg.d_model, len(dictionary))
            nn.init.normal_(self.W_vocabulary.weight, std=cfg.d_model**-0.5)
        self.layers = nn.ModuleList(
            DecoderLayer(cfg.d_ff, cfg.dropout, _attention(cfg), cfg.feed_forward_gain)
            for _ in range(cfg.N)
        )

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict,
        incremental_state: dict | None = None,
        features_only: bool = False,
        **unused,
    ) -> tuple[Tensor, dict]:
        """(batch, n) tokens, shifted right, to (batch, n, V) scores before the softmax.

        With an incremental_state only the last position is computed, (batch, 1, V), from the
        state of the earlier ones. features_only gives (batch, n, d_model) instead.
        "attn" in the dictionary holds the last layer's encoder-decoder attention (batch, n, m),
        the mean over the heads, where the model is not training.
        """
        memory = for_products(encoder_out["encoder_out"][0])
        masks = encoder_out["encoder_padding_mask"]
        decoding = incremental_state is not None
        padding = None
        if self.left_pad and not decoding:
            padding = prev_output_tokens.eq(self.embedding.padding)
        caches = self._caches(incremental_state) if incremental_state is not None else None
        x = self.embed(prev_output_tokens, only_last=decoding)
        weights = None
        for i, layer in enumerate(self.layers):
            x, weights = layer(
                x,
                memory,
                padding,
                masks[0] if masks else None,
                caches=caches[i] if caches is not None else None,
                need_weights=not self.training and i == len(self.layers) - 1,
            )
        attn = [weights.mean(dim=1) if weights is not None else None]
        return (x if features_only else self.output_layer(x)), {"attn": attn}

    def output_layer(self, features: Tensor) -> Tensor:
        """§3.4: (…, d_model) to (…, V), with the embedding's matrix and no bias."""
        return F.linear(features, self.projection)

    @property
    def projection(self) -> Tensor:
        """The pre-softmax matrix (V, d_model): the target embedding's, or one of its own."""
        owner = self.W_vocabulary if hasattr(self, "W_vocabulary") else self.embedding
        return owner.weight

    def _caches(self, incremental_state: dict) -> list:
        if "aiayn" not in incremental_state:
            incremental_state["aiayn"] = [({}, {}) for _ in self.layers]
        return incremental_state["aiayn"]

    def reorder_incremental_state(self, incremental_state: dict, new_order: Tensor) -> None:
        """Select hypotheses (rows) of every layer's keys and values."""
        for caches in self._caches(incremental_state):
            for cache in caches:
                for name, tensor in cache.items():
                    cache[name] = tensor.index_select(0, new_order)


def _attention(cfg: TransformerConfig) -> dict:
    d_k, d_v = TransformerConfig.head_widths(cfg)
    return dict(
        d_model=cfg.d_model,
        h=cfg.h,
        d_k=d_k,
        d_v=d_v,
        dropout=cfg.attention_dropout,
        bias=cfg.attention_bias,
        neighbourhood=cfg.neighbourhood,
        recompute=cfg.checkpoint_activations,
    )


def _compare(there: dict[str, Tensor], here: dict[str, Tensor]) -> None:
    """End the command where a checkpoint's weights are not those of the model here."""
    advice = "give the --arch and the options that it was trained with, or another --save-dir"
    for name in sorted(there.keys() | here.keys()):
        if name not in there or name not in here:
            words = [str(tuple(state[name].shape)) if name in state else "missing"
                     for state in (there, here)]
        elif there[name].shape == here[name].shape:
            continue
        else:
            theirs, ours = (tuple(state[name].shape) for state in (there, here))
            if name.endswith(("embedding.weight", "vocabulary.weight")) and theirs[1:] == ours[1:]:
                fail(
                    f"the checkpoint has a dictionary of {theirs[0]} entries, the data one of "
                    f"{ours[0]}: give the data that it was trained with, or prepare the data with "
                    "that dictionary"
                )
            words = [str(theirs), str(ours)]
        fail(f"the checkpoint holds another architecture: {name} is {words[0]} in it and "
             f"{words[1]} here; {advice}")
    sides = zip(("h", "neighbourhood", "positions"), there["shapeless"], here["shapeless"],
                strict=True)
    for name, theirs, ours in sides:
        if theirs != ours:
            words = [POSITIONS[int(n)] if name == "positions" else str(int(n) or None)
                     for n in (theirs, ours)]
            fail(f"the checkpoint holds another architecture: {name} is {words[0]} in it and "
                 f"{words[1]} here; {advice}")


@register_model("aiayn_transformer", dataclass=TransformerConfig)
class Transformer(FairseqEncoderDecoderModel):
    """The Transformer of the paper, with one matrix for both embeddings and the projection."""

    #: Of the matrix products, where it is another than the weights': --bf16 in training.
    product_dtype: torch.dtype | None = None

    @classmethod
    def add_args(cls, parser) -> None:
        """The options of TransformerConfig, and fairseq's names for them."""
        super().add_args(parser)
        fairseq_names.add_args(parser)

    @classmethod
    def from_pretrained(cls, *args, **kwargs):
        """fairseq's. Where kwargs (settings of fairseq-generate) give no other, the penalty and the
        limit of the search are the paper's; the beam is translate()'s own argument."""
        hub = super().from_pretrained(*args, **kwargs)
        if getattr(hub.task.cfg, "length_penalty", None) == "gnmt":
            hub.cfg.generation.update({k: v for k, v in SEARCH.items() if k not in kwargs})
        return hub

    @classmethod
    def build_model(cls, cfg: TransformerConfig, task) -> "Transformer":
        """Raises SettingError for settings or dictionaries that the model cannot have."""
        source, target = task.source_dictionary, task.target_dictionary
        shared = cfg.tie_embeddings == "all"
        if shared and source != target:
            raise SettingError(
                "source and target dictionaries differ, and one matrix embeds both (§3.4): "
                "prepare the data with a joined dictionary, or give --tie-embeddings target"
            )
        embedding = ScaledEmbedding(len(target), cfg.d_model, target.pad())
        encoder = embedding if shared else ScaledEmbedding(len(source), cfg.d_model, source.pad())
        left_pad = getattr(task.cfg, "left_pad_target", False)
        model = cls(Encoder(cfg, source, encoder), Decoder(cfg, target, embedding, left_pad))
        # What no shape of a weight shows: a checkpoint says with it which model it is of.
        shapeless = (cfg.h, cfg.neighbourhood or 0, POSITIONS.index(str(cfg.positions)))
        model.register_buffer("shapeless", torch.tensor(shapeless, device="cpu"))
        return model

    @property
    def projection(self) -> Tensor:
        """The pre-softmax matrix (V, d_model)."""
        return self.decoder.projection

    def load_state_dict(self, state_dict, strict=True, model_cfg=None, args=None):
        """As fairseq's; ends the command with one line where the weights are of another model."""
        own = self.state_dict()
        state_dict = {"shapeless": own["shapeless"], **state_dict}
        if strict:
            _compare(state_dict, own)
        return super().load_state_dict(state_dict, strict, model_cfg, args)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None,
        prev_output_tokens: Tensor,
        features_only: bool = False,
        **unused,
    ) -> tuple[Tensor, dict]:
        """As Decoder.forward, for a batch of source and shifted target tokens."""
        with self.products():
            memory = self.encoder(src_tokens, src_lengths)
            return self.decoder(prev_output_tokens, memory, features_only=features_only)

    def products(self) -> AbstractContextManager:
        """What the products of a forward pass run under: torch's autocast to product_dtype."""
        if self.product_dtype is None:
            return nullcontext()
        return torch.autocast(self.projection.device.type, self.product_dtype)


for _name in ARCHITECTURES:
    # The settings come as the command line's defaults (recipe.py), so nothing is left to fill in.
    register_model_architecture("aiayn_transformer", _name)(lambda args: None)
