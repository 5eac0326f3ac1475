"""Runs in the layout of the paper's Tables 2, 3 and 4, beside the published results."""

from collections.abc import Sequence
from typing import Any

from ..paper import Settings, get_settings
from .cost import Cost
from .document import Block, Table
from .formatting import fixed, power, signed, whole
from .paper_results import COLUMNS, TABLE_2, TABLE_3, TABLE_4, columns, row_named, row_with
from .run import Run

#: Headings of Table 3's columns.
HEADINGS = {"dropout": "P_drop", "label_smoothing": "ε_ls", "max_update": "steps"}
#: The number of sentences of the paper's sets, by their names in a run's data.
PAPER_SETS = {"valid.newstest2013": 3_000, "test.newstest2014": 3_003, "test.wsj": 2_416}
#: Settings that are not listed as differences between runs.
IGNORED = ("save_interval_updates", "keep_interval_updates", "peak_learning_rate")
#: The settings of the data that determine its subwords.
SUBWORDS = ("tokenizer", "normalize_punctuation", "subword", "merges", "vocabulary", "codes_sha256")


def uses_paper_set(run: Run, name: str, sentences: int | None, *targets: str) -> bool:
    """Return whether a run has one of PAPER_SETS, in English to one of the target languages.

    sentences: the number of those that were scored, None if none was.
    """
    text = run.facts["text"]
    languages = text["source_lang"] == "en" and text["target_lang"] in targets
    return languages and name in run.inputs and sentences in (None, PAPER_SETS[name])


def table_2(run: Run, cost: Cost) -> list[Block]:
    """Return Table 2 as published, with a row for the run."""
    rows: list[list[Any]] = []
    for s in TABLE_2:
        flops = [None if f is None else power(f) for f in (s.flops_de, s.flops_fr)]
        rows.append([s.name, s.bleu_de, s.bleu_fr, *flops, "paper"])
    own: list[Any] = [run.name, None, None, None, None, "this run, paper BLEU"]
    scores = run.translations.get("test")
    if scores and uses_paper_set(run, "test.newstest2014", scores["sentences"], "de", "fr"):
        column = {"de": 1, "fr": 2}[run.facts["text"]["target_lang"]]
        own[column] = fixed(scores["paper_bleu"])
        if not isinstance(cost.estimated, str):  # the counted operations are another quantity
            own[column + 2] = power(cost.estimated)
        note = (
            f"sacreBLEU of the same translations: {scores['bleu']:.2f} ({scores['signature']}). "
            "It is not comparable with this column."
        )
    else:
        note = (
            "The run has no result here: its test set is not known to be the whole newstest2014, "
            "English to German or French."
        )
    head = ("system", "BLEU EN-DE", "BLEU EN-FR", "FLOPs EN-DE", "FLOPs EN-FR", "source")
    return [Table("Table 2: newstest2014", head, [*rows, own], frozenset({len(rows)})), note]


def table_3(runs: Sequence[Run], costs: Sequence[Cost]) -> list[Block]:
    """Return the runs in the layout of Table 3, and the published rows that belong to them."""
    rows: list[tuple] = []
    published = {"aiayn_base": ""}
    foreign = []
    for run, cost in zip(runs, costs, strict=True):
        millions = None if cost.parameters is None else f"{cost.parameters / 1e6:.2f}"
        last = _other_differences(run, runs[0])
        rows.append((run.name, run.settings, perplexity_and_bleu(run), millions, last))
        if arch := paper_row(run):
            names = published.get(arch)
            published[arch] = f"{names}, {run.name}" if names else run.name
        scores = run.translations.get("valid", {}).get("sentences")
        if not uses_paper_set(run, "valid.newstest2013", scores, "de"):
            foreign.append(run.name)
    if len(runs) == 1:
        table = _layout("This run, as in Table 3", rows, 2, "")
        blocks: list[Block] = [Table(table.caption, table.head[:-3], [table.rows[0][:-3]])]
    else:
        caption = "The runs, in the layout of Table 3"
        note = (
            "PPL is per subword, of the last validation. BLEU is the paper BLEU of the validation "
            f"set. Δ is the difference from the first row, {runs[0].name}; an empty cell has that "
            "row's value, and ? is unknown. Runs on different text or subwords are not comparable."
        )
        ranges = seed_ranges(runs)
        blocks = [
            _layout(caption, rows, 2, "other differences"),
            note,
            *([ranges] if ranges else []),
        ]
    if not any(published.values()):
        return [*blocks, "Table 3 has no row with these settings."]
    caption = (
        "Table 3 as published (newstest2013, English to German): base, and the rows that the runs "
        "have the columns of or are named after; an empty cell has base's value"
    )
    rows = [
        (arch, get_settings(arch), TABLE_3[arch], get_settings(arch).paper_millions, names)
        for arch, names in published.items()
    ]
    blocks.append(_layout(caption, rows, 1, "run"))
    if foreign:
        blocks.append(
            f"The validation set of {', '.join(foreign)} is not known to be newstest2013, English "
            "to German: perplexity and BLEU are not comparable with Table 3."
        )
    return blocks


def paper_row(run: Run) -> str | None:
    """Return the row of Table 3 that has a run's columns, or that the run is named after."""
    return (row_with(run.settings) if run.settings else None) or row_named(run.path.resolve().name)


def perplexity_and_bleu(run: Run) -> tuple[float | None, float | None]:
    """Return perplexity and paper BLEU on the validation set, None where unknown."""
    scores = run.translations.get("valid", {})
    last = run.record.valid[-1].values if run.record.valid else {}
    return last.get("ppl"), scores.get("paper_bleu")


def _layout(caption: str, rows: Sequence[tuple], bleu_places: int, last_heading: str) -> Table:
    """Return rows in the layout of Table 3, each compared with the first one.

    rows: name, settings, (perplexity, BLEU), parameters in millions, and the last cell.
    """
    first, first_results = rows[0][1:3]
    cells = []
    for number, (name, own, results, millions, last) in enumerate(rows):
        known, hidden = _columns(own), _columns(first) if number and first else {}
        shown = [None if hidden.get(c) == value else value for c, value in known.items()]
        pairs = list(zip(results, first_results, (2, bleu_places), strict=True))
        values = [fixed(value, places) for value, _, places in pairs]
        differences = [
            None if not number or None in (value, base) else signed(value - base, places)
            for value, base, places in pairs
        ]
        cells.append([name, *shown, *values, millions, *differences, last])
    headings = [HEADINGS.get(name, name) for name in COLUMNS]
    head = ("", *headings, "PPL", "BLEU", "params ×10⁶", "Δ PPL", "Δ BLEU", last_heading)
    return Table(caption, head, cells, frozenset({0}))


def _columns(s: Settings | None) -> dict[str, Any]:
    return {**columns(s), "max_update": f"{s.max_update:,}"} if s else dict.fromkeys(COLUMNS, "?")


def _other_differences(run: Run, first: Run) -> str:
    """Return the differences from the first run outside Table 3's columns."""
    theirs = {row["name"]: row["run"] for row in first.facts["settings"]}
    rows = [(row["name"], row["run"]) for row in run.facts["settings"]]
    found = [
        f"{name} {value}"
        for name, value in rows
        if name not in (*COLUMNS, *IGNORED) and theirs.get(name, value) != value
    ]
    if run.facts["seed"] != first.facts["seed"]:
        found.append(f"seed {run.facts['seed']}")
    if not (run.inputs and first.inputs):
        found.append("text unknown")
    elif run.inputs != first.inputs:
        found.append("DIFFERENT TEXT: not comparable")
    elif _subwords(run) != _subwords(first):
        found.append("DIFFERENT SUBWORDS: perplexity not comparable")
    if run.record.update != first.record.update:
        found.append(f"{whole(run.record.update)} updates so far")
    return ", ".join(found)


def _subwords(run: Run) -> list[Any]:
    return [run.facts["text"][name] for name in SUBWORDS]


def seed_ranges(runs: Sequence[Run]) -> list[str]:
    """Return the ranges of perplexity and BLEU over runs that differ only in the seed."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        if run.facts["settings"] and run.inputs:
            same = (run.facts["settings"], run.record.update, run.inputs, _subwords(run))
            groups.setdefault(repr(same), []).append(run)
    found = []
    for group in groups.values():
        if len({run.facts["seed"] for run in group}) == len(group) > 1:
            results = zip(*map(perplexity_and_bleu, group), strict=True)
            ranges = [
                f"{name} {min(values):.2f} to {max(values):.2f}"
                for name, values in zip(("PPL", "BLEU"), results, strict=True)
                if None not in values
            ]
            names = ", ".join(run.name for run in group)
            found.append(f"{names} differ only in the seed: {', '.join(ranges) or 'no results'}")
    return found


def table_4(runs: Sequence[Run]) -> list[Block]:
    """Return Table 4 as published, with a row for each run."""
    rows: list[list[Any]] = [[name, data, fixed(f1, 1), "paper"] for name, data, f1 in TABLE_4]
    foreign = []
    for run in runs:
        extra = any("extra" in name for name in run.inputs)
        row = [run.name, "gold and other trees" if extra else "gold trees only", None, "this run"]
        counts = run.trees.get("test", {}).get("all")
        if counts and "test.wsj" in run.inputs and counts["sentences"] == PAPER_SETS["test.wsj"]:
            row[2] = fixed(100 * counts["f1"])
        else:
            foreign.append(run.name)
        rows.append(row)
    head = ("parser", "training", "F1 on WSJ 23", "source")
    own = frozenset(range(len(TABLE_4), len(rows)))
    blocks: list[Block] = [Table("Table 4: English constituency parsing", head, rows, own)]
    if foreign:
        blocks.append(
            f"The test set of {', '.join(foreign)} is not known to be the whole section 23 of the "
            "Wall Street Journal: its F1 is among the scores, and is not comparable here."
        )
    return blocks
