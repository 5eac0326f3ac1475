"""Write the output of a recipe's command to a log, and show its important lines.

COMMAND 2>&1 | python progress.py LOG

Shows warnings, errors and the progress of fairseq-train: a bar on a terminal, otherwise a line for
every tenth of the run. After a stack trace without an error message it shows the end of the log.
"""

import re
import shutil
import signal
import sys
import time
from collections import deque
from contextlib import suppress

from aiayn_plugin.training.remaining_time import duration

#: fairseq-train's log: its configuration, the statistics of updates and of validation.
LAST_UPDATE = re.compile(r"\| fairseq_cli\.train \| \{.*'max_update': (\d+)")
UPDATE = re.compile(r"\| train_inner \|.* loss=([\d.]+),.* num_updates=(\d+)")
VALID = re.compile(r"\| valid on '.*' subset \| loss ([\d.]+)")
SHOWN = re.compile(
    r"(?:\[rank\d+\]: )?((?:[\w.-]+ )?[\w.-]+: (?:error|stopped|stopping|interrupted).*)"
    r"|.*(?:\| (?:WARNING|ERROR) \| .* \| |\| (?=this run has finished|stopped at update))(.*)"
)


class Progress:
    """The progress of a training run, shown on one line."""

    def __init__(self) -> None:
        self.update = self.last = self.shown = 0
        self.loss = self.valid = ""
        self.first: tuple[int, float] | None = None  # the first update seen, and when
        self.is_open = False  # whether the line on the terminal still lacks its newline

    def read(self, line: str) -> None:
        """Take the values in a line of the log, and show them."""
        if match := LAST_UPDATE.search(line):
            self.last = int(match[1])
        elif match := VALID.search(line):
            self.valid = f", validation {match[1]}"
        elif match := UPDATE.search(line):
            self.loss, self.update = f", loss {match[1]}", int(match[2])
            self.first = self.first or (self.update, time.monotonic())
        else:
            return
        if sys.stdout.isatty():
            text = str(self)
            size = min(24, max(1, shutil.get_terminal_size().columns - len(text) - 4))
            width = size * self.update // max(self.last, self.update, 1)
            print(f"\r\033[K[{'#' * width:.<{size}}] {text}", end="", flush=True)
            self.is_open = True
        elif self.last and self.update * 10 // self.last > self.shown * 10 // self.last:
            self.shown = self.update
            print(self, flush=True)

    def __str__(self) -> str:
        total = f" of {self.last:,}" if self.last else ""
        text = f"update {self.update:,}{total}{self.loss}{self.valid}"
        begin, began = self.first or (self.update, 0.0)
        if begin < self.update < self.last:
            rate = (self.update - begin) / (time.monotonic() - began)
            text += f", {duration((self.last - self.update) / rate)} left"
        return text

    def end_line(self) -> None:
        """End the line on the terminal."""
        if self.is_open:
            print(flush=True)
        self.is_open = False


def main() -> None:
    """Read standard input to its end. Ctrl-C ends it, by stopping the process that writes it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    progress, end, shown = Progress(), deque[str](maxlen=15), set[str]()
    has_failed = is_explained = False
    with open(sys.argv[1], "ab", buffering=0) as log:
        for line in open(sys.stdin.fileno(), encoding="utf-8", errors="replace", newline="\n"):
            line = line[line.rfind("\r", 0, -2) + 1 :]  # the last state of a progress bar
            with suppress(OSError):  # a full disk must not hide the command's own error
                log.write(line.encode())
            end.append(line)
            has_failed |= line.startswith("Traceback") or ": Traceback" in line
            is_explained |= "KeyboardInterrupt" in line  # Ctrl-C before the plugin is loaded
            progress.read(line)
            if match := SHOWN.match(line):
                is_explained |= match[1] is not None
                message = match[1] or match[2]
            if match and message not in shown:
                shown.add(message)
                progress.end_line()
                print(message, file=sys.stderr, flush=True)
    progress.end_line()
    if has_failed and not is_explained:
        print(*end, f"the full log is in {sys.argv[1]}\n", sep="", end="", file=sys.stderr)


if __name__ == "__main__":
    main()
