"""`aiayn benchmark`: measurements, both sides of every ratio in one run."""

from typing import Any

from ..benchmarks import attention, train, translate


def add_parser(commands: Any) -> None:
    """Add `benchmark` to the commands of `aiayn`."""
    parser = commands.add_parser("benchmark", help="measure speed and memory")
    kinds = parser.add_subparsers(title="what to measure", required=True, metavar="WHAT")
    for kind in (attention, train, translate):
        kind.add_parser(kinds)
