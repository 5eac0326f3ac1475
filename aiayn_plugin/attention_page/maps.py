"""Figures 3 to 5: what each head of each layer attends to, in sentences of one's own."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..inference.translator import Translator
from ..model.attention_maps import attention_weights
from ..text.dictionary import Vocabulary


@dataclass(frozen=True)
class Attention:
    """The attention weights of a sentence, in float32 on the CPU.

    The source has m pieces, its end symbol the last. The decoder has n positions: position i has
    read `read[i]`, and writes `written[i]`. The first one has read the end symbol, with which
    fairseq begins, and the last one writes it.
    """

    source: list[str]  #: (m)
    read: list[str]  #: (n)
    written: list[str]  #: (n)
    #: The numbers of the layers that the weights are of; the first layer is 1.
    layers: list[int]
    encoder: Tensor  #: (layers, h, m, m): each piece of the source over the source
    decoder: Tensor  #: (layers, h, n, n): each position over the pieces read, its own the last
    encoder_decoder: Tensor  #: (layers, h, n, m): each position over the source
    #: For each piece of `source` and of `written` whether the model knows it not: it has `<unk>`.
    unknown_source: list[bool] = field(default_factory=list)
    unknown_written: list[bool] = field(default_factory=list)

    def sides(self, kind: str) -> tuple[list[str], list[str]]:
        """Return what labels the rows and the columns of the weights of a kind."""
        return {
            "encoder": (self.source, self.source),
            "decoder": (self.read, self.read),
            "encoder_decoder": (self.written, self.source),
        }[kind]


@dataclass(frozen=True)
class Sentence:
    """A source and a target, both as tokens that end in the end symbol, and their pieces."""

    source: Tensor
    source_pieces: list[str]
    target: Tensor
    target_pieces: list[str]


def attention(
    translator: Translator,
    lines: Sequence[str],
    references: Sequence[str] | None = None,
    layers: Iterable[int] | None = None,
) -> list[Attention]:
    """Return the attention in raw lines and their translations, or the given references.

    layers: numbers from 1; default: all. Raises InputError for a line without a word, or one that
    is too long for the model, and for a layer that is none.

    >>> [found] = attention(translator, ["It is in this spirit ."])  # doctest: +SKIP
    >>> found.source, found.encoder.shape  # doctest: +SKIP
    (['It', 'is', 'in', 'this', 'spirit', '.', '</s>'], torch.Size([6, 8, 7, 7]))
    """
    return [
        attended(translator, sentence, layers)
        for sentence in sentences(translator, lines, references)
    ]


def sentences(
    translator: Translator,
    lines: Sequence[str],
    references: Sequence[str] | None = None,
    most: int | None = None,
) -> list[Sentence]:
    """Return raw lines as the model reads them, with their translations or these references.

    most: pieces that a source may have. Raises InputError for a line without a word, or one that is
    too long.
    """
    if isinstance(lines, str) or isinstance(references, str):
        raise TypeError("lines and references must be lists of lines, not one string")
    sources = [_encoded(translator, line, number, "source") for number, line in enumerate(lines, 1)]
    for number, (_, pieces) in enumerate(sources, 1):
        check_length(pieces, f"line {number}", most)
    if references is None:
        targets = _translations(translator, [tokens for tokens, _ in sources])
    elif len(references) != len(lines):
        raise InputError(f"{len(lines)} lines, but {len(references)} references")
    else:
        targets = [
            _encoded(translator, line, number, "target")
            for number, line in enumerate(references, 1)
        ]
    return [Sentence(*source, *target) for source, target in zip(sources, targets, strict=True)]


def prepared(
    translator: Translator, split: str, numbers: Sequence[int], reference: bool
) -> list[Sentence]:
    """Return sentences of a prepared split by number, from 0, as fairseq-generate counts them.

    Each has its translation, or with `reference` the target that the data holds. Raises InputError
    if the model's directory has no such split or no such sentence.
    """
    task = translator.task
    task.load_dataset(split)
    dataset = task.dataset(split)
    if wrong := [number for number in numbers if not 0 <= number < len(dataset)]:
        raise InputError(
            f"{split} has no sentence {wrong[0]}: its sentences are 0 to {len(dataset) - 1:,}"
        )
    pairs = [dataset[number] for number in numbers]
    for number, pair in zip(numbers, pairs, strict=True):
        _check_positions(translator.model.encoder, pair["source"], f"sentence {number} of {split}")
    sources = [(pair["source"], _symbols(translator.source, pair["source"])) for pair in pairs]
    if reference:
        targets = [(pair["target"], _symbols(translator.target, pair["target"])) for pair in pairs]
    else:
        targets = _translations(translator, [source for source, _ in sources])
    return [Sentence(*source, *target) for source, target in zip(sources, targets, strict=True)]


def attended(
    translator: Translator, sentence: Sentence, layers: Iterable[int] | None = None
) -> Attention:
    """Return the attention of a model that reads this source and writes this target.

    Raises InputError for a layer that is none.
    """
    encoder, decoder = translator.model.encoder, translator.model.decoder
    chosen = _layers(len(encoder.layers), layers)
    device = next(translator.model.parameters()).device
    read = sentence.target.roll(1)  # shifted right; the end symbol comes first
    weights = attention_weights(
        encoder, decoder, sentence.source.to(device), read.to(device), chosen
    )
    written = sentence.target_pieces
    return Attention(
        sentence.source_pieces,
        [written[-1], *written[:-1]],
        written,
        chosen,
        weights["encoder"].float().cpu(),
        weights["decoder"].float().cpu(),
        weights["encoder_decoder"].float().cpu(),
        unknown_source=_unknown(translator.source, sentence.source),
        unknown_written=_unknown(translator.target, sentence.target),
    )


def check_length(pieces: Sequence[str], name: str, most: int | None) -> None:
    """Raise InputError, which calls the sentence by `name`, if it has more than `most` pieces."""
    if most is not None and len(pieces) > most:
        raise InputError(
            f"{name} has {len(pieces):,} pieces with its end, and a page shows at "
            f"most {most}: shorten it"
        )


def _check_positions(stack: Any, tokens: Tensor, name: str) -> None:
    if len(tokens) > stack.longest:
        raise InputError(
            f"{name} has {len(tokens):,} pieces with its end, and the model has "
            f"{stack.longest:,} positions: shorten it"
        )


def _layers(count: int, wanted: Iterable[int] | None) -> list[int]:
    every = range(1, count + 1)
    chosen = list(every) if wanted is None else sorted(set(wanted))
    if wrong := [number for number in chosen if number not in every]:
        raise InputError(f"the model has no layer {wrong[0]}: its layers are 1 to {count}")
    return chosen


def _encoded(translator: Translator, line: str, number: int, side: str) -> tuple[Tensor, list[str]]:
    """Return the tokens and the pieces of a raw line, both with the end symbol."""
    settings, source = translator.pipeline.settings, side == "source"
    vocabulary = translator.source if source else translator.target
    lang = settings.source_lang if source else settings.target_lang
    pieces = translator.pipeline.encode(line, lang).split()
    stack = translator.model.encoder if source else translator.model.decoder
    if not pieces:
        raise InputError(f"line {number} has no word: take it out")
    tokens = torch.tensor(vocabulary.encode(pieces))
    _check_positions(stack, tokens, f"line {number}")
    return tokens, [*pieces, vocabulary.symbols[vocabulary.eos]]


def _translations(translator: Translator, sources: list[Tensor]) -> list[tuple[Tensor, list[str]]]:
    """Return the best translation of each source."""
    found: dict[int, Tensor] = {}
    for numbers, hypotheses in translator.search(sources):
        for number, of_sentence in zip(numbers, hypotheses, strict=True):
            found[number] = of_sentence[0]["tokens"].cpu()
    return [(found[i], _symbols(translator.target, found[i])) for i in range(len(sources))]


def _symbols(vocabulary: Vocabulary, tokens: Tensor) -> list[str]:
    return [vocabulary.symbols[token] for token in tokens.tolist()]


def _unknown(vocabulary: Vocabulary, tokens: Tensor) -> list[bool]:
    return tokens.eq(vocabulary.unk).tolist()
