"""`aiayn average`: §6.1, one model from the mean of a run's last checkpoints."""

import argparse
import re
from pathlib import Path
from typing import Any

from ..checkpoint import average, save

PATTERNS = {
    "updates": re.compile(r"checkpoint_\d+_(\d+)\.pt"),
    "epochs": re.compile(r"checkpoint(\d+)\.pt"),
}


def add_parser(commands: Any) -> None:
    """Add `average` to the commands of `aiayn`; the options are those of fairseq's script."""
    parser = commands.add_parser(
        "average",
        help="average the last checkpoints of a run into one model",
        description="Write the mean of several checkpoints' weights, in float32, as one "
        "checkpoint that every fairseq command loads. The paper takes the last 5 of a base run, "
        "the last 20 of a big one.",
    )
    parser.add_argument(
        "--inputs", nargs="+", required=True, metavar="PATH", type=Path,
        help="a run's --save-dir, with one of the options below; or the checkpoints themselves",
    )
    last = parser.add_mutually_exclusive_group()
    last.add_argument("--num-update-checkpoints", type=int, metavar="N", default=None,
                      help="the last N checkpoints of --save-interval-updates")
    last.add_argument("--num-epoch-checkpoints", type=int, metavar="N", default=None,
                      help="the last N checkpoints of epochs")
    parser.add_argument("--checkpoint-upper-bound", type=int, metavar="N", default=None,
                        help="leave out checkpoints after update (or epoch) N")
    parser.add_argument("--output", required=True, metavar="FILE", type=Path)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Choose, average and write. Raises ValueError or OSError for what cannot be averaged."""
    paths = choose(args)
    print("averaging", *paths, sep="\n  ", flush=True)
    save(average(paths), args.output)
    print(f"the mean of {len(paths)} checkpoints is in {args.output}")


def choose(args: argparse.Namespace) -> list[Path]:
    """The checkpoints that the options name, oldest first."""
    number, kind = args.num_update_checkpoints, "updates"
    if args.num_epoch_checkpoints is not None:
        number, kind = args.num_epoch_checkpoints, "epochs"
    if number is None:
        if args.checkpoint_upper_bound is not None:
            raise ValueError("--checkpoint-upper-bound needs --num-update-checkpoints or "
                             "--num-epoch-checkpoints")
        return args.inputs
    if number < 1:
        raise ValueError(f"cannot average {number} checkpoints")
    if len(args.inputs) > 1:
        raise ValueError("--inputs takes one directory where a number of checkpoints is given")
    directory = args.inputs[0]
    found = []
    for path in directory.iterdir():
        match = PATTERNS[kind].fullmatch(path.name)
        if match and int(match[1]) <= (args.checkpoint_upper_bound or int(match[1])):
            found.append((int(match[1]), path))
    if len(found) < number:
        raise ValueError(f"{directory} holds {len(found)} checkpoints of {kind}, not {number}")
    return [path for _, path in sorted(found)[-number:]]
