"""Run directories for the tests: records of training runs and scores, and the report on them."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from models import configuration

from aiayn_plugin.fairseq_plugin.training_log import compare_with_paper
from aiayn_plugin.report.document import KeyFigures, Table, to_markdown
from aiayn_plugin.report.report import Report, report
from aiayn_plugin.report.run import read_run
from aiayn_plugin.text.scores import resample, score
from aiayn_plugin.text.settings import TextSettings

HOSTILE = "<script>document.title='run'</script><img src=x onerror=\"document.title='run'\">|`"
#: Data as aiayn prepare describes it.
TEXT = TextSettings(
    "en",
    "de",
    500,
    codes_sha256="0" * 64,
    inputs={"train.en": "1" * 64, "valid.en": "2" * 64, "test.en": "3" * 64},
    versions={"sacremoses": "0.2.0"},
)


class Record:
    """A run.jsonl that grows. flags: those of fairseq-train, after `--arch aiayn_tiny`."""

    def __init__(self, *flags: str, **facts: Any) -> None:
        rows = compare_with_paper(configuration("--arch", "aiayn_tiny", *flags))
        self.facts = {
            "architecture": "aiayn_tiny",
            "settings": [{"name": name, "paper": paper, "run": run} for name, paper, run in rows],
            "command": "fairseq-train data --arch aiayn_tiny",
            "versions": "Python 3, torch 2, fairseq 0",
            "device": "some processor",
            "devices": 2,
            "seed": 7,
            "parameters": 1234,
            "dictionaries": {"source": 1000, "target": 1200},
            "pairs": {"train": 290, "valid": 20},
            "batches": {"source_tokens": 60.0, "target_tokens": 50.0},
            "kept": "training pairs: 290 of 300 kept; dropped: 10 too different in length",
            "text": asdict(TEXT),
            **facts,
        }
        self.lines: list[dict] = []

    def add(self, event: str, update: int, **fields: Any) -> "Record":
        time = f"2026-01-01 12:00:{len(self.lines) % 60:02}"
        self.lines.append({"event": event, "time": time, "update": update, **fields})
        return self

    def start(self, update: int = 0) -> "Record":
        """Start, after an update that was restored."""
        return self.add("start", update, **self.facts)

    def train(self, update: int, seconds: float, **values: Any) -> "Record":
        """Log an interval."""
        values = {"loss": 9 - update / 100, "ppl": 2.5, "wpb": 50.0, "bsz": 4.0, **values}
        return self.add("interval", update, seconds=seconds, values=values)

    def valid(self, update: int, seconds: float = 0.0, subset: str = "valid", **values: Any):
        """Log a validation."""
        values = {"loss": 8.0, "ppl": 3.5, **values}
        return self.add("validation", update, seconds=seconds, subset=subset, values=values)

    def epoch(self, update: int, seconds: float, **values: Any) -> "Record":
        """Log an epoch."""
        return self.add("epoch", update, seconds=seconds, values=values)

    def end(self, update: int = 0) -> "Record":
        """Finish."""
        return self.add("end", update)

    def text(self) -> str:
        """Return the file's content."""
        return "".join(json.dumps(line) + "\n" for line in self.lines)

    def write(self, path: Path) -> Path:
        """Write the file, by its name or into a run directory, and return the path."""
        file = path if path.suffix else path / "checkpoints" / "run.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self.text(), encoding="utf-8")
        return path


def interrupted(*flags: str, **facts: Any) -> Record:
    """Return a training run that was killed after update 40, and resumed after update 20."""
    record = Record(*flags, **facts).start()
    for update in (10, 20, 30, 40):
        rates = {"lr": update * 1e-5, "gnorm": 1.5, "wps": 1000.0}
        record.train(update, 60 * update, **rates)
        if update == 20:
            record.valid(update, 1260)
    record.start(20)
    for update, seconds in ((30, 600), (40, 1200), (50, 1800)):
        record.train(update, seconds, lr=update * 1e-5, gnorm=1.5, wps=1000.0)
    return record.valid(50, 1830, bleu=33.3).epoch(50, 1840).end(50)


def translation_scores(wrong: int = 2, sentences: int = 20, **changes: Any) -> dict[str, Any]:
    """Return what `aiayn score --json` writes; the first `wrong` hypotheses are hostile."""
    references = [f"Der Hund Nummer {n} läuft heute weg ." for n in range(sentences)]
    system = [HOSTILE] * wrong + references[wrong:]
    bootstraps = resample([system], references, "de", samples=20)
    return {
        "kind": "translations",
        **asdict(score(system, references, "de")),
        "bootstrap": {name: result._asdict() for name, (result,) in bootstraps.items()},
        "sources": [f"sentence {n}" for n in range(sentences)],
        "system": system,
        "references": references,
        "target_lang": "de",
        **changes,
    }


def tree_scores(**changes: Any) -> dict[str, Any]:
    """Return what `aiayn score --json` writes about trees: precision is 80 %, recall 50 %."""
    counts = {"matched": 8, "gold": 16, "system": 10, "tags": 27, "words": 30}
    counts |= {"exact": 1, "sentences": 5, "skipped": 1}
    counts |= {"precision": 0.8, "recall": 0.5, "f1": 8 / 13}
    trees = {name: ["(S a)"] * 4 for name in ("sources", "references", "system")}
    content = {"all": counts | changes, "short": {**counts, "f1": 0.75}, "repaired": 3}
    content["by_gold_punctuation"] = {**counts, "f1": 0.5}
    return {"kind": "trees", **content, **trees}


def write_scores(run: Path, **splits: dict[str, Any]) -> Path:
    """Write scores by split into a run directory, and return it."""
    run.mkdir(parents=True, exist_ok=True)
    for split, scores in splits.items():
        name = {"test": "scores.json", "valid": "scores-valid.json"}[split]
        (run / name).write_text(json.dumps(scores), encoding="utf-8")
    return run


def report_on(*runs: Path, **options: Any) -> Report:
    """Return the report on some runs."""
    return report([read_run(run, **options) for run in runs])


def rows_of(found: Report, caption: str) -> dict[str, dict[str, Any]]:
    """Return the table whose caption starts with `caption`: its cells by row and column.

    A table of names and values has one column, "".
    """
    blocks = [block for section in found.sections for block in section.blocks]
    tables = [b for b in blocks if isinstance(b, Table) and b.caption.startswith(caption)]
    assert len(tables) == 1, [b.caption for b in blocks if isinstance(b, Table)]
    head = list(tables[0].head[1:]) or [""]
    return {row[0]: dict(zip(head, row[1:], strict=True)) for row in tables[0].rows}


def numbers_of(found: Report) -> list[tuple[str, str, str]]:
    """Return the large numbers of a report: (value, name, note) each."""
    [numbers] = [block for block in found.sections[0].blocks if isinstance(block, KeyFigures)]
    return list(numbers.numbers)


def markdown_of(*runs: Path, **options: Any) -> str:
    """Return the Markdown of the report on some runs."""
    found = report_on(*runs, **options)
    return to_markdown(found.title, found.sections)
