"""How long a run will take, after its first updates."""

import time

#: Updates to time before an estimate; fewer suffice after this number of seconds.
UPDATES, SECONDS = 20, 60


class RemainingTime:
    """Times the first updates of a process, except the very first, which also sets up memory."""

    def __init__(self, last_update: int) -> None:
        """last_update: the number of the last update of the run; 0: no estimate."""
        self.last_update = last_update
        #: When each update began, in seconds; None once no estimate is due.
        self._starts: list[float] | None = [] if last_update else None
        self._update: int | None = None

    def begin_update(self, update: int) -> str | None:
        """Return the estimate when first available, else None.

        update: the number of the current update; repeated calls for the same one are ignored.
        """
        if update == self._update or self._starts is None:
            return None
        self._update = update
        self._starts.append(time.monotonic())
        if len(self._starts) < 3:
            return None
        timed, seconds = len(self._starts) - 2, self._starts[-1] - self._starts[1]
        if timed < UPDATES and seconds < SECONDS:
            return None
        self._starts = None
        remaining = self.last_update - update + 1
        return (
            f"{timed} updates took {duration(seconds)}: the remaining {remaining:,} will take "
            f"about {duration(remaining * seconds / timed)}"
        )


def duration(seconds: float) -> str:
    """Return a time in its largest unit and the next one: "3 min 51 s", "3 d 12 h"."""
    parts: list[str] = []
    rest = round(seconds)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        count, rest = divmod(rest, size)
        if count or parts:
            parts.append(f"{count} {unit}")
    return " ".join(part for part in parts[:2] if part[:2] != "0 ") or "0 s"
