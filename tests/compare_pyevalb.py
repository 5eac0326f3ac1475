"""Compare our scores of two files of trees with PYEVALB's, sentence by sentence:

python tests/compare_pyevalb.py GOLD SYSTEM

PYEVALB does not implement the conventions of COLLINS.prm, so they are applied to the trees first:
punctuation (by the gold tags) and the outer label are removed, and PRT becomes ADVP. PYEVALB counts
brackets with the same label and words once, so a repeated bracket gets a numbered label.
"""

import sys
from collections import Counter

from nltk import Tree

from aiayn_plugin.parsing.f1 import BracketCounts, compare_trees
from aiayn_plugin.parsing.trees import category, format_tree, is_preterminal, read_trees

#: Labels and tags that COLLINS.prm does not count.
NOT_COUNTED = ("TOP", "ROOT", "S1", "", "-NONE-", ",", ":", "``", "''", ".")


def apply_conventions(tree: Tree, is_counted: list[bool]) -> Tree | None:
    """Return a tree of the counted words and brackets; None if nothing is left."""
    words, seen, place = iter(is_counted), Counter(), 0

    def keep(part: Tree) -> list[Tree]:
        nonlocal place
        if is_preterminal(part):
            place += (counted := next(words))
            return [Tree(part.label(), [f"w{place}"])] if counted else []
        start = place
        children = [found for child in part for found in keep(child)]
        label = category(part.label())
        if not children or label in NOT_COUNTED:
            return children
        label = "ADVP" if label == "PRT" else label
        seen[label, start, place] += 1
        return [Tree(f"{label}{seen[label, start, place]}", children)]

    parts = keep(tree)
    return parts[0] if len(parts) == 1 else Tree("WHOLE", parts) if parts else None


def compare(gold: Tree, system: Tree) -> tuple[BracketCounts, str]:
    """Return our counts of a sentence, and how PYEVALB's differ ("" if they agree)."""
    from PYEVALB import parser, scorer

    ours = compare_trees(gold, system)
    is_counted = [tag not in NOT_COUNTED for _, tag in gold.pos()]
    trees = [apply_conventions(tree, is_counted) for tree in (gold, system)]
    if any(
        tree is None or is_preterminal(tree) for tree in trees
    ):  # PYEVALB divides by its brackets
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
    pairs = list(zip(read_trees(gold), read_trees(system), strict=True))
    total, differing = BracketCounts(), 0
    for number, pair in enumerate(pairs, start=1):
        ours, difference = compare(*pair)
        total += ours
        if difference:
            differing += 1
            print(f"sentence {number}: ours and PYEVALB's differ: {difference}")
    print(
        f"{len(pairs) - differing:,} of {len(pairs):,} sentences have the same scores; F1 of all: "
        f"{100 * total.f1:.2f}"
    )
    sys.exit(differing > 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
