"""Average the last checkpoints of a run into one model.

The weights are averaged as in §6.1, and every fairseq command loads the result.
The paper averages the last 5 checkpoints of a base model and the last 20 of a big one.
"""

import argparse
from functools import partial
from itertools import combinations
from pathlib import Path

from ..checkpoints.averaging import average, find_last_checkpoints
from ..checkpoints.safe_load import save
from ..errors import InputError


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    inputs_help = "checkpoints; or a run's --save-dir, with one of the --num-*-checkpoints options"
    add("--inputs", nargs="+", required=True, metavar="PATH", type=Path, help=inputs_help)
    add_last = partial(parser.add_mutually_exclusive_group().add_argument, type=int, metavar="N")
    updates_help = "average the last N checkpoints of --save-interval-updates"
    add_last("--num-update-checkpoints", help=updates_help)
    add_last("--num-epoch-checkpoints", help="average the last N epoch checkpoints")
    bound_help = "ignore checkpoints after update (or epoch) N"
    add("--checkpoint-upper-bound", type=int, metavar="N", help=bound_help)
    add("--output", required=True, metavar="FILE", type=Path, help="checkpoint to write")


def run(args: argparse.Namespace) -> None:
    """Average checkpoints. Raises InputError or OSError if they cannot be averaged."""
    if args.output.is_dir():
        raise InputError(f"{args.output} is a directory: give a file name")
    paths = _select_checkpoints(args)
    print("averaging", *paths, sep="\n  ", flush=True)
    save(average(paths), args.output)
    print(f"the mean of {len(paths)} checkpoints is in {args.output}")


def _select_checkpoints(args: argparse.Namespace) -> list[Path]:
    """Return the selected checkpoints, oldest first."""
    counts = {"updates": args.num_update_checkpoints, "epochs": args.num_epoch_checkpoints}
    for kind, count in counts.items():
        if count is not None:
            if len(args.inputs) > 1:
                raise InputError(f"--num-{kind[:-1]}-checkpoints takes one directory as --inputs")
            return find_last_checkpoints(args.inputs[0], kind, count, args.checkpoint_upper_bound)
    if args.checkpoint_upper_bound is not None:
        raise InputError(
            "--checkpoint-upper-bound needs --num-update-checkpoints or --num-epoch-checkpoints"
        )
    if directories := [path for path in args.inputs if path.is_dir()]:
        raise InputError(
            f"{directories[0]} is a directory: give --num-update-checkpoints N or "
            "--num-epoch-checkpoints N"
        )
    for first, second in combinations(args.inputs, 2):
        if first.exists() and second.exists() and first.samefile(second):
            raise InputError(
                f"{first} and {second} are the same checkpoint, which would count twice: give only "
                "one"
            )
    return args.inputs
