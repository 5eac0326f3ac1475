"""A run: the record of its training, and the scores that `aiayn score --json` wrote."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..paper import Settings, count_parameters
from ..text.lines import escape_unprintable
from ..text.settings import PENN
from ..training.record import RECORD_FILE
from .cost import Cost, compute_cost
from .json_schema import conform, is_complete
from .training_record import TrainingRecord, read_record

#: The files of scores in a run directory, by split.
SCORE_FILES = {"test": "scores.json", "valid": "scores-valid.json"}
#: Bytes of the largest file of scores that is read.
MAX_SCORE_BYTES = 1 << 26
#: The kinds of scores, and their fields.
TEXTS = dict.fromkeys(("sources", "references", "system"), [str])
COUNTS = {
    **dict.fromkeys(("precision", "recall", "f1"), float),
    **dict.fromkeys(("exact", "sentences", "skipped"), int),
}
SCORES: dict[Any, dict[str, Any]] = {
    "translations": {
        **dict.fromkeys(("paper_bleu", "bleu", "chrf", "exact"), float),
        **dict.fromkeys(("target_lang", "words", "signature", "chrf_signature"), str),
        **{"sentences": int, "bootstrap": {str: {"mean": float, "half_width": float}}, **TEXTS},
    },
    "trees": {
        **{"all": {**COUNTS, "tags": int, "words": int}, "short": COUNTS},
        **{"by_gold_punctuation": COUNTS, "repaired": int, **TEXTS},
    },
}
#: The settings that the report computes with, and their types.
SETTINGS = {
    name: int if default is None else type(default)
    for name, default in vars(Settings()).items()
    if name not in ("adam_betas", "paper_millions")
}
#: Settings from 1 to MAX_SIZE.
SIZES, MAX_SIZE = ("N", "d_model", "d_ff", "h", "d_k", "d_v", "neighbourhood"), 10**6


@dataclass
class Run:
    """A run. Absent files are in `missing`, damaged ones in `faults`."""

    name: str
    path: Path
    record: TrainingRecord = field(default_factory=TrainingRecord)
    settings: Settings | None = None
    cost: Cost = field(init=False)
    translations: dict[str, dict] = field(default_factory=dict)  #: scores by split
    trees: dict[str, dict] = field(default_factory=dict)  #: a parser's scores by split
    missing: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def facts(self) -> dict[str, Any]:
        """The facts of the last start; the keys are those of START."""
        return self.record.facts

    @property
    def follows_equation_3(self) -> bool:
        """Whether d_model and the warm-up determine the learning rate."""
        return self.recorded_settings.get("lr_scheduler") == "aiayn_inverse_sqrt"

    @property
    def recorded_settings(self) -> dict[str, Any]:
        """The recorded settings by name."""
        return {row["name"]: row["run"] for row in self.facts["settings"]}

    @property
    def inputs(self) -> dict[str, str]:
        """The checksums of the texts by name, such as "test.newstest2014"."""
        return self.facts["text"]["inputs"]

    @property
    def is_parser(self) -> bool:
        """Whether the targets are trees."""
        return bool(self.trees) or self.facts["text"]["tokenizer"] == PENN


def read_run(path: Path, tflops: float | None = None) -> Run:
    """Read the run at a path. Raises InputError if the path is not a run.

    tflops: the device's sustained rate (default: the paper's).
    """
    run = Run(escape_unprintable(path.resolve().name), path)
    if path.is_file():
        name, absent = run.name, "has no record of a training run"
        run.record = _read(run, name, path, read_record) or run.record
    elif path.is_dir():
        names = (f"checkpoints/{RECORD_FILE}", RECORD_FILE)
        absent = f"has neither {' nor '.join((*names, *SCORE_FILES.values()))}"
        for split in [s for s, file in SCORE_FILES.items() if (path / file).exists()] or ["test"]:
            if scores := _read(run, SCORE_FILES[split], path / SCORE_FILES[split], _read_scores):
                (run.trees if "repaired" in scores else run.translations)[split] = scores
        name = next((name for name in names if (path / name).exists()), names[0])
        run.record = _read(run, name, path / name, read_record) or run.record
    else:
        reason = "is not a regular file" if path.exists() else "does not exist"
        raise InputError(
            f"{path} {reason}: give a run directory, a --save-dir of fairseq-train, or its "
            f"{RECORD_FILE}"
        )
    run.faults += [f"{name}: {n:,} × {fault}" for fault, n in run.record.faults.items()]
    is_run = run.translations or run.trees or (run.faults and path.is_dir())
    if not (run.record.last_time or is_run):
        raise InputError(f"{path} {absent}" + "".join(f" ({fault})" for fault in run.faults[:1]))
    try:
        run.settings = _check_settings(run.recorded_settings)
    except (InputError, KeyError) as error:
        run.faults.append(f"settings: {error}")
    run.cost = compute_cost(run.record, run.settings, tflops)
    return run


def _read(run: Run, name: str, path: Path, read: Callable[[Path], Any]) -> Any:
    """Return what `read` returns for a file; None, with the reason in the run, if it fails."""
    try:
        if path.exists() and not path.is_file():  # a pipe or a device might never end
            raise InputError("not a regular file")
        return read(path)
    except FileNotFoundError:
        run.missing.append(name)
    except (OSError, ValueError, RecursionError) as error:  # InputError is a ValueError
        run.faults.append(escape_unprintable(f"{name}: {error}".splitlines()[0])[:500])
    return None


def _check_settings(recorded: dict[str, Any]) -> Settings | None:
    """Return the settings that the report computes with, None if none were recorded."""
    given = {
        name: recorded[name] for name in SETTINGS if recorded.get(name, "-") not in ("-", None)
    }
    if recorded.get("label_smoothing") == "-":  # a criterion without it
        given["label_smoothing"] = 0.0
    values = {name: conform(value, SETTINGS[name]) for name, value in given.items()}
    for name, value in values.items():
        if value is None or (name in SIZES and not 1 <= value <= MAX_SIZE):
            raise InputError(f"{name} cannot be {str(given[name])[:80]!r}")
    settings = Settings(**values)
    count_parameters(settings, 1, 1)
    return settings if recorded else None


def _read_scores(path: Path) -> dict[str, Any]:
    """Return what `aiayn score --json` wrote. Raises InputError for anything else."""
    with open(path, "rb") as file:
        content = file.read(MAX_SCORE_BYTES + 1)
    if len(content) > MAX_SCORE_BYTES:
        raise InputError(f"more than {MAX_SCORE_BYTES:,} bytes")
    fields = json.loads(content)
    scores = conform(fields, SCORES.get(conform(fields, {"kind": str})["kind"], {}))
    if not scores or not is_complete(scores) or len(scores["references"]) != len(scores["system"]):
        raise InputError("not written by aiayn score --json")
    own_name = SCORE_FILES.get(conform(fields, {"split": str})["split"], path.name)
    if own_name != path.name:
        raise InputError(f"scores of a different split: rename it to {own_name}")
    return scores
