"""A run next to the paper's results, or several runs side by side: HTML, Markdown and JSON."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..atomic import write_texts_atomically
from ..html_page import language_pair, page
from ..paper import ARCHITECTURES, SCALED_DOWN, get_settings
from ..text.lines import escape_unprintable
from ..training.remaining_time import duration
from .cost import FORMULA, TIME_NOTE
from .curves import build_comparison_charts, build_figure, build_run_charts
from .document import Block, Figures, KeyFigures, Section, Table, Term, to_html, to_markdown
from .formatting import format_count, format_integer, format_number, format_power, format_split
from .run import Run
from .scores import compare_by_bootstrap, exact_share, examples, score_blocks
from .setting_names import setting_term, setting_value
from .tables import paper_row, published_result, skipped_note, table_2, table_3, table_4

#: Names and values; values that are None or empty are left out.
Facts = dict[str | Term, str | None]


@dataclass(frozen=True)
class Report:
    """A report: its title, its sections, and all known values as plain data."""

    title: str
    sections: list[Section]
    data: dict[str, Any]

    def write(self, stem: Path) -> list[Path]:
        """Write stem.html, .md and .json atomically and return their paths.

        Raises InputError without matplotlib.
        """
        body = to_html(self.title, self.sections)
        data = json.dumps(self.data, default=vars, ensure_ascii=False, allow_nan=False, indent=1)
        texts = {
            ".html": page(self.title, body, name="report/report"),
            ".md": to_markdown(self.title, self.sections),
            ".json": data + "\n",
        }
        files = {stem.with_name(stem.name + suffix): text for suffix, text in texts.items()}
        write_texts_atomically(files, errors="backslashreplace")  # of file names
        return [*files]


def report(runs: Sequence[Run]) -> Report:
    """Return the report on one run or on several."""
    if len({run.name for run in runs}) < len(runs):  # names repeat, and maybe paths
        for number, run in enumerate(runs):
            repeats = any(run.path == earlier.path for earlier in runs[:number])
            run.name = escape_unprintable(str(run.path)) + f" ({number + 1})" * repeats
    compare_by_bootstrap(runs)
    if len(runs) == 1:
        title, sections = f"Training run {runs[0].name}", _single(runs[0])
    else:
        title, sections = f"{len(runs)} training runs", _several(runs)
    return Report(title, list(sections), {"format": 2, "runs": list(map(_data, runs))})


def _single(run: Run) -> Iterator[Section]:
    """Yield the sections of a report on one run."""
    faults: list[Block] = ["Unreadable:", run.faults] if run.faults else []
    faults += [f"Missing: {', '.join(run.missing)}."] if run.missing else []
    yield Section("", [KeyFigures(list(_numbers(run))), *faults])
    if blocks := examples(run):
        yield Section("Examples", blocks)
    charts = [build_figure(chart) for chart in build_run_charts(run.record, _schedules(run))]
    note = (
        "Hours and minutes exclude updates that a restart repeated, and pauses between "
        "sessions. Perplexity is 2 to the power of the loss without label smoothing, per subword."
    )
    yield Section("Training", [Figures(charts), note] if charts else ["The record has no values."])
    yield _section("Outcome", _outcome(run))
    tables = table_4([run]) if run.is_parser else table_2(run) + table_3([run])
    yield Section("Comparison with the paper", tables)
    yield _section("Scores", *score_blocks([run]))
    yield _section("Settings", _settings(run))
    yield _section("Data", _facts("Data", _training_data(run)))
    yield _section("Cost", *_cost(run))
    yield _section("Versions and input", _facts("Versions and input", _origin(run)))


def _section(title: str, *blocks: Block) -> Section:
    """Return a section; the caption of a table at its beginning replaces the title."""
    return Section(blocks[0].caption if isinstance(blocks[0], Table) else title, blocks)


def _numbers(run: Run) -> Iterator[tuple[str, str, str]]:
    """Yield the result of a run, its comparison, and its time: value, name and note."""
    record, scored = run.record, run.translations | run.trees
    if scored:
        split, scores = next(iter(scored.items()))
        if "all" in scores:
            name, what, counts = "F1", "trees", scores["all"]
            score, exact = 100 * counts["f1"], exact_share(counts)
            note = f"labelled brackets{skipped_note(run)}"
        else:
            name, what, counts = "BLEU", "translations", scores
            score, exact = scores["paper_bleu"], scores["exact"]
            note = f"paper BLEU; sacreBLEU {scores['bleu']:.2f}, chrF {scores['chrf']:.2f}"
        yield f"{score:.2f}", f"{name} on the {format_split(split)}", note
        if published := published_result(run):
            model, paper, ours = published
            note = f"{model}: {paper}"
            difference = f"{format_number(ours - paper, '+.1f')}"
            yield difference, f"{name} compared with the paper", note
        else:
            note = format_count(counts["sentences"] - counts.get("skipped", 0), "sentence")
            yield f"{exact:.1%}", f"exact match of the {what}", note
    elif record.valid and "ppl" in (values := record.valid[-1].values):
        note = f"after {format_count(record.valid[-1].update, 'update')}"
        yield f"{values['ppl']:.2f}", "perplexity on the validation set", note
    if record.last_time:
        updates = format_count(record.update, "update")
        if run.settings and run.settings.max_update:
            updates = f"{record.update:,} of {format_count(run.settings.max_update, 'update')}"
        note = f"{updates}; {format_integer(run.cost.parameters) or '?'} parameters"
        yield duration(run.cost.seconds), "training time", note


def _several(runs: Sequence[Run]) -> Iterator[Section]:
    """Yield the sections of a report on several runs."""
    if all(run.is_parser for run in runs):
        yield _section("Table 4", *table_4(runs))
    yield _section("Table 3", *table_3(runs))
    faults = [f"{run.name}: {fault}" for run in runs for fault in run.faults]
    faults += [f"{run.name}: missing: {', '.join(run.missing)}" for run in runs if run.missing]
    if faults:
        yield Section("Missing or unreadable files", [faults])
    charts = [
        build_figure(chart)
        for chart in build_comparison_charts({run.name: run.record for run in runs})
    ]
    yield Section("Training", [Figures(charts)] if charts else ["The records have no values."])
    yield _section("Scores", *score_blocks(runs))
    records = [
        {
            "run": run.name,
            "state": run.record.state,
            "updates": format_integer(run.record.update),
            "time": duration(run.cost.seconds),
            "parameters": format_integer(run.cost.parameters),
            "FLOPs, estimated": format_power(run.cost.estimated),
            "FLOPs, counted": format_power(run.cost.counted),
        }
        for run in runs
    ]
    note = f"{TIME_NOTE} aiayn report RUN shows a run in detail."
    yield _section("Cost", Table.from_records("Cost", records), note)


def _facts(caption: str, facts: Facts) -> Table:
    return Table(caption, (), [[name, value] for name, value in facts.items() if value])


def _outcome(run: Run) -> Table:
    """Return the state of the run and its results."""
    record, restarts = run.record, len(run.record.restarts)
    updates = run.settings.max_update if run.settings else 0  # 0 with --max-epoch
    limit = f" of {updates:,}" if updates else ""
    facts: Facts = {
        "training": record.state,
        "updates": f"{record.update:,}{limit}",
        "time": duration(run.cost.seconds)
        + (f", {format_count(restarts, 'restart')}" if restarts else ""),
        "parameters": format_integer(run.cost.parameters),
    }
    if record.valid:
        last = record.valid[-1]
        shown = {"perplexity": ("ppl", ".2f"), "loss": ("loss", ".3f")}
        known = [
            f"{title} {last.values[name]:{spec}}"
            for title, (name, spec) in shown.items()
            if name in last.values
        ]
        losses = [point.values["loss"] for point in record.valid if "loss" in point.values]
        lowest = f"; lowest loss {min(losses):.3f}" if losses else ""
        values = ", ".join(known) or "no value"
        facts["validation"] = f"{values} after {format_count(last.update, 'update')}{lowest}"
    for split, scores in run.translations.items():
        names = {"paper BLEU": "paper_bleu", "sacreBLEU": "bleu", "chrF": "chrf"}
        facts[format_split(split)] = ", ".join(f"{n} {scores[key]:.2f}" for n, key in names.items())
    for split, scores in run.trees.items():
        note = skipped_note(run) if split == "test" else ""
        facts[format_split(split)] = f"F1 {100 * scores['all']['f1']:.2f}{note}"
    return _facts("Outcome", facts)


def _schedules(run: Run) -> dict[str, tuple[int, int]]:
    """Return d_model and warm-up of equation (3), of this run and of the paper's model."""
    s, arch = run.settings, run.facts["architecture"]
    if s is None or s.warmup_updates < 1 or not run.follows_equation_3:
        return {}
    schedules = {"equation (3) with this run's d_model and warm-up": (s.d_model, s.warmup_updates)}
    known = SCALED_DOWN.get(arch, arch)
    row = paper_row(run) or (known if known in ARCHITECTURES else "aiayn_base")
    paper = get_settings(row)
    if (paper.d_model, paper.warmup_updates) not in schedules.values():
        schedules["equation (3) of the paper's model"] = paper.d_model, paper.warmup_updates
    return schedules


def _settings(run: Run) -> Block:
    """Return each setting next to the paper's; the differences are emphasised."""
    arch, settings = run.facts["architecture"], run.facts["settings"]
    rows = [
        [setting_term(row["name"]), setting_value(row["paper"]), setting_value(row["run"])]
        for row in settings
    ]
    caption = f"Settings of {arch}, compared with {SCALED_DOWN.get(arch, 'the paper')}"
    caption += "; differences in bold"
    changed = [number for number, row in enumerate(settings) if row["paper"] != row["run"]]
    table = Table(caption, ("setting", "paper", "this run"), rows, changed)
    return table if rows else "The record has no settings."


def _training_data(run: Run) -> Facts:
    """Return what the run was trained on."""
    facts, text = run.facts, run.facts["text"]
    pairs, words, batches = facts["pairs"], facts["dictionaries"], facts["batches"]
    size = f"{text['vocabulary']} subwords" if text["vocabulary"] else f"{text['merges']} merges"
    known = None not in (text["source_lang"], text["target_lang"])
    return {
        "training pairs": format_integer(pairs["train"]),
        "kept and dropped": facts["kept"],
        "validation pairs": format_integer(pairs["valid"]),
        "source vocabulary": format_integer(words["source"]),
        "target vocabulary": format_integer(words["target"]),
        "source tokens per update": format_integer(run.cost.source_tokens) or "not recorded",
        "target tokens per update": format_integer(run.cost.target_tokens),
        setting_term("max_tokens"): format_integer(batches.get("max_tokens")),
        setting_term("update_freq"): format_integer(batches.get("update_freq")),
        "updates per epoch": format_integer(batches.get("updates")),
        "padding": format_number(batches.get("padding"), ".1%"),
        "languages": language_pair(text["source_lang"], text["target_lang"]) if known else None,
        "subwords": f"{text['subword']}, {size}; tokenizer {text['tokenizer']}" if known else None,
    }


def _cost(run: Run) -> list[Block]:
    """Return the exact parameters, and the operations of training."""
    cost = run.cost
    estimated, devices = format_power(cost.estimated), format_count(cost.devices, "device")
    if not isinstance(cost.estimated, str):
        estimated += f": {cost.seconds:,.0f} s × {devices} × {cost.tflops} TFLOPS"
    facts: Facts = {
        "parameters of the model": format_integer(run.facts["parameters"]) or "not recorded",
        "parameters by the formula": format_integer(cost.formula_parameters),
        "FLOPs, estimated as in the paper (time × devices × sustained rate)": estimated,
        "FLOPs, counted": format_power(cost.counted),
    }
    note = (
        f"{TIME_NOTE} Counted: {FORMULA}. All pairs are assumed to have the mean lengths, over "
        f"{run.record.update:,} updates; those that a restart repeated are left out. "
        "The formula and the count assume the plugin's layers."
    )
    if not cost.source_tokens:
        note += " Source tokens are not recorded, and are assumed to equal the target tokens."
    return [_facts("Cost", facts), note]


def _origin(run: Run) -> Facts:
    """Return versions, device, inputs and the command of the run."""
    facts, versions = run.facts, run.facts["text"]["versions"]
    device, seed = facts["device"], facts["seed"]
    processes = format_count(facts["devices"] or 1, "process", "processes")
    return {
        "trained with": facts["versions"] or "not recorded",
        "device": f"{device}; {processes}" if device else "not recorded",
        "precision": facts["precision"] or "not recorded",
        "seed": "not recorded" if seed is None else str(seed),
        "command": (facts["command"] or "not recorded")[:10_000],
        "data prepared with": ", ".join(f"{name} {versions[name]}" for name in versions),
        **{f"SHA-256 of {name}": f"{checksum}"[:200] for name, checksum in run.inputs.items()},
    }


def _data(run: Run) -> dict[str, Any]:
    """Return everything known about a run, as plain data."""
    training = {**vars(run.record), "update": run.record.update, "hours": run.record.hours}
    facts, _ = training.pop("facts"), training.pop("faults")  # the run has the faults
    return {
        "name": run.name,
        "path": str(run.path),
        "row_of_table_3": paper_row(run),
        "missing": run.missing,
        "faults": run.faults,
        "facts": facts,
        "training": training,
        "translations": run.translations,
        "trees": run.trees,
        "cost": vars(run.cost),
    }
