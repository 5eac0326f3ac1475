"""A run in the layout of the paper's Table 2 and Table 3, beside the published figures."""

from collections.abc import Sequence
from typing import Any

from ..paper import Settings, get_settings
from .cost import Cost
from .document import Table, Text
from .formatting import fixed, power, signed, whole
from .paper_results import COLUMNS, TABLE_2, TABLE_3, columns, row_named, row_of
from .run import Run

#: The heads of Table 3's columns.
NAMES = {"dropout": "P_drop", "label_smoothing": "ε_ls", "max_update": "steps"}
#: Names and sentences of the paper's sets, and the targets of its English sources.
NEWSTEST = {
    "valid": ("newstest2013", 3_000, ("de",)),
    "test": ("newstest2014", 3_003, ("de", "fr")),
}
#: Settings in which runs may differ without a word.
QUIET = {"save_interval_updates", "keep_interval_updates", "peak_learning_rate"}
#: What makes the pieces of a text.
PIECES = ("tokenizer", "normalize_punctuation", "subword", "merges", "vocabulary", "codes_sha256")


def is_newstest(run: Run, split: str) -> bool:
    """Return whether a split is the paper's, by its name in text.json, languages and length."""
    name, sentences, targets = NEWSTEST[split]
    found, text = run.evaluations.get(split), run.text
    return (
        text is not None
        and f"{split}.{name}" in text.inputs
        and text.source_lang == "en"
        and text.target_lang in targets
        and (found is None or found.scores.sentences == sentences)
    )


def not_newstest(runs: Sequence[Run]) -> list[Text]:
    """Return what to know of the runs whose validation set is not the one of Table 3."""
    others = ", ".join(run.name for run in runs if not is_newstest(run, "valid"))
    return (
        [
            Text(
                "Table 3 is of newstest2013, English to German. The validation set of "
                f"{others} is not known to be that one: do not compare perplexity and BLEU with "
                "the paper's."
            )
        ]
        if others
        else []
    )


def table_2(run: Run, cost: Cost) -> list[Text | Table]:
    """Return Table 2 as published, and a row for the run."""
    found = run.evaluations.get("test")
    rows: list[list[Any]] = [
        [s.name, s.bleu_de, s.bleu_fr, *(f and power(f) for f in s[3:]), "published"]
        for s in TABLE_2
    ]
    own: list[Any] = [run.name, None, None, None, None, "this run, paper BLEU"]
    if run.text is not None and found is not None and is_newstest(run, "test"):
        place = NEWSTEST["test"][2].index(run.text.target_lang)
        own[1 + place] = fixed(found.scores.paper_bleu)
        if not isinstance(cost.papers_way, str):  # counted ones are another quantity
            own[3 + place] = power(cost.papers_way)
        note = (
            f"sacreBLEU of the same translations: {found.scores.bleu:.2f} "
            f"({found.scores.signature}). It cannot be compared with the column."
        )
    else:
        note = (
            "This run is not known to be tested on the whole newstest2014, English to German "
            "or French: nothing of it can stand in this table."
        )
    head = ("system", "BLEU EN-DE", "BLEU EN-FR", "FLOPs EN-DE", "FLOPs EN-FR", "from")
    caption = "Table 2: newstest2014, as published"
    return [Table(caption, head, [*rows, own], frozenset({len(rows)})), Text(note)]


def table_3(runs: Sequence[Run], costs: Sequence[Cost]) -> Table:
    """Return the runs in the layout of Table 3; an empty cell is the first run's."""
    head = [
        "",
        *(NAMES.get(name, name) for name in COLUMNS),
        "PPL (valid)",
        "BLEU (valid)",
        "params ×10⁶",
    ]
    several = len(runs) > 1
    rows = []
    for number, (run, cost) in enumerate(zip(runs, costs, strict=True)):
        first = runs[0].settings if number else None
        perplexity, bleu = result(run)
        row = [
            run.name,
            *_cells(run.settings, first),
            fixed(perplexity),
            fixed(bleu),
            _millions(cost),
        ]
        if several:
            row += [
                *_differences(result(runs[0]), (perplexity, bleu), number),
                _others(run, runs[0]),
            ]
        rows.append(row)
    if several:
        head += ["Δ PPL", "Δ BLEU", "also differs"]
    caption = "The runs, in the layout of Table 3" if several else "This run, as in Table 3"
    return Table(caption, head, rows, frozenset({0} if several else ()))


def published(runs: Sequence[Run]) -> Table | None:
    """Return base and the rows of Table 3 that belong to the runs; None if none does."""
    found: dict[str, list[str]] = {"aiayn_base": []}
    for run in runs:
        if arch := papers_row(run):
            found.setdefault(arch, []).append(run.name)
    if not any(found.values()):
        return None
    base_ppl, base_bleu = TABLE_3["aiayn_base"]
    head = [
        "row",
        "run",
        *(NAMES.get(name, name) for name in COLUMNS),
        "PPL",
        "BLEU",
        "params ×10⁶",
        "Δ PPL to base",
        "Δ BLEU to base",
    ]
    rows = []
    for arch, names in found.items():
        perplexity, bleu = TABLE_3[arch]
        millions = get_settings(arch).paper_millions
        first = None if arch == "aiayn_base" else get_settings("aiayn_base")
        rows.append(
            [
                arch,
                ", ".join(names),
                *_cells(get_settings(arch), first),
                fixed(perplexity),
                fixed(bleu, 1),
                None if millions is None else str(millions),
                *_differences((base_ppl, base_bleu), (perplexity, bleu), arch != "aiayn_base", 1),
            ]
        )
    caption = (
        "Table 3 as published (newstest2013, English to German): the rows that the runs "
        "have the columns of, or are named after; an empty cell is base's"
    )
    return Table(caption, head, rows)


def papers_row(run: Run) -> str | None:
    """Return the row of Table 3 that has a run's columns, or that the run is named after."""
    return (row_of(run.settings) if run.settings else None) or row_named(run.path.resolve().name)


def result(run: Run) -> tuple[float | None, float | None]:
    """Return perplexity and paper BLEU on the validation set, None if they are not known."""
    found = run.evaluations.get("valid")
    last = run.log.valid[-1].values.get("ppl") if run.log.valid else None
    return last, found.scores.paper_bleu if found else None


def _cells(s: Settings | None, first: Settings | None) -> list[str | None]:
    if s is None:
        return ["?"] * len(COLUMNS)
    values = dict(zip(COLUMNS, columns(s), strict=True))
    others = dict(zip(COLUMNS, columns(first), strict=True)) if first else {}
    return [
        None
        if name in others and others[name] == values[name]
        else f"{values[name]:,}"
        if name == "max_update"
        else str(values[name])
        for name in COLUMNS
    ]


def _differences(first: tuple, own: tuple, shown: bool | int, places: int = 2) -> list[str | None]:
    pairs = zip(first, own, (2, places), strict=True)
    return [signed(b - a, p) if shown and None not in (a, b) else None for a, b, p in pairs]


def _millions(cost: Cost) -> str | None:
    exact = cost.parameters or cost.formula_parameters
    return None if exact is None else f"{exact / 1e6:.2f}"


def _others(run: Run, first: Run) -> str:
    """Return in what a run differs from the first one beside the columns."""
    theirs = {row.name: row.run for row in first.rows}
    found = [
        f"{name} {own}"
        for name, _, own in run.rows
        if name not in (*COLUMNS, *QUIET) and theirs.get(name, own) != own
    ]
    if run.log.facts.get("seed") != first.log.facts.get("seed"):
        found.append(f"seed {run.log.facts.get('seed', 'not known')}")
    if run.text is None or first.text is None:
        found.append("text not known")
    elif run.text.inputs != first.text.inputs:
        found.append("OTHER TEXT: not comparable")
    elif _pieces(run) != _pieces(first):
        found.append("OTHER PIECES: perplexity not comparable")
    if run.log.update != first.log.update:
        found.append(f"{whole(run.log.update)} updates so far")
    return ", ".join(found)


def _pieces(run: Run) -> list[Any]:
    return [getattr(run.text, name, None) for name in PIECES]


def of_seeds(runs: Sequence[Run]) -> list[str]:
    """Return the ranges of perplexity and BLEU over runs that differ in the seed alone."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        if run.rows and run.text:
            same = (run.rows, run.log.update, run.text.inputs, _pieces(run))
            groups.setdefault(repr(same), []).append(run)
    found = []
    for group in groups.values():
        if len({run.log.facts.get("seed") for run in group}) == len(group) > 1:
            results = zip(("PPL", "BLEU"), *map(result, group), strict=True)
            ranges = [
                f"{name} {min(values):.2f} to {max(values):.2f}"
                for name, *values in results
                if None not in values
            ]
            found.append(
                f"{', '.join(run.name for run in group)} differ in the seed alone: "
                f"{', '.join(ranges) or 'no results'}"
            )
    return found
