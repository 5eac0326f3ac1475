"""Messages and progress on standard error."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

from tqdm import tqdm


def say(message: str) -> None:
    """Print a line to standard error."""
    print(message, file=sys.stderr, flush=True)


@contextlib.contextmanager
def progress(
    activity: str, total: int | None, unit: str = "bytes", initial: int = 0
) -> Iterator[Callable[[int], object]]:
    """Yield a function that adds to the work done and shows the progress.

    On a terminal it advances a bar; otherwise it prints a line for every tenth of the total, in MB
    and with the rate if the unit is bytes. A total of 0 shows nothing; None means unknown.
    """
    done, began = initial, time.monotonic()

    def add(number: int) -> None:
        nonlocal done
        before, done = done, done + number
        if total and done * 10 // total > before * 10 // total:
            state = f"{done:,} of {total:,} {unit}"
            if unit == "bytes":
                rate = (done - initial) / max(time.monotonic() - began, 1e-3)
                state = f"{done / 1e6:,.1f} of {total / 1e6:,.1f} MB, {rate / 1e6:,.1f} MB/s"
            say(f"{activity}: {state}")

    if sys.stderr is not None and sys.stderr.isatty():
        with tqdm(
            desc=activity,
            total=total,
            initial=initial,
            unit="B" if unit == "bytes" else f" {unit}",
            unit_scale=unit == "bytes",
            disable=total == 0,
        ) as bar:
            yield bar.update
    else:
        yield add
