#!/usr/bin/env python3
"""Run the same commands at another commit and in this tree, and compare what they give.

    python tests/same_as.py COMMIT [--work DIR [--only REGEX]]

For a change that must change no behaviour. Both sides run with the Python and the libraries of this
environment, and on the same data; the models that they load are those of the other commit. Prints
one line a check, and ends with status 1 if one differs.
"""

import argparse
import hashlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[1]
torch.serialization.add_safe_globals([argparse.Namespace])  # fairseq stores its command line
#: A small training of 20 updates, and what is varied; the weights are compared bit by bit. The last
#: one is long enough for sentences that differ: its model translates in the checks that follow.
SMALL = (
    "--arch aiayn_tiny --d-model 32 --d-ff 64 --cpu --log-format json --log-interval 1 "
    "--num-workers 0 --max-update 20 --save-interval-updates 10 --warmup-updates 10 "
    "--max-tokens 400 --tokens-per-update 700"
)
TRAININGS = {
    "float32": "",
    "bf16": "--bf16",
    "checkpointed": "--checkpoint-activations",
    "restricted": "--neighbourhood 5",
    "learned, untied, biases": "--positions learned --tie-embeddings none --attention-bias --d-k 4",
    "fairseq's positions": "--positions fairseq",
    "fairseq's words": "--encoder-layers 1 --decoder-layers 1 --label-smoothing 0 --dropout 0.2",
    "fairseq's own parts": "--optimizer adam --adam-betas (0.9,0.98) --lr-scheduler inverse_sqrt "
    "--lr 0.001 --criterion label_smoothed_cross_entropy",
    "longer": "--d-model 128 --d-ff 256 --dropout 0 --max-update 400 --warmup-updates 150 "
    "--max-tokens 1500 --tokens-per-update 1500 --save-interval-updates 400",
}
SEARCHES = {
    "the paper's": "",
    "fairseq's rules": "--length-penalty fairseq --lenpen 0.5 --nbest 3",
    "fairseq's own": "--task translation --required-batch-size-multiple 1 --max-len-b 20",
    "alignments": "--print-alignment --nbest 2 --unkpen -1 --min-len 4",
}
HELP = {
    "fairseq_cli.train": "x --user-dir aiayn_plugin --arch aiayn_base --help",
    "fairseq_cli.generate": "x --user-dir aiayn_plugin --help",
    "aiayn_plugin.cli": "--help",
    **{
        f"aiayn_plugin.cli {name}": "--help"
        for name in (
            "architectures",
            "average",
            "benchmark attention",
            "benchmark train",
            "benchmark translate",
            "bundle",
            "configs",
            "convert",
            "export",
            "score",
            "translate",
        )
    },
}
NUMBER = r"-?\d+\.\d+"
SENTENCES = "Monday, May 1, 2023\n5 hours and 3 minutes\n\nMar@@ ch 3\n"


class Side:
    """One of the two trees: its commands run in it, and their results go to a directory."""

    def __init__(self, tree: Path, work: Path) -> None:
        self.tree, self.work = tree, work
        work.mkdir(parents=True, exist_ok=True)

    def run(self, command: str, stdin: str = "", *more: str | Path) -> str:
        """Return what `python -m …` or `python ….py` prints."""
        words = command.split()
        start = words[:1] if words[0].endswith(".py") else ["-m", *words[:1]]
        done = subprocess.run(
            [sys.executable, *start, *words[1:], *map(str, more)],
            input=stdin,
            cwd=self.tree,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(self.tree), "PYTHONWARNINGS": "ignore"},
        )
        if done.returncode and "--help" not in words:
            sys.exit(f"{self.tree}: {command} failed:\n{done.stderr[-3000:]}")
        return done.stdout + done.stderr


def weights(path: Path) -> dict[str, str]:
    """Return a digest of each weight of a checkpoint, but for buffers of whole numbers."""
    model = torch.load(path, weights_only=True)["model"]
    return {
        name: hashlib.sha256(weight.numpy().tobytes()).hexdigest()
        for name, weight in model.items()
        if weight.is_floating_point()
    }


def files(folder: Path) -> dict[str, str]:
    """Return a digest of each file, but for those that hold a checkpoint."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
        if path.suffix != ".pt"
    }


def lines(output: str, pattern: str) -> list[str]:
    """Return the lines that begin with a pattern."""
    return [line for line in output.splitlines() if re.match(pattern, line)]


def flags(output: str) -> set[str]:
    """Return the options that a help text names, but for the plugin's own list at its end."""
    fairseqs = output.partition(" of aiayn_plugin")[0]
    return set(re.findall(r"(?m)^ {2,}(?:-\w, )?(--[\w-]+)", fairseqs))


def prepare(side: Side, old: Path) -> Any:
    """Make the corpus and the data."""
    side.run(
        "preprocess/cldr.py --train 1500 --valid 100 --test 60", "", "--dest", side.work / "raw"
    )
    splits = [f"--{split}pref={side.work}/raw/{split}" for split in ("train", "valid", "test")]
    side.run(
        "preprocess/prepare.py -s en -t de --merges 400",
        "",
        "--destdir",
        side.work / "data",
        *splits,
    )
    return files(side.work / "raw"), files(side.work / "data")


def train(side: Side, old: Path, name: str) -> Any:
    """Train for 20 updates or more, from the beginning."""
    shutil.rmtree(side.work / name, ignore_errors=True)
    output = side.run(
        f"fairseq_cli.train {old}/data --user-dir aiayn_plugin {SMALL} {TRAININGS[name]}",
        "",
        "--save-dir",
        side.work / name,
    )
    losses = re.findall(r'train_inner .*"loss": "([\d.]+)"', output)
    valid = re.findall(r'"valid_loss": "([\d.]+)"', output)
    assert len(losses) >= 20 and valid, output[-2000:]
    return losses, valid, weights(side.work / name / "checkpoint_last.pt")


def model_of(old: Path) -> str:
    """Return the arguments of a command that loads the other commit's model."""
    return f"{old}/data --user-dir aiayn_plugin --cpu --path {old}/longer/checkpoint_last.pt"


def generate(side: Side, old: Path, more: str = "") -> Any:
    """Translate the test set by fairseq-generate."""
    output = side.run(
        f"fairseq_cli.generate {model_of(old)} --gen-subset test --batch-size 20 {more}"
    )
    (side.work / "generate.log").write_text(output)
    return lines(output, "[HDA]-|Generate")


def interactive(side: Side, old: Path) -> Any:
    """Translate typed lines by fairseq-interactive."""
    return lines(side.run(f"fairseq_cli.interactive {model_of(old)}", SENTENCES), "[HDP]-")


def validate(side: Side, old: Path) -> Any:
    """Measure the loss by fairseq-validate."""
    output = side.run(f"fairseq_cli.validate {model_of(old)} --max-tokens 2000 --log-format json")
    return re.findall(r'"valid_\w+": "[\d.]+"', output)


def hydra(side: Side, old: Path) -> Any:
    """Train for 3 updates by fairseq-hydra-train."""
    configs = side.run("aiayn_plugin.cli configs").strip()
    output = side.run(
        f"fairseq_cli.hydra_train --config-dir {configs} --config-name aiayn_base "
        f"task.data={old}/data common.cpu=true common.log_format=json common.log_interval=1 "
        "model.N=1 model.d_model=32 model.d_ff=64 task.tokens_per_update=500 "
        f"optimization.max_update=3 checkpoint.save_dir={side.work}/hydra "
        f"hydra.run.dir={side.work}/hydra_log"
    )
    assert "the paper's settings" in output
    return weights(side.work / "hydra" / "checkpoint_last.pt")


def convert(side: Side, old: Path) -> Any:
    """Average, convert to fairseq's model and back."""
    names = "model.pt", "fairseqs.pt", "back.pt"
    average, fairseqs, back = (side.work / name for name in names)
    side.run(
        "aiayn_plugin.cli average --num-update-checkpoints 2",
        "",
        "--inputs",
        old / "fairseq's positions",
        "--output",
        average,
    )
    for source, target in ((average, fairseqs), (fairseqs, back)):
        side.run("aiayn_plugin.cli convert", "", "--input", source, "--output", target)
    return [weights(side.work / name) for name in names]


def raw_text(side: Side, old: Path) -> Any:
    """Bundle, export, translate raw text and score."""
    recipe = old / "recipe"
    if not recipe.exists():
        recipe.mkdir()
        (recipe / "data").symlink_to(old / "data")
        (recipe / "model.pt").symlink_to(old / "longer" / "checkpoint_last.pt")
    bundle, export = side.work / "bundle", side.work / "export"
    side.run(f"aiayn_plugin.cli bundle {recipe}", "", "--output", bundle)
    side.run(f"aiayn_plugin.cli export {bundle} --quantization int8", "", "--output", export)
    translations = [
        side.run(f"aiayn_plugin.cli translate {place} --device cpu {more}", SENTENCES)
        for place, more in ((recipe, ""), (old / "bundle", "--nbest 2 --lenpen 1"))
    ]
    generate(side, old)
    scores = side.run(
        "aiayn_plugin.cli score", "", side.work / "generate.log", "--data", old / "data"
    )
    return files(bundle), weights(bundle / "model.pt"), files(export), translations, scores


def options(side: Side, old: Path, command: str) -> Any:
    """Ask a command for its options."""
    return flags(side.run(f"{command} {HELP[command]}"))


#: What is compared, in this order: later checks use what the first ones made.
CHECKS: dict[str, Callable[[Side, Path], Any]] = {
    "preprocess": prepare,
    **{f"train, {name}": partial(train, name=name) for name in TRAININGS},
    **{f"generate, {name}": partial(generate, more=more) for name, more in SEARCHES.items()},
    "interactive": interactive,
    "validate": validate,
    "hydra": hydra,
    "average, convert and back": convert,
    "bundle, export, translate, score": raw_text,
    "architectures": lambda side, old: side.run("aiayn_plugin.cli architectures"),
    **{f"options of {command}": partial(options, command=command) for command in HELP},
}


def same(one: str, other: str) -> bool:
    """Return whether two results are equal, but for the last digits of numbers with a point.

    The order of a product and a division may change the last bits of a score.
    """
    texts = [re.sub(NUMBER, "#", result) for result in (one, other)]
    numbers = (map(float, re.findall(NUMBER, result)) for result in (one, other))
    return texts[0] == texts[1] and all(
        math.isclose(a, b, rel_tol=1e-5, abs_tol=2e-4) for a, b in zip(*numbers, strict=True)
    )


def main() -> None:
    """Compare as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("commit")
    parser.add_argument("--work", type=Path, help="keep the results there")
    parser.add_argument("--only", default="", help="checks to run again, on results that are there")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = (args.work or Path(temporary)).resolve()
        tree = work / "tree"
        tree.mkdir(parents=True, exist_ok=True)
        archive = subprocess.run(
            ["git", "archive", args.commit], cwd=ROOT, check=True, capture_output=True
        ).stdout
        subprocess.run(["tar", "-x", "-C", str(tree)], input=archive, check=True)
        before, now = Side(tree, work / "before"), Side(ROOT, work / "now")
        different = 0
        for name in filter(re.compile(args.only).match, CHECKS):
            check = CHECKS[name]
            results = [
                json.dumps(check(side, before.work), sort_keys=True, default=sorted)
                for side in (before, now)
            ]
            different += not same(*results)
            print(f"{'same' if same(*results) else 'DIFFERENT':<10} {name}", flush=True)
    sys.exit(different > 0)


if __name__ == "__main__":
    main()
