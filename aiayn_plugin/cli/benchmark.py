"""`aiayn benchmark`: measurements, both sides of every ratio in one run."""

from typing import Any

from . import benchmark_attention, benchmark_train, benchmark_translate


def add_parser(commands: Any) -> None:
    """Add `benchmark` to the commands of `aiayn`."""
    parser = commands.add_parser("benchmark", help="measure speed and memory")
    kinds = parser.add_subparsers(title="what to measure", required=True, metavar="WHAT")
    for kind in (benchmark_attention, benchmark_train, benchmark_translate):
        kind.add_parser(kinds)
