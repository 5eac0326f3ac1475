"""§6.3 Sentences in, trees out, with the paper's search for trees."""

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..parsing.pipeline import ParsingPipeline, read_tree
from ..parsing.trees import Tree
from .predictor import Predictor

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Parse:
    """A tree of a sentence, its score, and the number of repairs that made it well-formed.

    The score is log P over the length penalty.
    """

    tree: Tree
    score: float
    repairs: int


class Parser(Predictor):
    """A model trained on trees, with the paper's search for them: beam 21 and α 0.3.

    >>> parser = Parser.load("runs/parsing_sample")  # doctest: +SKIP
    >>> parser.parse(["The dog sleeps ."])  # doctest: +SKIP
    [Tree('S', [Tree('NP', [Tree('DT', ['The']), …
    """

    pipeline_class = ParsingPipeline

    def parse(self, lines: Sequence[str], tokenised: bool = False) -> list[Tree | None]:
        """Return the best tree of each sentence; None for an empty line.

        tokenised: the lines hold words separated by spaces, split as in the Penn Treebank.
        """
        return [parses[0].tree if parses else None for parses in self.parse_nbest(lines, tokenised)]

    def parse_nbest(
        self,
        lines: Sequence[str],
        tokenised: bool = False,
        first: int = 1,
        progress: Callable[[int], object] = lambda sentences: None,
    ) -> list[list[Parse]]:
        """Return the trees of each sentence, best first; at most `nbest`, none for an empty line.

        A sentence that is too long for the model gets a tree without constituents; the warning
        numbers lines from `first`. progress is called after each batch with its number of
        sentences.
        """
        if isinstance(lines, str):
            raise TypeError("lines must be a list of lines, not one string")
        words = [self.pipeline.words(line, tokenised) for line in lines]
        subwords = list(map(self.pipeline.encode, words))
        parses: list[list[Parse]] = [[] for _ in lines]
        searched = []
        for index, line_subwords in enumerate(subwords):
            if len(line_subwords) > self.max_subwords:
                logger.warning(
                    "line %d has %d tokens, more than the limit of %d: its tree has no "
                    "constituents",
                    first + index,
                    len(line_subwords),
                    self.max_subwords,
                )
                tree, repairs = read_tree("", words[index])
                parses[index] = [Parse(tree, -math.inf, repairs)]
            elif line_subwords:
                searched.append(index)
        results = self.search([self.token_ids(subwords[index]) for index in searched], progress)
        for index, hypotheses in zip(searched, results, strict=True):
            for hypothesis in hypotheses:
                symbols = " ".join(self.target.decode(hypothesis.tokens.tolist()))
                tree, repairs = read_tree(symbols, words[index])
                # Several sequences may be repaired to the same tree: keep the best.
                if tree not in [parse.tree for parse in parses[index]]:
                    parses[index].append(Parse(tree, float(hypothesis.score), repairs))
        return parses
