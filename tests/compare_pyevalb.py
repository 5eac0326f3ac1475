"""Compare our scores of two files of trees with PYEVALB's, sentence by sentence:

python tests/compare_pyevalb.py GOLD SYSTEM

PYEVALB does not implement the conventions of COLLINS.prm, so they are applied to the trees first:
each tree loses punctuation by its own tags and TOP, and PRT becomes ADVP. PYEVALB counts brackets
with the same label and words once, so a repeated bracket gets a numbered label.
"""

import re
import sys
from collections import Counter

from nltk import Tree

from aiayn_plugin.errors import InputError
from aiayn_plugin.parsing.f1 import BracketCounts, compare_trees
from aiayn_plugin.parsing.trees import format_tree, is_preterminal, read_sentences

#: Labels and tags that COLLINS.prm does not count.
NOT_COUNTED = ("TOP", "-NONE-", ",", ":", "``", "''", ".")


def apply_conventions(tree: Tree) -> Tree:
    """Return a tree of the counted words and brackets, of which there is at least one."""
    seen, place = Counter(), 0

    def keep(part: Tree) -> list[Tree]:
        nonlocal place
        if is_preterminal(part):
            if part.label() in NOT_COUNTED:
                return []
            place += 1
            tag = "ADVP" if part.label() == "PRT" else part.label()
            return [Tree(tag, [f"w{place}"])]
        start = place
        children = [found for child in part for found in keep(child)]
        label = re.split("[-=]", part.label())[0]
        if not children or label in NOT_COUNTED:
            return children
        label = "ADVP" if label == "PRT" else label
        seen[label, start, place] += 1
        return [Tree(f"{label}{seen[label, start, place]}", children)]

    parts = keep(tree)
    return parts[0] if len(parts) == 1 else Tree("WHOLE", parts)


def compare(gold: Tree, system: Tree) -> tuple[BracketCounts, str]:
    """Return our counts of a sentence, and how PYEVALB's differ ("" if they agree)."""
    from PYEVALB import parser, scorer

    try:
        ours = compare_trees(gold, system)
    except InputError:  # EVALB skips the sentence
        return BracketCounts(sentences=1, skipped=1), ""
    trees = list(map(apply_conventions, (gold, system)))
    if any(map(is_preterminal, trees)):  # PYEVALB divides by its brackets
        return ours, "" if ours.matched == 0 else "we count brackets where there are none"
    theirs = scorer.Scorer().score_trees(
        *(parser.create_from_bracket_string(format_tree(tree)) for tree in trees)
    )
    # Several parts were put under a label WHOLE, which is not counted.
    added = [tree.label() == "WHOLE" for tree in trees]
    pairs = {
        "matched": (ours.matched, theirs.matched_brackets - all(added)),
        "gold": (ours.gold, theirs.gold_brackets - added[0]),
        "system": (ours.system, theirs.test_brackets - added[1]),
        "tags": (ours.tags, theirs.correct_tags),
        "words": (ours.words, theirs.words),
    }
    if not any(added):
        f1 = 2 * theirs.prec * theirs.recall / ((theirs.prec + theirs.recall) or 1)
        pairs["F1"] = (round(100 * ours.f1, 2), round(f1 if f1 > 1 else 100 * f1, 2))
    return ours, ", ".join(f"{name} {a} and {b}" for name, (a, b) in pairs.items() if a != b)


def main(gold: str, system: str) -> None:
    """Print how many sentences have the same scores, and the differences."""
    pairs = list(zip(read_sentences(gold), read_sentences(system), strict=True))
    total, differing = BracketCounts(), 0
    for number, pair in enumerate(pairs, start=1):
        ours, difference = compare(*pair)
        total += ours
        if difference:
            differing += 1
            print(f"sentence {number}: ours and PYEVALB's differ: {difference}")
    print(
        f"{len(pairs) - differing:,} of {len(pairs):,} sentences have the same scores "
        f"({total.skipped:,} are skipped); F1 of all: {100 * total.f1:.2f}"
    )
    sys.exit(differing > 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
