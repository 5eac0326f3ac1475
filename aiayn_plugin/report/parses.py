"""A run that was trained on trees (§6.3): its scores, and its row of Table 4."""

from collections.abc import Sequence
from typing import Any

from .document import Section, Table, Text
from .formatting import fixed, whole
from .paper_results import TABLE_4
from .run import Run

#: Sentences of section 23 of the Wall Street Journal.
SECTION_23 = 2_416
EXAMPLES = 4


def tests_section_23(run: Run) -> bool:
    """Whether the test set is the paper's, by its name in text.json and its length."""
    found = run.trees.get("test")
    return (
        run.text is not None
        and "test.wsj" in run.text.inputs
        and found is not None
        and found.all.sentences == SECTION_23
    )


def table_4(runs: Sequence[Run]) -> list[Table | Text]:
    """Return Table 4 as published, and a row for each run."""
    rows: list[list[Any]] = [
        [name, training, fixed(f1, 1), "published"] for name, training, f1 in TABLE_4
    ]
    others = []
    for run in runs:
        further = run.text is not None and any("extra" in name for name in run.text.inputs)
        training = "with further trees" if further else "gold trees only"
        comparable = tests_section_23(run)
        f1 = fixed(100 * run.trees["test"].all.f1) if comparable else None
        rows.append([run.name, training, f1, "this run"])
        others += [] if comparable else [run.name]
    note = (
        [
            Text(
                f"The test set of {', '.join(others)} is not known to be section 23 of the Wall "
                f"Street Journal ({SECTION_23:,} sentences): its F1 is among the scores, and "
                "cannot be compared with this column."
            )
        ]
        if others
        else []
    )
    head = ("parser", "training", "F1 on WSJ 23", "from")
    own = frozenset(range(len(TABLE_4), len(rows)))
    return [Table("Table 4: English constituency parsing, as published", head, rows, own), *note]


def scores(runs: Sequence[Run]) -> list[Table | Text]:
    """Return the scores of the trees of all sets; nothing if there are no trees."""
    rows: list[list[Any]] = []
    for run in runs:
        for split, found in run.trees.items():
            count, short = found.all, found.short
            numbers = (count.f1, count.precision, count.recall, short.f1)
            mended = sum(number > 0 for number in found.repairs)
            rows.append(
                [
                    f"{run.name}, {split}" if len(runs) > 1 else split,
                    *(fixed(100 * number) for number in numbers),
                    f"{count.exact / count.sentences:.1%}",
                    f"{count.tags / max(1, count.words):.1%}",
                    whole(mended) or "0",
                    whole(count.sentences),
                ]
            )
    head = (
        "set",
        "F1",
        "precision",
        "recall",
        "F1, up to 40 words",
        "exact matches",
        "right tags",
        "trees mended",
        "sentences",
    )
    note = (
        "Labelled brackets are counted as EVALB does with COLLINS.prm: neither the label above "
        "the whole nor punctuation counts, and ADVP is PRT."
    )
    return [Table("Scores of the trees", head, rows), Text(note)] if rows else []


def examples(run: Run) -> Section | None:
    """Return some trees, from all over the set."""
    from ..parsing.trees import format_tree, tree_words

    found = run.trees.get("test") or run.trees.get("valid")
    if found is None:
        return None
    step = max(1, len(found.system) // EXAMPLES)
    rows: list[list[Any]] = []
    for n in range(0, len(found.system), step)[:EXAMPLES]:
        gold, own = found.gold[n], found.system[n]
        rows.append(
            [
                f"{n + 1}",
                " ".join(tree_words(gold))[:500],
                format_tree(gold)[:1000],
                "the same" if own == gold else format_tree(own)[:1000],
            ]
        )
    head = ("sentence", "words", "gold tree", "tree")
    return Section("Trees", [Table("Some trees", head, rows)])
