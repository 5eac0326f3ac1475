"""§6.3 From raw sentences to Penn Treebank words and subwords, and from symbols to trees."""

import re
from collections.abc import Sequence
from pathlib import Path

from ..errors import InputError
from ..text.lines import clean_line
from ..text.pipeline import load_subwords
from ..text.settings import TextSettings
from ..text.subwords import Subwords
from .linearisation import build_tree
from .trees import Tree, escape, unescape

#: Characters absent from the treebank, and its equivalents.
TYPOGRAPHIC = str.maketrans(
    {"“": "``", "”": "''", "‘": "`", "’": "'", "—": "--", "–": "--", "…": "..."}
)


class ParsingPipeline:
    """Splits sentences into words and subwords with the settings of a directory of trees."""

    def __init__(self, settings: TextSettings, subwords: Subwords) -> None:
        from nltk.tokenize import NLTKWordTokenizer

        self.settings = settings
        self._subwords = subwords
        self._tokenize = NLTKWordTokenizer().tokenize

    @classmethod
    def load(cls, data_dir: str | Path) -> "ParsingPipeline":
        """Return the pipeline of a directory made by aiayn prepare-trees.

        Raises InputError and OSError as load_subwords does, and InputError for data without trees.
        """
        settings, subwords = load_subwords(data_dir)
        if not settings.holds_trees:
            raise InputError(f"{data_dir} is for translating, not parsing: use aiayn translate")
        return cls(settings, subwords)

    def words(self, line: str, tokenised: bool = False) -> list[str]:
        """Return the words of a raw sentence; with `tokenised`, of one already split at spaces.

        For example, `It isn't "new".` gives It, is, n't, ``, new, '' and the full stop. -LRB- and
        the like become brackets.
        """
        line = clean_line(line)
        if not tokenised:
            # A word may contain a character that is a space only to str.split and fairseq.
            line = " ".join(self._tokenize(line.translate(TYPOGRAPHIC)))
        return list(map(unescape, line.split()))

    def encode(self, words: Sequence[str]) -> list[str]:
        """Return the subwords of a sentence."""
        return self._subwords.encode(words).split()


def read_tree(symbols: str, words: Sequence[str]) -> tuple[Tree, int]:
    """Return the tree over the words that a model's symbols describe, and its number of repairs.

    Unknown symbols are ignored. The tree spells brackets in words as -LRB- and -RRB-.
    """
    known = [symbol for symbol in symbols.split() if not re.fullmatch("<+unk>+", symbol)]
    return build_tree(known, list(map(escape, words)))
