"""Figures 3 to 5: the attention maps of each layer and head, for your own sentences."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ..errors import InputError
from ..inference.translator import Translator
from ..model.attention_maps import compute_attention_weights
from ..text.dictionary import Vocabulary

#: Token IDs and subwords, both with the end symbol.
EncodedSource = tuple[Tensor, list[str]]


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


@dataclass(frozen=True)
class Sentence:
    """A source and a target: token IDs and subwords, both with the end symbol."""

    source: Tensor
    source_subwords: list[str]
    target: Tensor
    target_subwords: list[str]


def attention_maps(translator: Translator, lines: Sequence[str]) -> list[AttentionMaps]:
    """Return the attention maps of raw lines and their translations, in all layers.

    Raises InputError for an empty line or one that is too long for the model.

    >>> [maps] = attention_maps(translator, ["It is in this spirit ."])  # doctest: +SKIP
    >>> maps.source, maps.encoder.shape  # doctest: +SKIP
    (['It', 'is', 'in', 'this', 'spirit', '.', '</s>'], torch.Size([6, 8, 7, 7]))
    """
    sentences = translate(translator, encode_lines(translator, lines))
    return [compute_maps(translator, sentence) for sentence in sentences]


def encode_lines(
    translator: Translator, lines: Sequence[str], max_subwords: int | None = None
) -> list[EncodedSource]:
    """Return the token IDs and the subwords of raw lines, both with the end symbol.

    Raises InputError for an empty line, or one above the model's limit or max_subwords.
    """
    if isinstance(lines, str):
        raise TypeError("lines must be a list of lines, not one string")
    sources = [_encode(translator, line, number) for number, line in enumerate(lines, 1)]
    for number, (_, subwords) in enumerate(sources, 1):
        check_length(subwords, f"line {number}", max_subwords)
    return sources


def translate(translator: Translator, sources: Sequence[EncodedSource]) -> list[Sentence]:
    """Return encoded sources with their translations."""
    best = translator.search([tokens for tokens, _ in sources])
    targets = [hypotheses[0].tokens for hypotheses in best]
    return [
        Sentence(*source, target, _subwords(translator.target, target))
        for source, target in zip(sources, targets, strict=True)
    ]


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
    sources = [(pair["source"], _subwords(translator.source, pair["source"])) for pair in pairs]
    if not use_references:
        return translate(translator, sources)
    if dataset.tgt is None:
        raise InputError(f"{split} has no target side: omit --reference")
    targets = [(pair["target"], _subwords(translator.target, pair["target"])) for pair in pairs]
    return [Sentence(*source, *target) for source, target in zip(sources, targets, strict=True)]


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
    decoder_input = sentence.target.roll(1)  # shifted right, with the end symbol in front
    weights = compute_attention_weights(
        encoder, decoder, sentence.source.to(device), decoder_input.to(device), selected
    )
    target = sentence.target_subwords
    return AttentionMaps(
        sentence.source_subwords,
        [target[-1], *target[:-1]],
        target,
        selected,
        **{kind: of_kind.float().cpu() for kind, of_kind in weights.items()},
        unknown_source=sentence.source.eq(translator.source.unk).tolist(),
        unknown_target=sentence.target.eq(translator.target.unk).tolist(),
    )


def check_length(subwords: Sequence[str], name: str, max_subwords: int | None) -> None:
    """Raise InputError if a sentence, `name` in the message, is too long to be shown."""
    if max_subwords is not None and len(subwords) > max_subwords:
        raise InputError(
            f"{name} has {len(subwords):,} subwords with its end symbol; a page or figure shows at "
            f"most {max_subwords}: shorten it"
        )


def _check_positions(stack: Any, tokens: Tensor, name: str) -> None:
    if len(tokens) > stack.max_positions():
        raise InputError(
            f"{name} has {len(tokens):,} subwords with its end symbol; the model has "
            f"{stack.max_positions():,} positions: shorten it"
        )


def _encode(translator: Translator, line: str, number: int) -> EncodedSource:
    subwords = translator.pipeline.encode(line).split()
    if not subwords:
        raise InputError(f"line {number} is empty: remove it")
    tokens = translator.token_ids(subwords)
    _check_positions(translator.model.encoder, tokens, f"line {number}")
    return tokens, [*subwords, translator.source.symbols[translator.source.eos]]


def _subwords(vocabulary: Vocabulary, tokens: Tensor) -> list[str]:
    return [vocabulary.symbols[token] for token in tokens.tolist()]
