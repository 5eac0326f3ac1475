"""§6.3 Bracketed trees as the Penn Treebank writes them, read and cleaned."""

import re
from collections.abc import Iterator
from pathlib import Path

from nltk import Tree

from ..errors import InputError
from ..text.lines import clean_line, read_lines
from ..text.settings import MAX_TREE_DEPTH

#: Labels that some treebanks put above a sentence; the Penn Treebank has an empty one there.
ROOTS = ("", "TOP", "ROOT", "S1")
#: The label above several constituents that make up one sentence.
TOP = "TOP"
#: The tag of what was moved or left out (traces), which no one says.
TRACE = "-NONE-"
#: Characters of the longest tree. A bracket that is not closed would take all of a file.
LONGEST = 1_000_000
#: How words with brackets are written in a tree. The other brackets may stand there as they are.
ESCAPES = {"(": "-LRB-", ")": "-RRB-"}
#: Words of the Penn Treebank, and the same outside of trees.
SPELLINGS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


def read_trees(path: str | Path) -> Iterator[Tree]:
    """Yield the trees of a file, as they stand there, one or many, over any number of lines.

    Raises InputError, with file and line, for anything that is no tree.
    """
    text: list[str] = []  # of the tree that is being read
    depth = begins = length = 0
    for number, line in enumerate(map(clean_line, read_lines(path)), start=1):
        for part in re.findall(r"[()]|[^()]+", line):
            if depth == 0 and part not in "()" and part.strip():
                raise InputError(f"{path}, line {number}: {part.strip()[:40]!r} is in no brackets")
            if part == ")" and depth == 0:
                raise InputError(f"{path}, line {number}: a bracket is closed that none opened")
            if depth == 0:
                begins = number
            depth += {"(": 1, ")": -1}.get(part, 0)
            if depth > MAX_TREE_DEPTH:
                raise InputError(
                    f"{path}, line {number}: more than {MAX_TREE_DEPTH} brackets are open; "
                    f"the tree begins in line {begins}"
                )
            text.append(part)
            length = length + len(part) if depth else 0
            if length > LONGEST:
                raise InputError(
                    f"{path}, line {begins}: the tree that begins here has more than "
                    f"{LONGEST:,} characters: is a bracket missing?"
                )
            if depth == 0 and part == ")":
                yield _tree("".join(text), path, begins)
                text.clear()
        text.append("\n")
    if depth:
        raise InputError(f"{path}, line {begins}: the tree that begins here is not closed")


def _tree(text: str, path: str | Path, line: int) -> Tree:
    """Return a tree that is well-formed all the way down."""
    try:
        tree = Tree.fromstring(text)
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path}, line {line}: no tree begins here: {reason[:120]}") from None
    for part in tree.subtrees():
        words = sum(isinstance(child, str) for child in part)
        name = f"{path}, line {line}: in the tree that begins here, ({part.label()} …)"
        if not len(part):
            raise InputError(f"{name} is empty")
        if words and len(part) > 1:
            raise InputError(
                f"{name} has a word beside others: each word has brackets of its own, with its tag"
            )
    return tree


def category(label: str) -> str:
    """Return a label without functions and indices: NP of NP-SBJ-1 and NP=2; -LRB-, = stay."""
    return label if label[:1] in ("-", "=") else re.split("[-=]", label)[0]


def cleaned(tree: Tree) -> Tree | None:
    """Return a tree without traces, what they leave empty, functions, indices and its outer label.

    Several constituents under the outer label stay together under TOP, and so does a single word.
    Returns None if nothing is left.
    """
    parts = [tree] if tree.label() not in ROOTS else list(tree)
    if tree.label() in ROOTS and parts and isinstance(parts[0], str):
        parts = [tree]  # a tag may have the name of a root
    kept = [part for part in map(_without_traces, parts) if part is not None]
    if not kept:
        return None
    if len(kept) > 1 or is_word(kept[0]):
        return Tree(TOP, kept)
    return cleaned(kept[0]) if kept[0].label() in ROOTS and len(kept[0]) == 1 else kept[0]


def _without_traces(tree: Tree) -> Tree | None:
    if is_word(tree):
        return None if tree.label() == TRACE else Tree(category(tree.label()), [tree[0]])
    kept = [part for part in map(_without_traces, tree) if part is not None]
    return Tree(category(tree.label()), kept) if kept else None


def is_word(tree: Tree) -> bool:
    """Whether a tree is a tag and its word."""
    return len(tree) == 1 and isinstance(tree[0], str)


def words(tree: Tree) -> list[str]:
    """Return the words of a tree as they are outside of trees."""
    return list(map(plain, tree.leaves()))


def plain(word: str) -> str:
    r"""Return a word of the Penn Treebank as others write it: ( for -LRB-, 1/2 for 1\/2."""
    return SPELLINGS.get(word, re.sub(r"\\([/*])", r"\1", word))


def escaped(word: str) -> str:
    """Return a word as it is written in a tree, without brackets: -LRB- and -RRB- for ( and )."""
    return re.sub("[()]", lambda bracket: ESCAPES[bracket[0]], word)


def as_line(tree: Tree) -> str:
    """Return a tree in one line, as other programs read it."""
    if is_word(tree):
        return f"({tree.label()} {escaped(tree[0])})"
    return f"({tree.label()} {' '.join(map(as_line, tree))})"
