"""§6.3: sentences in, trees out, with a model directory and the paper's search of trees."""

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nltk import Tree

from ..parsing.pipeline import ParsingPipeline, read_tree
from .run_directory import Searcher, load

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Parse:
    """One tree of a sentence, its score, and how many mends made it well-formed.

    The score is log P over the length penalty.
    """

    tree: Tree
    score: float
    mends: int


class Parser(Searcher):
    """A model that was trained on trees, and a search: beam 21, α 0.3, as in the paper.

    >>> parser = Parser.load("runs/parsing_sample")  # doctest: +SKIP
    >>> parser.parse(["The dog sleeps ."])  # doctest: +SKIP
    [Tree('S', [Tree('NP', [Tree('DT', ['The']), …
    """

    pipeline: ParsingPipeline

    @classmethod
    def load(
        cls,
        path: str | Path,
        device: str | None = None,
        precision: str = "float32",
        max_tokens: int = 2000,
        trees_only: bool = False,
        **search: Any,
    ) -> "Parser":
        """Return the parser of a model directory, from a recipe or from `aiayn bundle`.

        device: default: the first GPU, if there is one. max_tokens: source tokens of a batch, with
        padding. trees_only: let the search find nothing but trees over the words. Raises InputError
        or OSError for a directory that holds no such model.
        """
        found = load(path, ParsingPipeline.load, device, precision)
        return cls(found, max_tokens, search, trees_only)

    def parse(self, lines: Sequence[str], tokenised: bool = False) -> list[Tree | None]:
        """Return the best tree of each sentence, in their order; None for a line without a word.

        tokenised: the words have spaces between them already, as the Penn Treebank splits them.
        """
        return [parses[0].tree if parses else None for parses in self.parse_nbest(lines, tokenised)]

    def parse_nbest(
        self,
        lines: Sequence[str],
        tokenised: bool = False,
        first: int = 1,
        progress: Callable[[int], object] = lambda sentences: None,
    ) -> list[list[Parse]]:
        """Return the trees of each sentence, best first; at most as many as the search keeps.

        A line without a word has none. A sentence that is too long for the model gets a tree
        without constituents, and a warning says so; `first` is the number of the first line in it.
        progress is called after each batch with its number of sentences.
        """
        if isinstance(lines, str):
            raise TypeError("lines must be a list of lines, not one string")
        words = [self.pipeline.words(line, tokenised) for line in lines]
        pieces = list(map(self.pipeline.encode, words))
        found: list[list[Parse]] = [[] for _ in words]
        short = []
        for number, of_line in enumerate(pieces):
            if len(of_line) > self.longest:
                logger.warning(
                    "line %d has %d tokens, more than %d: its tree has no constituents",
                    first + number,
                    len(of_line),
                    self.longest,
                )
                found[number] = [_flat(words[number])]
            elif of_line:
                short.append(number)
        for numbers, hypotheses in self.search([self.numbers(pieces[n]) for n in short]):
            for place, of_line in zip(numbers, hypotheses, strict=True):
                number = short[place]
                parses = [self._read(hypothesis, words[number]) for hypothesis in of_line]
                # Several sequences may be mended to one tree: the best of them counts.
                found[number] = [
                    parse
                    for i, parse in enumerate(parses)
                    if parse.tree not in [better.tree for better in parses[:i]]
                ]
            progress(len(numbers))
        return found

    def _read(self, hypothesis: dict, words: list[str]) -> Parse:
        symbols = self.target.decode(hypothesis["tokens"].tolist())
        tree, mends = read_tree(" ".join(symbols), words)
        return Parse(tree, float(hypothesis["score"]), mends)


def _flat(words: list[str]) -> Parse:
    tree, mends = read_tree("", words)
    return Parse(tree, -math.inf, mends)
