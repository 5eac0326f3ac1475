"""Figures 3 to 5: the attention maps of each layer and head, for your own sentences."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from ..errors import InputError
from ..inference.translator import Translator
from ..model.attention_maps import compute_attention_weights
from ..text.dictionary import Vocabulary


class Side(NamedTuple):
    """One side of a sentence, with its end symbol."""

    tokens: Tensor  #: token IDs (n)
    subwords: list[str]  #: (n); unknown words of raw text are kept


class Sentence(NamedTuple):
    """A source, and its translation or reference."""

    source: Side
    target: Side


@dataclass(frozen=True)
class AttentionMaps:
    """The attention weights of a sentence, in float32 on the CPU.

    The source has m subwords, including its end symbol. The decoder has n positions: position i
    reads `decoder_input[i]` and predicts `target[i]`. The first one reads the end symbol, with
    which fairseq starts a target; the last one predicts it.
    """

    source: list[str]  #: (m)
    decoder_input: list[str]  #: (n)
    target: list[str]  #: (n)
    layers: list[int]  #: layer numbers of the maps, from 1
    encoder: Tensor  #: (layers, h, m, m), from each source position to the source
    decoder: Tensor  #: (layers, h, n, n), from each target position to the decoder's input
    encoder_decoder: Tensor  #: (layers, h, n, m), from each target position to the source
    unknown_source: list[bool]  #: (m): whether the model reads `<unk>` instead
    unknown_target: list[bool]  #: (n)

    def axes(self, kind: str) -> tuple[list[str], list[str]]:
        """Return the subwords of the rows and of the columns of a kind of attention."""
        return {
            "encoder": (self.source, self.source),
            "decoder": (self.decoder_input, self.decoder_input),
            "encoder_decoder": (self.target, self.source),
        }[kind]


def attention_maps(translator: Translator, lines: Sequence[str]) -> list[AttentionMaps]:
    """Return the attention maps of raw lines and their translations, in all layers.

    Raises InputError for an empty line or one that is too long for the model.

    >>> [maps] = attention_maps(translator, ["It is in this spirit ."])  # doctest: +SKIP
    >>> maps.source, maps.encoder.shape  # doctest: +SKIP
    (['It', 'is', 'in', 'this', 'spirit', '.', '</s>'], torch.Size([6, 8, 7, 7]))
    """
    sentences = translate(translator, encode_lines(translator, lines))
    return [compute_maps(translator, sentence) for sentence in sentences]


def encode_lines(translator: Translator, lines: Sequence[str]) -> list[Side]:
    """Return raw lines as sources.

    Raises InputError for an empty line or one that is too long for the model.
    """
    if isinstance(lines, str):
        raise TypeError("lines must be a list of lines, not one string")
    return [_encode(translator, line, number) for number, line in enumerate(lines, 1)]


def translate(translator: Translator, sources: Sequence[Side]) -> list[Sentence]:
    """Return sources with their translations."""
    results = translator.search([source.tokens for source in sources])
    targets = [_side(translator.target, hypotheses[0].tokens) for hypotheses in results]
    return [Sentence(*sides) for sides in zip(sources, targets, strict=True)]


def load_sentences(
    translator: Translator, split: str, numbers: Sequence[int], use_references: bool
) -> list[Sentence]:
    """Return sentences of a prepared split by number, from 0, as fairseq-generate numbers them.

    Each comes with its translation, or with its reference. Raises InputError for an unknown split
    or number.
    """
    from ..fairseq_plugin.user_models import load_task  # fairseq reads the prepared splits

    task = load_task(translator.directory)
    task.load_dataset(split)
    dataset = task.dataset(split)
    if unknown := [number for number in numbers if not 0 <= number < len(dataset)]:
        raise InputError(
            f"{split} has no sentence {unknown[0]}: its sentences are 0 to {len(dataset) - 1:,}"
        )
    pairs = [dataset[number] for number in numbers]
    for number, pair in zip(numbers, pairs, strict=True):
        _check_positions(translator.model.encoder, pair["source"], f"sentence {number} of {split}")
    sources = [_side(translator.source, pair["source"]) for pair in pairs]
    if not use_references:
        return translate(translator, sources)
    if dataset.tgt is None:
        raise InputError(f"{split} has no target side: omit --reference")
    targets = [_side(translator.target, pair["target"]) for pair in pairs]
    return [Sentence(*sides) for sides in zip(sources, targets, strict=True)]


def compute_maps(
    translator: Translator, sentence: Sentence, layers: Iterable[int] | None = None
) -> AttentionMaps:
    """Return the attention maps of a sentence. Raises InputError for an unknown layer."""
    encoder, decoder = translator.model.encoder, translator.model.decoder
    numbers = range(1, len(encoder.layers) + 1)
    selected = list(numbers) if layers is None else sorted(set(layers))
    if unknown := [number for number in selected if number not in numbers]:
        raise InputError(
            f"the model has no layer {unknown[0]}: its layers are 1 to {len(encoder.layers)}"
        )
    device = next(translator.model.parameters()).device
    source, target = sentence
    decoder_input = target.tokens.roll(1)  # shifted right, with the end symbol in front
    weights = compute_attention_weights(
        encoder, decoder, source.tokens.to(device), decoder_input.to(device), selected
    )
    return AttentionMaps(
        source.subwords,
        [target.subwords[-1], *target.subwords[:-1]],
        target.subwords,
        selected,
        **{kind: of_kind.float().cpu() for kind, of_kind in weights.items()},
        unknown_source=source.tokens.eq(translator.source.unk).tolist(),
        unknown_target=target.tokens.eq(translator.target.unk).tolist(),
    )


def _check_positions(stack: Any, tokens: Tensor, name: str) -> None:
    if len(tokens) > stack.max_positions():
        raise InputError(
            f"{name} has {len(tokens):,} subwords with its end symbol; the model has "
            f"{stack.max_positions():,} positions: shorten it"
        )


def _encode(translator: Translator, line: str, number: int) -> Side:
    subwords = translator.pipeline.encode(line).split()
    if not subwords:
        raise InputError(f"line {number} is empty: remove it")
    tokens = translator.token_ids(subwords)
    _check_positions(translator.model.encoder, tokens, f"line {number}")
    return Side(tokens, [*subwords, translator.source.symbols[translator.source.eos]])


def _side(vocabulary: Vocabulary, tokens: Tensor) -> Side:
    return Side(tokens, [vocabulary.symbols[token] for token in tokens.tolist()])
