"""A run in the layout of the paper's Table 2 and Table 3, beside the published figures."""

from collections.abc import Sequence
from typing import Any

from ..paper import Settings, settings
from .cost import Cost
from .document import Table, Text
from .published import COLUMNS, TABLE_2, TABLE_3, columns, row_named, row_of
from .run import Run
from .words import fixed, power, signed, whole

#: The heads of Table 3's columns.
NAMES = {"dropout": "P_drop", "label_smoothing": "ε_ls", "max_update": "steps"}
#: Sentences of newstest2013 and newstest2014.
NEWSTEST = {"valid": ("newstest2013", 3_000), "test": ("newstest2014", 3_003)}
#: Settings in which runs may differ beside those that are columns.
QUIET = {"save_interval_updates", "keep_interval_updates", "peak_learning_rate"}


def is_newstest(run: Run, split: str) -> bool:
    """Return whether a split is the paper's, as text.json has its name and as long as it is."""
    name, sentences = NEWSTEST[split]
    found = run.evaluations.get(split)
    return (run.text is not None and f"{split}.{name}" in run.text.inputs
            and (found is None or found.scores.sentences == sentences))  # fmt: skip


def table_2(run: Run, cost: Cost) -> list[Text | Table]:
    """Return Table 2 as published, and a row for the run."""
    found = run.evaluations.get("test")
    pair = None if run.text is None else (run.text.source_lang, run.text.target_lang)
    place = {("en", "de"): 0, ("en", "fr"): 1}.get(pair) if pair else None
    papers_test = place is not None and found is not None and is_newstest(run, "test")
    rows: list[list[Any]] = [
        [s.name, s.bleu_de, s.bleu_fr, *(f and power(f) for f in s[3:]), "published"]
        for s in TABLE_2]  # fmt: skip
    own: list[Any] = [run.name, None, None, None, None, "this run, paper BLEU, counted FLOPs"]
    if place is not None and not isinstance(cost.counted, str):
        own[3 + place] = power(cost.counted)
    if place is not None and papers_test and found is not None:
        own[1 + place] = fixed(found.scores.paper_bleu)
        note = (f"sacreBLEU of the same translations: {found.scores.bleu:.2f} "
                f"({found.scores.signature}). It cannot be compared with the column.")
    else:
        note = ("This run is not known to be tested on the whole newstest2014, English to German "
                "or French: no BLEU of it can stand in this table.")
    head = ("system", "BLEU EN-DE", "BLEU EN-FR", "FLOPs EN-DE", "FLOPs EN-FR", "from")
    caption = "Table 2: newstest2014, as published"
    return [Table(caption, head, [*rows, own], frozenset({len(rows)})), Text(note)]


def table_3(runs: Sequence[Run], costs: Sequence[Cost]) -> Table:
    """Return the runs in the layout of Table 3; an empty cell is the first run's."""
    head = ["", *(NAMES.get(name, name) for name in COLUMNS if name != "positions"),
            "PPL (valid)", "BLEU (valid)", "params ×10⁶"]  # fmt: skip
    several = len(runs) > 1
    rows = []
    for number, (run, cost) in enumerate(zip(runs, costs, strict=True)):
        first = runs[0].settings if number else None
        perplexity, bleu = result(run)
        row = [run.name, *_cells(run.settings, first), fixed(perplexity), fixed(bleu),
               _millions(cost)]  # fmt: skip
        if several:
            row += [*_differences(result(runs[0]), (perplexity, bleu), number),
                    _others(run, runs[0])]  # fmt: skip
        rows.append(row)
    if several:
        head += ["Δ PPL", "Δ BLEU", "also differs"]
    caption = "The runs, in the layout of Table 3" if several else "This run, as in Table 3"
    return Table(caption, head, rows, frozenset({0} if several else ()))


def published(runs: Sequence[Run]) -> Table | None:
    """Return the rows of Table 3 that the runs are, or are named after; None if none is."""
    found = {run.name: arch for run in runs if (arch := papers_row(run))}
    if not found:
        return None
    base_ppl, base_bleu = TABLE_3["aiayn_base"]
    head = ["run", "its row", *(NAMES.get(name, name) for name in COLUMNS if name != "positions"),
            "PPL", "BLEU", "params ×10⁶", "Δ PPL to base", "Δ BLEU to base"]  # fmt: skip
    rows = []
    for name, arch in found.items():
        perplexity, bleu = TABLE_3[arch]
        millions = settings(arch).paper_millions
        first = None if arch == "aiayn_base" else settings("aiayn_base")
        rows.append([name, arch, *_cells(settings(arch), first), fixed(perplexity), fixed(bleu, 1),
                     None if millions is None else str(millions),
                     *_differences((base_ppl, base_bleu), (perplexity, bleu), arch != "aiayn_base",
                                   1)])  # fmt: skip
    caption = ("Table 3 as published (newstest2013, English to German): the rows that the runs "
               "are, or are named after; an empty cell is base's")  # fmt: skip
    return Table(caption, head, rows)


def papers_row(run: Run) -> str | None:
    """Return the row of Table 3 that a run is, by its settings, or that it is named after."""
    return (row_of(run.settings) if run.settings else None) or row_named(run.name)


def result(run: Run) -> tuple[float | None, float | None]:
    """Return perplexity and paper BLEU on the validation set, None if they are not known."""
    found = run.evaluations.get("valid")
    last = run.log.valid[-1].values.get("ppl") if run.log.valid else None
    return last, found.scores.paper_bleu if found else None


def _cells(s: Settings | None, first: Settings | None) -> list[str | None]:
    names = [name for name in COLUMNS if name != "positions"]
    if s is None:
        return [None] * len(names)
    values = dict(zip(COLUMNS, columns(s), strict=True))
    others = dict(zip(COLUMNS, columns(first), strict=True)) if first else {}
    return [None if name in others and others[name] == values[name]
            else f"{values[name]:,}" if name == "max_update" else str(values[name])
            for name in names]  # fmt: skip


def _differences(first: tuple, own: tuple, shown: bool | int, places: int = 2) -> list[str | None]:
    pairs = zip(first, own, (2, places), strict=True)
    return [signed(b - a, p) if shown and None not in (a, b) else None for a, b, p in pairs]


def _millions(cost: Cost) -> str | None:
    exact = cost.parameters or cost.formula_parameters
    return None if exact is None else f"{exact / 1e6:.2f}"


def _others(run: Run, first: Run) -> str:
    """Return in what a run differs from the first one beside the columns."""
    columns_ = {*COLUMNS, *QUIET} - {"positions"}
    theirs = {row.name: row.run for row in first.rows}
    found = [f"{row.name} {row.run}" for row in run.rows
             if row.name not in columns_ and theirs.get(row.name, row.run) != row.run]  # fmt: skip
    if run.log.facts.get("seed") != first.log.facts.get("seed"):
        found.append(f"seed {run.log.facts.get('seed', 'not known')}")
    if run.text and first.text and run.text.inputs != first.text.inputs:
        found.append("OTHER TEXT: not comparable")
    if run.log.update != first.log.update:
        found.append(f"{whole(run.log.update)} updates so far")
    return ", ".join(found)
