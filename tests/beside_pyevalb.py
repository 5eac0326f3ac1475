"""The scores of two files of trees beside PYEVALB's, sentence by sentence:

python tests/beside_pyevalb.py GOLD SYSTEM

PYEVALB has none of COLLINS.prm's conventions, so what they leave out is taken out of the trees
first: punctuation (by the gold tree's tags), the label above the whole, PRT for ADVP. It counts
brackets with the same label and words once, so the second one gets another label.
"""

import sys
from collections import Counter

from nltk import Tree

from aiayn_plugin.parsing.f1 import Count, count
from aiayn_plugin.parsing.trees import as_line, category, is_word, read_trees

#: As COLLINS.prm has them.
NOT_COUNTED = ("TOP", "ROOT", "S1", "", "-NONE-", ",", ":", "``", "''", ".")


def conventional(tree: Tree, counts: list[bool]) -> Tree | None:
    """Return a tree of what counts; None if nothing is left."""
    words, seen, place = iter(counts), Counter(), 0

    def rest(part: Tree) -> list[Tree]:
        nonlocal place
        if is_word(part):
            place += (does := next(words))
            return [Tree(part.label(), [f"w{place}"])] if does else []
        start = place
        children = [found for child in part for found in rest(child)]
        label = category(part.label())
        if not children or label in NOT_COUNTED:
            return children
        label = "ADVP" if label == "PRT" else label
        seen[label, start, place] += 1
        return [Tree(f"{label}{seen[label, start, place]}", children)]

    parts = rest(tree)
    return parts[0] if len(parts) == 1 else Tree("WHOLE", parts) if parts else None


def differing(gold: Tree, system: Tree) -> tuple[Count, str]:
    """Return our counts of a sentence, and what PYEVALB's have other ("" if nothing)."""
    from PYEVALB import parser, scorer

    ours = count(gold, system)
    counts = [tag not in NOT_COUNTED for _, tag in gold.pos()]
    trees = [conventional(tree, counts) for tree in (gold, system)]
    if any(tree is None or is_word(tree) for tree in trees):  # PYEVALB divides by its brackets
        return ours, "" if ours.matched == 0 else "there is no bracket, and we count some"
    theirs = scorer.Scorer().score_trees(
        *(parser.create_from_bracket_string(as_line(tree)) for tree in trees)
    )
    # A whole that several parts make up has got a label of its own, which counts for nothing.
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
    """Print how many sentences have the same scores, and what differs."""
    pairs = list(zip(read_trees(gold), read_trees(system), strict=True))
    total, others = Count(), 0
    for number, pair in enumerate(pairs, start=1):
        ours, other = differing(*pair)
        total += ours
        if other:
            others += 1
            print(f"sentence {number}: ours and PYEVALB's differ: {other}")
    print(
        f"{len(pairs) - others:,} of {len(pairs):,} sentences have the same scores; F1 of all: "
        f"{100 * total.f1:.2f}"
    )
    sys.exit(others > 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
