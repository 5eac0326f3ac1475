"""A run beside the paper, and several runs beside each other: as HTML, Markdown and JSON."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..atomic import write_file_atomically
from ..html_page import page
from ..text.scores import by_chance
from .cost import Cost, cost_of
from .curves import curves
from .document import Items, Section, Table, Text, to_html, to_markdown
from .formatting import duration, power, printable, whole
from .parses import table_4
from .run import GENERATED, Run
from .sections import Chances, scores, sections
from .tables import not_newstest, of_seeds, papers_row, published, table_3

#: Sentences of a set whose scores are resampled; beyond, the samples need gigabytes.
MOST_RESAMPLED = 5_000


@dataclass(frozen=True)
class Report:
    """A report: its title, its sections, and all that is known as plain data."""

    title: str
    sections: list[Section]
    data: dict[str, Any]

    def write(self, stem: Path, refresh: int = 0) -> list[Path]:
        """Write stem.html, .md and .json, each whole or not at all, and return their paths.

        refresh: seconds after which the page opens itself anew; 0: never.
        """
        body = to_html(self.title, self.sections)
        texts = {
            ".html": page(self.title, body, name="report/report", refresh=refresh),
            ".md": to_markdown(self.title, self.sections),
            ".json": json.dumps(self.data, ensure_ascii=False, allow_nan=False, indent=1) + "\n",
        }
        paths = []
        for suffix, text in texts.items():
            paths.append(stem.with_name(stem.name + suffix))
            with write_file_atomically(paths[-1]) as temporary:
                # a name of a file may hold what is no character
                temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
        return paths


def report(runs: Sequence[Run], tflops: float | None = None) -> Report:
    """Return the report on one run or on several.

    tflops: the sustained rate of a device that the paper has none for. Raises InputError without
    matplotlib.
    """
    _name_apart(runs)
    costs = [cost_of(run, tflops) for run in runs]
    chances = resampled(runs)
    if len(runs) == 1:
        title = f"Training run {runs[0].name}"
        parts = list(sections(runs[0], costs[0], chances))
    else:
        title = f"{len(runs)} training runs"
        parts = list(_several(runs, costs, chances))
    data = {
        "format": 1,
        "runs": [_data(run, cost, chances) for run, cost in zip(runs, costs, strict=True)],
    }
    return Report(title, parts, data)


def _name_apart(runs: Sequence[Run]) -> None:
    """Give runs of the same name their paths for names, and a number if these are the same too."""
    if len({run.name for run in runs}) < len(runs):
        for number, run in enumerate(runs):
            again = any(run.path == other.path for other in runs[:number])
            name = printable(str(run.path))
            run.name = f"{name} ({number + 1})" if again else name


def resampled(runs: Sequence[Run]) -> Chances:
    """Return what chance has to do with each BLEU, for the runs with the first one's references.

    The p-values are of the paired test with the first of them.
    """
    chances: Chances = {}
    for split in GENERATED:
        having = [run for run in runs if split in run.evaluations]
        texts = [run.evaluations[split].text for run in having]
        if not texts or len(texts[0].references) > MOST_RESAMPLED:
            continue
        same = [
            n
            for n, text in enumerate(texts)
            if text.references == texts[0].references and text.target_lang == texts[0].target_lang
        ]
        found = by_chance(
            [texts[n].system for n in same], texts[0].references, texts[0].target_lang
        )
        chances[split] = {run.name: {} for run in having}
        for place, n in enumerate(same):
            chances[split][having[n].name] = {name: all_[place] for name, all_ in found.items()}
    return chances


def _several(runs: Sequence[Run], costs: Sequence[Cost], chances: Chances) -> Iterator[Section]:
    note = Text(
        "PPL is per piece, of the last validation. BLEU is the paper BLEU of "
        f"{GENERATED['valid']}, the translated validation set. Δ is the difference to the "
        f"first row, {runs[0].name}; an empty cell is that row's, and ? is not known. Runs "
        "with other text or other pieces cannot be compared."
    )
    if all(run.text and run.text.holds_trees for run in runs):
        yield Section("Table 4", table_4(runs))
    seeds, papers = of_seeds(runs), published(runs)
    blocks: list[Any] = [table_3(runs, costs), note, *([Items(seeds)] if seeds else [])]
    yield Section("Table 3", blocks + ([papers, *not_newstest(runs)] if papers else []))
    faults = [f"{run.name}: {fault}" for run in runs for fault in run.faults]
    faults += [f"{run.name}: not there: {', '.join(run.missing)}" for run in runs if run.missing]
    if faults:
        yield Section("What could not be read or is not there", [Items(faults)])
    figures = list(curves({run.name: run.log for run in runs}, {}))
    yield Section("Training", figures or [Text("The logs have no numbers.")])
    if any(run.evaluations or run.trees for run in runs):
        yield scores(runs, chances)
    rows = [
        [
            run.name,
            run.log.state,
            whole(run.log.update),
            duration(cost.seconds),
            whole(cost.parameters or cost.formula_parameters),
            *(
                cell if isinstance(cell, str) else power(cell)
                for cell in (cost.papers_way, cost.counted)
            ),
        ]
        for run, cost in zip(runs, costs, strict=True)
    ]
    head = (
        "run",
        "state",
        "updates",
        "time",
        "parameters",
        "FLOPs, the paper's way",
        "FLOPs, counted",
    )
    more = Text("aiayn report RUN says more about a single run.")
    yield Section("Cost", [Table("Cost", head, rows), more])


def _data(run: Run, cost: Cost, chances: Chances) -> dict[str, Any]:
    """Return all that is known of a run, as plain data."""
    evaluations = {
        split: {
            **asdict(found.scores),
            "by_chance": {
                name: chance._asdict()
                for name, chance in chances.get(split, {}).get(run.name, {}).items()
            },
            "translations": found.text._asdict(),
        }
        for split, found in run.evaluations.items()
    }
    log = {
        name: value for name, value in asdict(run.log).items() if name not in ("settings", "faults")
    }  # which are the run's
    return {
        "name": run.name,
        "path": str(run.path),
        "architecture": run.architecture,
        "row_of_table_3": papers_row(run),
        "missing": run.missing,
        "faults": run.faults,
        "settings": [row._asdict() for row in run.rows],
        "pairs": run.pairs,
        "text": asdict(run.text) if run.text else None,
        "evaluations": evaluations,
        "trees": {split: found.numbers() for split, found in run.trees.items()},
        "cost": asdict(cost),
        "log": {**log, "update": run.log.update, "hours": run.log.hours},
    }
