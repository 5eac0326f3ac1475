"""Runs in the layout of the paper's Tables 2, 3 and 4, next to the published results."""

from collections.abc import Sequence
from typing import Any

from ..paper import ARCHITECTURES, Settings, get_settings
from .document import Block, Table
from .formatting import format_count, format_number, format_power
from .paper_results import (
    COLUMNS,
    TABLE_2,
    TABLE_3,
    TABLE_4,
    columns,
    find_row_by_name,
    find_row_by_settings,
)
from .run import Run
from .setting_names import NAMES, SYMBOLS, setting_value

#: Headings of Table 3's columns.
HEADINGS = {**SYMBOLS, "max_update": "steps"}
#: The paper's sets: their names in a run's data, and their numbers of sentences.
PAPER_SETS = {"valid": ("valid.newstest2013", 3_000), "test": ("test.newstest2014", 3_003)}
WSJ_23 = ("test.wsj", 2_416)
#: Settings that are not listed as differences between runs.
IGNORED = ("save_interval_updates", "keep_interval_updates")
#: The settings of the data that determine its subwords.
SUBWORDS = ("tokenizer", "normalize_punctuation", "subword", "merges", "vocabulary", "codes_sha256")


def uses_paper_set(run: Run, split: str, *targets: str) -> bool:
    """Return whether a run has one of PAPER_SETS, in English to one of the target languages."""
    (name, size), text = PAPER_SETS[split], run.facts["text"]
    is_whole = run.translations.get(split, {}).get("sentences", size) == size
    languages = text["source_lang"] == "en" and text["target_lang"] in targets
    return languages and name in run.inputs and is_whole


def uses_wsj_23(run: Run) -> bool:
    """Return whether a run parsed all of section 23 of the Wall Street Journal."""
    counts = run.trees.get("test", {}).get("all", {})
    return WSJ_23[0] in run.inputs and counts.get("sentences") == WSJ_23[1]


def _has_extra_trees(run: Run) -> bool:
    return any("extra" in name for name in run.inputs)


def published_result(run: Run) -> tuple[str, float, float] | None:
    """Return a published model on a run's test set, its BLEU or F1, and the run's.

    None if the paper has no result on that set.
    """
    if uses_wsj_23(run):
        name = "Transformer (4 layers)"
        published = {data: f1 for parser, data, f1 in TABLE_4 if parser == name}
        data = "semi-supervised" if _has_extra_trees(run) else "WSJ only, discriminative"
        return name, published[data], 100 * run.trees["test"]["all"]["f1"]
    scores = run.translations.get("test")
    if not scores or not uses_paper_set(run, "test", "de", "fr"):
        return None
    is_big = (paper_row(run) or run.facts["architecture"] or "").startswith("aiayn_big")
    name = "Transformer (big)" if is_big else "Transformer (base model)"
    german, french, *_ = TABLE_2[name]
    bleu = french if run.facts["text"]["target_lang"] == "fr" else german
    return name, float(str(bleu)), scores["paper_bleu"]


def table_2(run: Run) -> list[Block]:
    """Return Table 2 with the run's row, or the reason for its absence."""
    if not published_result(run):
        return [
            "The run has no result in Table 2: its test set is not known to be all of "
            "newstest2014, English to German or French."
        ]
    scores = run.translations["test"]
    rows: list[list[Any]] = [
        [system, de, fr, *(number and format_power(number) for number in flops), "paper"]
        for system, (de, fr, *flops) in TABLE_2.items()
    ]
    column = {"de": 1, "fr": 2}[run.facts["text"]["target_lang"]]
    own: list[Any] = [run.name, None, None, None, None, "this run, paper BLEU"]
    own[column] = format_number(scores["paper_bleu"])
    if not isinstance(run.cost.estimated, str):  # the counted operations are a different quantity
        own[column + 2] = format_power(run.cost.estimated)
    note = (
        f"sacreBLEU of the same translations: {scores['bleu']:.2f} ({scores['signature']}). "
        "It is not comparable with this column."
    )
    head = ("system", "BLEU EN-DE", "BLEU EN-FR", "FLOPs EN-DE", "FLOPs EN-FR", "source")
    return [Table("Table 2: newstest2014", head, [*rows, own], {len(rows)}), note]


def table_3(runs: Sequence[Run]) -> list[Block]:
    """Return the runs in the layout of Table 3, and the published rows that belong to them."""
    rows: list[tuple] = []
    for run in runs:
        millions = format_number(run.cost.parameters and run.cost.parameters / 1e6)
        differences = _other_differences(run, runs[0])
        rows.append((run.name, run.settings, perplexity_and_bleu(run), millions, differences))
    table = _layout("The runs, in the layout of Table 3", rows, ".2f", "other differences")
    blocks: list[Block] = [table]
    if len(runs) == 1:
        blocks = [Table("This run, as in Table 3", table.head[:-3], [table.rows[0][:-3]])]
    blocks.append(
        "PPL is per subword, in the last validation. BLEU is the paper BLEU of the validation set. "
        "An empty PPL or BLEU is unknown."
    )
    if len(runs) > 1:
        blocks.append(
            f"Δ is the difference from the first row, {runs[0].name}; an empty setting has that "
            "row's value, and ? is unknown. Runs on different text or subwords are not comparable."
        )
        if ranges := seed_ranges(runs):
            blocks.append(ranges)
    paper_rows = {run.name: arch for run in runs if (arch := paper_row(run))}
    if not paper_rows:
        return [*blocks, "Table 3 has no row with these settings."]
    caption = (
        "Table 3 as published (newstest2013, English to German): base, and the rows whose "
        "columns or name the runs share; an empty cell has base's value"
    )
    rows = []
    for arch in dict.fromkeys(("aiayn_base", *paper_rows.values())):
        s, names = get_settings(arch), [name for name, row in paper_rows.items() if row == arch]
        rows.append((arch, s, TABLE_3[arch], s.paper_millions, ", ".join(names)))
    blocks.append(_layout(caption, rows, ".1f", "run"))
    if foreign := [run.name for run in runs if not uses_paper_set(run, "valid", "de")]:
        blocks.append(
            f"The validation set of {', '.join(foreign)} is not known to be newstest2013, English "
            "to German: perplexity and BLEU are not comparable with Table 3."
        )
    return blocks


def paper_row(run: Run) -> str | None:
    """Return the row of Table 3 that has a run's columns, or that the run is named after.

    A user's own architecture may have the columns of a row, but is a different model.
    """
    is_papers = _own_architecture(run) is None
    row = find_row_by_settings(run.settings) if run.settings and is_papers else None
    return row or find_row_by_name(run.path.resolve().name)


def _own_architecture(run: Run) -> str | None:
    """Return the name of a user's architecture, which the settings do not fully describe."""
    arch = run.facts["architecture"]
    return None if arch in {None, "aiayn_transformer", *ARCHITECTURES} else arch


def perplexity_and_bleu(run: Run) -> tuple[float | None, float | None]:
    """Return perplexity and paper BLEU on the validation set, None where unknown."""
    last = run.record.valid[-1].values if run.record.valid else {}
    return last.get("ppl"), run.translations.get("valid", {}).get("paper_bleu")


def _layout(caption: str, rows: Sequence[tuple], bleu_spec: str, last_heading: str) -> Table:
    """Return rows in the layout of Table 3, each compared with the first one.

    rows: name, settings, (perplexity, BLEU), parameters in millions, and the last cell.
    """
    cells: list[list[Any]] = []
    base, base_results = rows[0][1:3]
    for name, settings, results, millions, last in rows:
        is_first = not cells
        hidden = {} if is_first or base is None else _columns(base)
        shown = [
            None if hidden.get(c) == value else value for c, value in _columns(settings).items()
        ]
        values, differences = [], []
        for value, first, spec in zip(results, base_results, (".2f", bleu_spec), strict=True):
            is_known = not is_first and None not in (value, first)
            values.append(format_number(value, spec))
            differences.append(format_number(value - first, f"+{spec}") if is_known else None)
        cells.append([name, *shown, *values, millions, *differences, last])
    headings = [HEADINGS.get(name, name) for name in COLUMNS]
    head = ("", *headings, "PPL", "BLEU", "params ×10⁶", "Δ PPL", "Δ BLEU", last_heading)
    return Table(caption, head, cells, {0})


def _columns(s: Settings | None) -> dict[str, Any]:
    steps = f"{s.max_update:,}" if s and s.max_update else "?"  # 0 with --max-epoch
    return {**columns(s), "max_update": steps} if s else dict.fromkeys(COLUMNS, "?")


def _other_differences(run: Run, first: Run) -> str:
    """Return the differences from the first run outside Table 3's columns."""
    ours, theirs = run.recorded_settings, first.recorded_settings
    listed = {*COLUMNS, *IGNORED} | ({"peak_learning_rate"} if run.follows_equation_3 else set())
    differences = [
        f"{NAMES.get(name, name)}: {setting_value(ours.get(name, '-'))}"
        for name in (ours | theirs if ours and theirs else ())
        if name not in listed and ours.get(name) != theirs.get(name)
    ]
    if _own_architecture(run) != _own_architecture(first):
        differences.append(f"architecture {run.facts['architecture']}")
    precisions = [each.facts["precision"] for each in (run, first)]
    if None not in precisions and precisions[0] != precisions[1]:
        differences.append(f"precision {precisions[0]}")
    devices = [_devices(each) for each in (run, first)]
    if None not in devices and devices[0] != devices[1]:
        differences.append(format_count(run.facts["devices"], "device"))
    if run.facts["seed"] != first.facts["seed"]:
        differences.append(f"seed {run.facts['seed']}")
    if not (run.inputs and first.inputs):
        differences.append("text unknown")
    elif run.inputs != first.inputs:
        differences.append("DIFFERENT TEXT: not comparable")
    elif _languages(run) != _languages(first):
        differences.append("DIFFERENT LANGUAGES: not comparable")
    elif _subwords(run) != _subwords(first):
        differences.append("DIFFERENT SUBWORDS: perplexity not comparable")
    if run.record.update != first.record.update:
        so_far = "" if run.record.finished else " so far"
        differences.append(f"{format_count(run.record.update, 'update')}{so_far}")
    return "; ".join(differences)


def _devices(run: Run) -> int | None:
    """Return the number of devices, None if the size of an update does not depend on it."""
    return run.facts["devices"] if run.recorded_settings.get("tokens_per_update") == "-" else None


def _languages(run: Run) -> tuple[str | None, str | None]:
    return run.facts["text"]["source_lang"], run.facts["text"]["target_lang"]


def _subwords(run: Run) -> list[Any]:
    return [run.facts["text"][name] for name in SUBWORDS]


def seed_ranges(runs: Sequence[Run]) -> list[str]:
    """Return the ranges of perplexity and BLEU over runs that differ only in the seed."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        if run.recorded_settings and run.inputs:
            training = (
                _own_architecture(run),
                run.recorded_settings,
                run.facts["precision"],
                _devices(run),
                run.record.update,
            )
            text = sorted(run.inputs.items()), _languages(run), _subwords(run)
            same = repr((training, text))
            groups.setdefault(same, []).append(run)
    lines = []
    for group in groups.values():
        if len({run.facts["seed"] for run in group}) == len(group) > 1:
            results = zip(*map(perplexity_and_bleu, group), strict=True)
            ranges = [
                f"{name} {min(values):.2f} to {max(values):.2f}"
                for name, values in zip(("PPL", "BLEU"), results, strict=True)
                if None not in values
            ]
            names = ", ".join(run.name for run in group)
            lines.append(f"{names} differ only in the seed: {', '.join(ranges) or 'no results'}")
    return lines


def skipped_note(run: Run) -> str:
    """Return how many trees of the test set EVALB's F1 leaves out; empty for none."""
    scores = run.trees.get("test")
    if not scores or not (skipped := scores["all"]["skipped"]):
        return ""
    of_all = format_number(100 * scores["by_gold_punctuation"]["f1"])
    return f"; {format_count(skipped, 'sentence')} skipped, as in EVALB; F1 of all {of_all}"


def table_4(runs: Sequence[Run]) -> list[Block]:
    """Return Table 4 with a row for each run with a result there, and a note on the other runs."""
    rows: list[list[Any]] = [[name, data, str(f1), "paper"] for name, data, f1 in TABLE_4]
    foreign = []
    for run in runs:
        training = "gold and extra trees" if _has_extra_trees(run) else "gold trees only"
        if uses_wsj_23(run):
            f1 = format_number(100 * run.trees["test"]["all"]["f1"])
            rows.append([run.name, training, f1, f"this run{skipped_note(run)}"])
        else:
            foreign.append(run.name)
    head = ("parser", "training", "F1 on WSJ 23", "source")
    own = range(len(TABLE_4), len(rows))
    blocks: list[Block] = []
    if own:
        blocks.append(Table("Table 4: English constituency parsing", head, rows, own))
    if foreign:
        blocks.append(
            f"The test set of {', '.join(foreign)} is not known to be all of section 23 of the "
            "Wall Street Journal: its F1 is among the scores, and is not comparable here."
        )
    return blocks
