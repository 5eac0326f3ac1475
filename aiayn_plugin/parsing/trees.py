"""§6.3 Reading and cleaning bracketed trees of the Penn Treebank."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..errors import InputError
from ..text.lines import clean_line, read_lines
from ..text.settings import MAX_TREE_DEPTH

try:
    from nltk import Tree
except ImportError:
    raise InputError("parsing needs nltk: pip install nltk") from None

#: Labels above a sentence in some treebanks; the Penn Treebank has an empty label there.
ROOTS = ("", "TOP", "ROOT", "S1")
#: The label above several constituents that make up a sentence.
TOP = "TOP"
#: The tag of traces, which stand for moved or omitted words.
TRACE = "-NONE-"
#: The Penn Treebank's labels and tags in its Wall Street Journal.
WSJ_LABELS = frozenset(
    "ADJP ADVP CONJP FRAG INTJ LST NAC NP NX PP PRN PRT QP RRC S SBAR SBARQ SINV SQ TOP UCP VP "
    "WHADJP WHADVP WHNP WHPP X".split()
)
WSJ_TAGS = frozenset(
    "# $ '' , -LRB- -RRB- . : CC CD DT EX FW IN JJ JJR JJS LS MD NN NNP NNPS NNS PDT POS PRP PRP$ "
    "RB RBR RBS RP SYM TO UH VB VBD VBG VBN VBP VBZ WDT WP WP$ WRB ``".split()
)
#: The Wall Street Journal's tags for words that later treebanks tag differently.
TAG_IN_WSJ = {"AFX": "JJ", "HYPH": ":", "NFP": ":", "-LSB-": "-LRB-", "-RSB-": "-RRB-"}
#: Limits a tree, which would otherwise extend to the end of the file if a bracket is missing.
MAX_CHARACTERS = 1_000_000
#: Escapes of the brackets that delimit constituents; trees may contain other brackets as they are.
ESCAPES = {"(": "-LRB-", ")": "-RRB-"}
#: Escaped words of the Penn Treebank and their plain spelling.
SPELLINGS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


def read_trees(path: str | Path) -> Iterator[Tree]:
    """Yield the trees of a file, unchanged; trees may span lines or share one.

    Raises InputError, with file and line, for anything that is not a tree.
    """
    return _parse_lines(enumerate(map(clean_line, read_lines(path)), start=1), path)


def read_sentences(path: str | Path) -> Iterator[Tree]:
    """Yield a tree for each sentence of a file, as EVALB reads it: one sentence per line.

    Several trees on a line are put under TOP, and a line without words gives an empty TOP. However,
    if any tree spans lines, as in the Penn Treebank, each tree is a sentence. Raises InputError as
    `read_trees` does.
    """
    lines = list(enumerate(map(clean_line, read_lines(path)), start=1))
    if any(line.count("(") != line.count(")") for _, line in lines):
        for tree in _parse_lines(lines, path):
            if tree.label() == "":  # EVALB counts an empty label; its files have TOP here
                tree.set_label(TOP)
            yield tree
        return
    for number, line in lines:
        has_words = re.search(r"[^\s()]", line)
        trees = list(_parse_lines([(number, line)], path)) if has_words else []
        yield trees[0] if len(trees) == 1 else Tree(TOP, trees)


def _parse_lines(lines: Iterable[tuple[int, str]], path: str | Path) -> Iterator[Tree]:
    """Yield the trees of numbered lines."""
    text: list[str] = []  # of the current tree
    depth = begins = length = 0
    for number, line in lines:
        for token in (match[0] for match in re.finditer(r"[()]|[^()]+", line)):
            if depth == 0 and token not in "()" and token.strip():
                raise InputError(f"{path}, line {number}: {token.strip()[:40]!r} has no brackets")
            if token == ")" and depth == 0:
                raise InputError(f"{path}, line {number}: unmatched closing bracket")
            if depth == 0:
                begins = number
            depth += {"(": 1, ")": -1}.get(token, 0)
            if depth > MAX_TREE_DEPTH:
                raise InputError(
                    f"{path}, line {number}: more than {MAX_TREE_DEPTH} open brackets; the tree "
                    f"begins on line {begins}"
                )
            text.append(token)
            length = length + len(token) if depth else 0
            if length > MAX_CHARACTERS:
                raise InputError(
                    f"{path}, line {begins}: the tree that begins here has more than "
                    f"{MAX_CHARACTERS:,} characters: is a bracket missing?"
                )
            if depth == 0 and token == ")":
                yield _parse_tree("".join(text), path, begins)
                text.clear()
        text.append("\n")
    if depth:
        raise InputError(f"{path}, line {begins}: the tree that begins here is not closed")


def _parse_tree(text: str, path: str | Path, line: int) -> Tree:
    """Parse the text of one tree. Raises InputError if it is malformed."""
    try:
        # A word may contain typographic spaces, such as thin ones, which do not end it.
        tree = tree_from_string(re.sub(r"[^\S \t\n]", "", text))
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path}, line {line}: not a tree: {reason[:120]}") from None
    for constituent in tree.subtrees():
        words = sum(isinstance(child, str) for child in constituent)
        where = f"{path}, line {line}: in the tree that begins here, ({constituent.label()} …)"
        if not len(constituent):
            raise InputError(f"{where} is empty")
        if words and len(constituent) > 1:
            raise InputError(
                f"{where} mixes a word with other children: each word needs its own brackets and "
                "tag"
            )
    return tree


def tree_from_string(text: str) -> Tree:
    """Parse the text of a tree; a backslash before a bracket belongs to the word.

    nltk 3.10 and later treat it as escaping the bracket.
    """
    return Tree.fromstring(re.sub(r"\\(?=[()])", r"\\ ", text))


def category(label: str) -> str:
    """Strip function tags and indices: NP for NP-SBJ-1 and NP=2. Keeps -LRB- and = unchanged."""
    return label if label[:1] in ("-", "=") else re.split("[-=]", label)[0]


def clean_tree(tree: Tree) -> Tree | None:
    """Return a tree without traces, emptied constituents, function tags, indices and outer label.

    Several constituents under the outer label, or a single word, are put under TOP. Returns None if
    nothing is left.
    """
    # A tag may have the name of a root.
    is_root = tree.label() in ROOTS and not (len(tree) and isinstance(tree[0], str))
    children = list(tree) if is_root else [tree]
    kept = [child for child in map(_without_traces, children) if child is not None]
    if not kept:
        return None
    if len(kept) > 1 or is_preterminal(kept[0]):
        return Tree(TOP, kept)
    return clean_tree(kept[0]) if kept[0].label() in ROOTS else kept[0]


def _without_traces(tree: Tree) -> Tree | None:
    if is_preterminal(tree):
        return None if tree.label() == TRACE else Tree(category(tree.label()), [tree[0]])
    kept = [child for child in map(_without_traces, tree) if child is not None]
    return Tree(category(tree.label()), kept) if kept else None


def map_to_wsj(tree: Tree, changes: Counter[str]) -> Tree | None:
    """Return a clean tree with labels and tags of the Wall Street Journal only; count the changes.

    A constituent whose label is not in WSJ_LABELS is replaced by its children, as is one whose only
    child has the same label. A word whose tag is not in WSJ_TAGS gets its tag from TAG_IN_WSJ, or
    is removed (transcription marks). Returns None if no word is left.
    """
    kept = _map_to_wsj(tree, changes)
    if len(kept) == 1 and not is_preterminal(kept[0]):
        return kept[0]
    return Tree(TOP, kept) if kept else None


def _map_to_wsj(tree: Tree, changes: Counter[str]) -> list[Tree]:
    label = tree.label()
    if is_preterminal(tree):
        tag = TAG_IN_WSJ.get(label, label)
        if tag not in WSJ_TAGS:
            changes[f"words tagged {label} removed"] += 1
            return []
        if tag != label:
            changes[f"tags {label} mapped to {tag}"] += 1
        return [Tree(tag, [tree[0]])]
    kept = [part for child in tree for part in _map_to_wsj(child, changes)]
    if label == TOP:
        return kept  # map_to_wsj puts several under TOP again
    if label not in WSJ_LABELS:
        changes[f"brackets {label} removed"] += 1
        return kept
    if len(kept) == 1 and kept[0].label() == label:
        changes["brackets removed around the same label"] += 1
        return kept
    return [Tree(label, kept)] if kept else []


def is_preterminal(tree: Tree) -> bool:
    """Return whether a tree is a tag with its word."""
    return len(tree) == 1 and isinstance(tree[0], str)


def tree_words(tree: Tree) -> list[str]:
    """Return the words of a tree in plain spelling, without traces."""
    return [unescape(word) for word, tag in tree.pos() if tag != TRACE]


def unescape(word: str) -> str:
    r"""Return the plain spelling of a word of the Penn Treebank: ( for -LRB-, 1/2 for 1\/2."""
    return re.sub("-[LR][RSC]B-", lambda m: SPELLINGS[m[0]], re.sub(r"\\([/*])", r"\1", word))


def escape(word: str) -> str:
    """Return a word as trees spell it: -LRB- and -RRB- for ( and )."""
    return re.sub("[()]", lambda bracket: ESCAPES[bracket[0]], word)


def format_tree(tree: Tree) -> str:
    """Return a tree on one line, in the usual bracketed format; an empty line for an empty tree."""
    if not len(tree):
        return ""
    if is_preterminal(tree):
        return f"({tree.label()} {escape(tree[0])})"
    return f"({tree.label()} {' '.join(map(format_tree, tree))})"
