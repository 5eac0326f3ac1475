"""A run: what a recipe of examples/ leaves in its directory, or a training's log alone."""

import ast
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ..checkpoints.safe_load import configuration, glance
from ..errors import InputError
from ..fairseq_plugin import training_log as boundary_log
from ..paper import ARCHITECTURES, POSITION_KINDS, TIED_EMBEDDINGS, Settings
from ..text.scores import Scores, Translations, score, translations
from ..text.settings import PAIRS_FILE, SETTINGS_FILE, TextSettings
from .formatting import printable
from .history import Row, TrainingLog
from .log_parser import read_log

if TYPE_CHECKING:
    from ..parsing.scores import TreeScores

#: The logs of fairseq-generate in a run's directory, and the split that each one translates.
GENERATED = {"test": "generate.log", "valid": "generate-valid.log"}
#: Bytes of the largest log of fairseq-generate that is scored.
MOST_BYTES = 1 << 28
#: Settings that are sizes, and the largest that any is taken to be.
SIZES, LARGEST = ("N", "d_model", "d_ff", "h", "d_k", "d_v", "neighbourhood"), 10**6


@dataclass
class Evaluation:
    """A translated split, as raw text, and its scores."""

    text: Translations
    scores: Scores


@dataclass
class Run:
    """All that is known of a run; what is missing is empty, and named in `missing` or `faults`."""

    name: str
    path: Path
    log: TrainingLog = field(default_factory=TrainingLog)
    rows: list[Row] = field(default_factory=list)
    architecture: str | None = None
    settings: Settings | None = None
    text: TextSettings | None = None
    pairs: str | None = None
    evaluations: dict[str, Evaluation] = field(default_factory=dict)
    #: The same of a run that was trained on trees.
    trees: dict[str, "TreeScores"] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def fact(self, name: str) -> int | None:
        """Return a number that the log says."""
        value = self.log.facts.get(name)
        return None if value is None else int(value.replace(",", ""))


def read_run(path: Path) -> Run:
    """Return what is known of a run. Raises InputError if there is nothing under that name."""
    if path.is_file():
        run = Run(printable(path.name), path)
        _log(run, path)
        _settings(run)
        return run
    if not path.is_dir():
        what = "is no regular file" if path.exists() else "is missing"
        raise InputError(
            f"{path} {what}: give a directory that a recipe made, or the log of fairseq-train"
        )
    run = Run(printable(path.resolve().name), path)
    for part in (_log, _text, _settings, _evaluations):
        part(run, path)
    if len(run.missing) == 4 and not run.faults:  # log, text settings, checkpoint, translation
        raise InputError(f"{path} holds no run: neither train.log nor data nor model.pt is there")
    return run


def _try(run: Run, work: Callable[[], Any], name: str) -> Any:
    """Return what work returns, None if it cannot be done; the run says why."""
    try:
        return work()
    except FileNotFoundError as error:
        missing = Path(str(error.filename or name))
        run.missing.append(name if missing.name in name else f"{name}, for want of {missing.name}")
    except (OSError, ValueError, OmegaConfBaseException) as error:  # InputError is a ValueError
        said = str(error).splitlines()[0] if str(error) else repr(error)
        run.faults.append(printable(f"{name}: {said}")[:500])
    return None


def _regular(path: Path) -> Path:
    """Return a path. Raises InputError for a pipe or a device, which might never end."""
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is no regular file")
    return path


def _log(run: Run, path: Path) -> None:
    path, name = (path / "train.log", "train.log") if path.is_dir() else (path, run.name)
    run.log = _try(run, lambda: read_log(_regular(path)), name) or run.log
    run.faults += [f"{name}: {fault}" for fault in run.log.faults]
    if not run.missing and not any(run.log.curves()):
        run.faults.append(f"{name}: no record of fairseq-train (--log-format simple or json)")


def _text(run: Run, path: Path) -> None:
    data = path / "data"
    run.text = _try(
        run, lambda: TextSettings.load(_regular(data / SETTINGS_FILE)), f"data/{SETTINGS_FILE}"
    )
    if (data / PAIRS_FILE).is_file():
        with open(data / PAIRS_FILE, encoding="utf-8", errors="replace") as file:
            run.pairs = file.readline(1000).strip()


def _settings(run: Run, path: Path | None = None) -> None:
    """Take the settings from the log, which shows them beside the paper's, or from a checkpoint."""
    run.rows, run.architecture = run.log.settings, run.log.architecture
    if not run.rows and path is not None:
        checkpoints = (path / "checkpoints" / "checkpoint_last.pt", path / "model.pt")
        found = [file for file in checkpoints if file.is_file()]
        if not found:
            run.missing.append("checkpoints/checkpoint_last.pt")
        elif table := _try(run, lambda: _of_checkpoint(found[0]), found[0].name):
            run.architecture, run.rows = table
    if run.rows:
        run.settings = _try(run, lambda: typed(run.rows), "settings")


def _of_checkpoint(path: Path) -> tuple[str, list[Row]]:
    """Return the architecture and the table of settings of a checkpoint."""
    parts, architecture = configuration(glance(path))
    if architecture is None or architecture not in ARCHITECTURES:
        raise InputError(f"its architecture is {architecture}, none of the plugin's")
    parts = {**parts, "model": {**vars(parts["model"]), "_name": architecture}}
    needed = ("model", *boundary_log.GROUPS)
    cfg = OmegaConf.create({name: parts.get(name) for name in needed})
    rows = boundary_log.compare(cfg)
    return architecture, [Row(name, str(paper), str(value)) for name, paper, value in rows]


def typed(rows: list[Row]) -> Settings:
    """Return the run's side of a table of settings. Raises InputError for a value of another kind.

    A row that the run does not have ("-") stays the paper's base.
    """
    known = {option.name: option for option in fields(Settings)}
    values: dict[str, Any] = {}
    for name, _, text in rows:
        if name in known and text != "-":
            values[name] = _value(name, text, known[name].default)
    found = Settings(**values)
    found.head_widths()
    return found


def _value(name: str, text: str, default: Any) -> Any:
    choices = {"positions": POSITION_KINDS, "tie_embeddings": TIED_EMBEDDINGS}.get(name)
    value: Any = text
    if not choices and len(text) < 100:
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            value = ast.literal_eval(text)
    if choices:
        fits = value in choices
    elif name in SIZES:
        optional = default is None and value is None
        fits = optional or (type(value) is int and 1 <= value <= LARGEST)
    elif isinstance(default, float):
        fits = type(value) in (int, float) and math.isfinite(value)
    else:
        fits = isinstance(value, type(default))
    if not fits:
        raise InputError(f"{name} is {text[:80]!r}, which is no such setting")
    return value


def _evaluations(run: Run, path: Path) -> None:
    there = {split: name for split, name in GENERATED.items() if (path / name).exists()}
    trees = run.text is not None and run.text.holds_trees
    for split, name in (there or {"test": GENERATED["test"]}).items():  # one of them will do
        if found := _try(run, partial(_evaluate, path / name, split, trees), name):
            (run.trees if trees else run.evaluations)[split] = found


def _evaluate(log: Path, split: str, trees: bool) -> "Evaluation | TreeScores":
    if _regular(log).stat().st_size > MOST_BYTES:
        raise InputError(f"more than {MOST_BYTES:,} bytes: score it with aiayn score")
    if trees:
        from ..parsing.scores import score_log

        return score_log(log, log.parent / "data", split)
    text = translations(log, log.parent / "data", split)
    return Evaluation(text, score(text.system, text.references, text.target_lang))
