"""§3 The model in fairseq's registry: its options, and its stacks with fairseq's interfaces."""

import functools
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from fairseq import hub_utils
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import (
    ARCH_MODEL_REGISTRY,
    FairseqEncoder,
    FairseqEncoderDecoderModel,
    FairseqIncrementalDecoder,
    register_model,
    register_model_architecture,
)
from omegaconf import II
from torch import Tensor

from ..checkpoints.compatibility import check_shapes
from ..checkpoints.loading import check_joined_dictionary, model_settings
from ..errors import InputError
from ..model.attention import MultiHeadAttention
from ..model.layers import BuildAttention
from ..model.transformer import Decoder, Encoder, build_embeddings
from ..paper import (
    ARCHITECTURES,
    POSITION_KINDS,
    TIED_EMBEDDINGS,
    ModelSettings,
    copy_field,
)
from ..search.kv_cache import DecoderCache
from . import option_names as names
from .hub import TranslationHub


@dataclass
class TransformerConfig(ModelSettings, FairseqDataclass):
    """The options of the model."""

    positions: ChoiceEnum(POSITION_KINDS) = copy_field(ModelSettings, "positions")  # type: ignore[valid-type]
    tie_embeddings: ChoiceEnum(TIED_EMBEDDINGS) = copy_field(  # type: ignore[valid-type]
        ModelSettings, "tie_embeddings"
    )
    # Without a help text, fairseq takes these from the task. They size learned positions.
    max_source_positions: int = II("task.max_source_positions")
    max_target_positions: int = II("task.max_target_positions")


class AiaynEncoder(Encoder, FairseqEncoder):
    """The encoder with fairseq's interface."""

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **unused) -> dict:
        """Map (batch, m) tokens to fairseq's encoder output, with the batch dimension first.

        "encoder_out": [(batch, m, d_model)]; "encoder_padding_mask": [(batch, m)], True at
        padding, or [] without padding.
        """
        x, padding = self.encode(src_tokens)
        return {"encoder_out": [x], "encoder_padding_mask": [] if padding is None else [padding]}

    def reorder_encoder_out(self, encoder_out: dict, new_order: Tensor) -> dict:
        """Select rows of an encoder output."""
        return {name: [x[new_order] for x in tensors] for name, tensors in encoder_out.items()}


class AiaynDecoder(Decoder, FairseqIncrementalDecoder):
    """The decoder with fairseq's interface."""

    #: Whether training needs the attention: for label_smoothed_cross_entropy_with_alignment.
    needs_alignments = False

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict,
        incremental_state: dict | None = None,
        features_only: bool = False,
        **unused,
    ) -> tuple[Tensor, dict]:
        """Map (batch, n) tokens, shifted right, to (batch, n, V) logits.

        With an incremental_state only the last position is computed, (batch, 1, V), from the
        cache of the earlier ones. features_only returns (batch, n, d_model) instead.
        "attn" in the dictionary is the last layer's encoder-decoder attention (batch, n, m),
        averaged over the heads. It is None with features_only, which validation uses, and in
        training without alignments.
        """
        memory = encoder_out["encoder_out"][0]
        masks = encoder_out["encoder_padding_mask"]
        padding = masks[0] if masks else None
        need_weights = self.needs_alignments or not (self.training or features_only)
        if incremental_state is None:
            x, weights = self.decode(prev_output_tokens, memory, padding, need_weights=need_weights)
        else:
            if "aiayn" not in incremental_state:
                incremental_state["aiayn"] = DecoderCache(self.layers, memory, padding)
            cache, last = incremental_state["aiayn"], prev_output_tokens[:, -1:]
            cache.advance(last)
            x, weights = self.decode(last, cache=cache, need_weights=need_weights)
        attn = None if weights is None else weights.mean(dim=1)
        return (x if features_only else self.project(x)), {"attn": [attn]}

    def reorder_incremental_state(self, incremental_state: dict, new_order: Tensor) -> None:
        """Select rows of every layer's keys and values."""
        if "aiayn" in incremental_state:
            incremental_state["aiayn"].select(new_order)


@register_model("aiayn_transformer", dataclass=TransformerConfig)
class AiaynTransformer(FairseqEncoderDecoderModel):
    """The Transformer of the paper, by default with one matrix for embeddings and projection.

    A subclass, registered under its own name, may replace `attention_class`, `choose_attention`
    and `architecture`.
    """

    #: The class of all attention sub-layers.
    attention_class: type[MultiHeadAttention] = MultiHeadAttention
    #: The entry of paper.ARCHITECTURES whose settings are the defaults of a subclass.
    architecture = "aiayn_base"
    #: The dtype of matrix multiplications, if not that of the weights: --bf16 in training.
    matmul_dtype: torch.dtype | None = None

    @classmethod
    def add_args(cls, parser) -> None:
        """Add the options of TransformerConfig, and fairseq's names for them."""
        super().add_args(parser)
        names.add_args(parser)

    @classmethod
    def from_pretrained(cls, *args, **kwargs):
        """Like fairseq's, with the paper's search and the data's raw text by default.

        kwargs are settings of fairseq-interactive and take precedence; the beam is an argument of
        translate().
        """
        hub = hub_utils.from_pretrained(*args, archive_map=cls.hub_models(), **kwargs)
        given = {**kwargs, **(kwargs.get("generation_args") or {})}
        return TranslationHub(hub["args"], hub["task"], hub["models"], given)

    @classmethod
    def choose_attention(cls, cfg: Any) -> BuildAttention:
        """Return a callable that builds an attention sub-layer; cfg: the options of the model."""
        return cls.attention_class

    @classmethod
    def build_model(cls, cfg: Any, task) -> "AiaynTransformer":
        """Return the model. Raises InputError for invalid settings or unsuitable dictionaries."""
        source, target = task.source_dictionary, task.target_dictionary
        settings = model_settings(cfg)
        check_joined_dictionary(settings, source, target)
        if getattr(task.cfg, "left_pad_target", False):
            raise InputError(
                "the plugin's models need targets padded on the right: omit --left-pad-target"
            )
        embeddings = build_embeddings(settings, len(source), len(target))
        limits = cfg.max_source_positions, cfg.max_target_positions
        attention = cls.choose_attention(cfg)
        model = cls(
            AiaynEncoder(settings, embeddings[0], limits[0], source, build_attention=attention),
            AiaynDecoder(settings, embeddings[1], limits[1], target, build_attention=attention),
        )
        model.decoder.needs_alignments = getattr(task.cfg, "load_alignments", False)
        return model

    @property
    def projection(self) -> Tensor:
        """The pre-softmax matrix (V, d_model)."""
        return self.decoder.projection

    def load_state_dict(self, state_dict, strict=True, model_cfg=None, args=None):
        """Like fairseq's. Raises InputError if names or shapes of the weights differ."""
        if strict:
            check_shapes(state_dict, self.state_dict(keep_vars=True))
        return super().load_state_dict(state_dict, strict, model_cfg, args)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None,
        prev_output_tokens: Tensor,
        features_only: bool = False,
        **unused,
    ) -> tuple[Tensor, dict]:
        """Like AiaynDecoder.forward, for a batch of source and shifted target tokens.

        With features_only, "projection" in the dictionary is the matrix from features to logits.
        It is an output because torch, on several GPUs with --find-unused-parameters, expects no
        gradient for a weight that no output depends on.
        """
        with self.autocast_matmuls():
            memory = self.encoder(src_tokens, src_lengths)
            out, extra = self.decoder(prev_output_tokens, memory, features_only=features_only)
        if features_only:
            extra["projection"] = self.projection.view_as(self.projection)
        return out, extra

    def train(self, mode: bool = True) -> "AiaynTransformer":
        """Like torch's, but return at once if the mode does not change.

        fairseq calls it twice per update, and torch would write to every module, which takes
        milliseconds.
        """
        changes = any(module.training != mode for module in self.modules())
        return super().train(mode) if changes else self

    def set_num_updates(self, num_updates: int) -> None:
        """Pass the number of updates to modules that use it, such as a user's own attention.

        fairseq would search for them on every update.
        """
        for module in self._scheduled_modules:
            module.set_num_updates(num_updates)

    @functools.cached_property
    def _scheduled_modules(self) -> list[Any]:
        ours = (self, self.encoder, self.decoder)
        return [m for m in self.modules() if m not in ours and hasattr(m, "set_num_updates")]

    def autocast_matmuls(self) -> AbstractContextManager:
        """Return the context for matrix multiplications: torch's autocast to matmul_dtype."""
        if self.matmul_dtype is None:
            return nullcontext()
        return torch.autocast(self.projection.device.type, self.matmul_dtype)


def paper_architecture(arch: str | None) -> str | None:
    """Return the entry of paper.ARCHITECTURES whose settings are the defaults of an --arch.

    It is the --arch itself, or the `architecture` of its class. None if the model is not the
    plugin's.
    """
    model = ARCH_MODEL_REGISTRY.get(arch)
    if model is None or not issubclass(model, AiaynTransformer):
        return None
    return arch if arch in ARCHITECTURES else model.architecture


for _arch in ARCHITECTURES:
    # The settings are defaults of the command line (defaults.py), so there is nothing to fill in.
    register_model_architecture("aiayn_transformer", _arch)(lambda args: None)
