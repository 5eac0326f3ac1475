"""`aiayn average`: §6.1, one model from the mean of a run's last checkpoints."""

import argparse
from pathlib import Path

from ..checkpoints.averaging import average, last_checkpoints
from ..checkpoints.safe_load import save
from ..errors import InputError

HELP = "average the last checkpoints of a run into one model"
DESCRIPTION = (
    "Write the mean of several checkpoints' weights, in float32, as one "
    "checkpoint that every fairseq command loads. The paper takes the last 5 of a base run, "
    "the last 20 of a big one."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `aiayn average`."""
    parser.add_argument(
        "--inputs",
        nargs="+",
        required=True,
        metavar="PATH",
        type=Path,
        help="a run's --save-dir, with one of the options below; or the checkpoints themselves",
    )
    last = parser.add_mutually_exclusive_group()
    last.add_argument(
        "--num-update-checkpoints",
        type=int,
        metavar="N",
        default=None,
        help="the last N checkpoints of --save-interval-updates",
    )
    last.add_argument(
        "--num-epoch-checkpoints",
        type=int,
        metavar="N",
        default=None,
        help="the last N checkpoints of epochs",
    )
    parser.add_argument(
        "--checkpoint-upper-bound",
        type=int,
        metavar="N",
        default=None,
        help="leave out checkpoints after update (or epoch) N",
    )
    parser.add_argument("--output", required=True, metavar="FILE", type=Path)


def run(args: argparse.Namespace) -> None:
    """Choose, average and write. Raises InputError or OSError for what cannot be averaged."""
    paths = choose(args)
    print("averaging", *paths, sep="\n  ", flush=True)
    save(average(paths), args.output)
    print(f"the mean of {len(paths)} checkpoints is in {args.output}")


def choose(args: argparse.Namespace) -> list[Path]:
    """Return the checkpoints that the options name, oldest first."""
    bound = args.checkpoint_upper_bound
    counts = {"updates": args.num_update_checkpoints, "epochs": args.num_epoch_checkpoints}
    for kind, count in counts.items():
        if count is not None:
            if len(args.inputs) > 1:
                raise InputError("--inputs takes one directory with a number of checkpoints")
            return last_checkpoints(args.inputs[0], kind, count, bound)
    if bound is not None:
        raise InputError(
            "--checkpoint-upper-bound needs --num-update-checkpoints or --num-epoch-checkpoints"
        )
    return args.inputs
