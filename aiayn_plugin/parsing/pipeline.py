"""§6.3 Raw sentences to the words of the Penn Treebank, to subwords, and symbols to trees."""

import re
from collections.abc import Sequence
from pathlib import Path

from nltk import Tree
from nltk.tokenize import NLTKWordTokenizer

from ..errors import InputError
from ..text.lines import clean_line
from ..text.pipeline import load_subwords
from ..text.settings import TextSettings
from ..text.subwords import Subwords
from .linearisation import tree_of
from .trees import escaped, plain

#: Characters that the treebank does not have, and its own for them.
TYPOGRAPHIC = str.maketrans(
    {"“": "``", "”": "''", "‘": "`", "’": "'", "—": "--", "–": "--", "…": "..."}
)


class ParsingPipeline:
    """Words and subwords with the settings of one directory of trees."""

    def __init__(self, settings: TextSettings, subwords: Subwords) -> None:
        self.settings = settings
        self._subwords = subwords
        self._tokenize = NLTKWordTokenizer().tokenize

    @classmethod
    def load(cls, data_dir: str | Path) -> "ParsingPipeline":
        """Return the pipeline of a directory that preprocess/trees.py made.

        Raises InputError and OSError as load_subwords does, and InputError for other data.
        """
        settings, subwords = load_subwords(data_dir)
        if not settings.holds_trees:
            raise InputError(f"{data_dir} holds no trees, but translations: aiayn translate")
        return cls(settings, subwords)

    def words(self, line: str, tokenised: bool = False) -> list[str]:
        """Return the words of a raw sentence, or of one whose words have spaces between them.

        For example, `It isn't "new".` is It, is, n't, ``, new, '', and the full stop. -LRB- and the
        like become brackets.
        """
        line = clean_line(line)
        if not tokenised:
            # What the tokeniser calls a word may hold a space that is none to it, but to fairseq.
            line = " ".join(self._tokenize(line.translate(TYPOGRAPHIC)))
        return list(map(plain, line.split()))

    def encode(self, words: Sequence[str]) -> list[str]:
        """Return the subwords of a sentence."""
        return self._subwords.encode(words).split()


def read_tree(symbols: str, words: Sequence[str]) -> tuple[Tree, int]:
    """Return the tree that a model's symbols make over the words, and how many mends it took.

    An unknown symbol is none of a tree. In the tree the words have no brackets: -LRB- for (.
    """
    known = [symbol for symbol in symbols.split() if not re.fullmatch("<+unk>+", symbol)]
    return tree_of(known, list(map(escaped, words)))
