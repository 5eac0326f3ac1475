"""Downloads by curl: from the first mirror that works, resumed after interruptions, and verified.

curl is maintained, installed nearly everywhere, and also used by the recipes in examples/. It
handles redirects, time-outs and protocols. This module chooses the mirror, retries, limits the
size and compares checksums. curl writes to a pipe, so it ends when this process does.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

from ..atomic import write_file_atomically
from ..errors import InputError
from ..text.manifest import hash_file
from .console import progress, say

TIMEOUT = "60"  # seconds without data
#: Seconds to wait before each retry of a mirror. New data starts the sequence again.
PAUSES = (1.0, 4.0, 16.0, 64.0)
CURL = (
    *("curl", "--disable", "--fail", "--location", "--silent", "--show-error", "--globoff"),
    *("--proto", "=http,https,ftp,file", "--proto-redir", "=http,https,ftp"),
    *("--connect-timeout", TIMEOUT, "--speed-limit", "1", "--speed-time", TIMEOUT),
)
#: curl's exit codes for a server that cannot resume, for a file above the size limit, and for other
#: errors that a retry would not avoid: bad URL, unsupported protocol, missing file (file, ftp).
CANNOT_RESUME, TOO_LARGE, PERMANENT = 33, 63, {1, 3, 37, 63, 78}


class Download(NamedTuple):
    """A file to fetch: its local name, its mirrors in order, and its published size and checksums.

    The size is in bytes.
    """

    name: str
    addresses: tuple[str, ...]
    size: int | None = None
    sha256: str | None = None
    md5: str | None = None

    @property
    def checksums(self) -> dict[str, str]:
        """The published checksums by algorithm."""
        values = {"sha256": self.sha256, "md5": self.md5}
        return {name: value for name, value in values.items() if value}


class Unavailable(InputError):
    """No mirror provided the file."""


def fetch(
    download: Download, folder: Path, record: Path, pauses: tuple[float, ...] = PAUSES
) -> None:
    """Fetch a file into the folder unless it is there, and verify it.

    The SHA-256 of a file without a published checksum is written to the JSON file `record`, and
    later downloads must match it.

    Raises Unavailable if no mirror provided the file, InputError if the folder contains a different
    file of this name, and OSError if the file cannot be written. The next call resumes an
    incomplete download.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / download.name
    recorded = _load(record).get(download.name)
    expected = download.checksums or ({"sha256": recorded} if recorded else {})
    if not path.is_file():
        _fetch_from_mirrors(download, path, expected, pauses)
    elif problem := _verify(path, download.size, expected):
        accept = "" if download.checksums else f", or its entry in {record} to accept it"
        raise InputError(f"{path} {problem}; delete it to fetch it again{accept}")
    if download.checksums:
        verdict = f"verified by its published {' and '.join(download.checksums)}"
    elif recorded:
        verdict = "verified by the sha256 recorded at its first download"
    else:
        _save(_load(record) | {download.name: hash_file(path)}, record)
        verdict = "no checksum is published; recorded its sha256 for later downloads"
    say(f"{download.name}: {verdict}")


def find_checksum(download: Download, record: Path) -> str | None:
    """Return a published checksum of the file, else the recorded one, else None."""
    published = next(iter(download.checksums.values()), None)
    return published or _load(record).get(download.name)


def reject(download: Download, folder: Path, record: Path) -> str:
    """Rename a broken file, remove its record, and return advice for an error message.

    A file with a published checksum is kept: another download would give the same bytes.
    """
    if download.checksums:
        return "although its checksum is the published one"
    path = folder / download.name
    broken = path.rename(path.with_name(f"{path.name}.broken"))
    _save({name: value for name, value in _load(record).items() if name != path.name}, record)
    return f"it was renamed to {broken.name}: run the command again to fetch it again"


def _load(record: Path) -> dict[str, str]:
    with contextlib.suppress(OSError, ValueError):
        return dict(json.loads(record.read_bytes()))
    return {}


def _save(checksums: dict[str, str], record: Path) -> None:
    with write_file_atomically(record) as temporary:
        temporary.write_text(json.dumps(checksums, indent=2) + "\n")


def _verify(path: Path, size: int | None, expected: dict[str, str]) -> str | None:
    """Return how a file differs from its size and checksums, or None if it does not."""
    if size is not None and _size(path) != size:
        return f"has {_size(path):,} bytes, not {size:,}"
    for algorithm, value in expected.items():
        if (actual := hash_file(path, algorithm)) != value:
            return f"has the {algorithm} {actual}, not {value}"
    return None


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _fetch_from_mirrors(
    download: Download, path: Path, expected: dict[str, str], pauses: tuple[float, ...]
) -> None:
    partial = Partial(path, download.size, resumable=bool(expected))
    problems = []
    for address in download.addresses:
        while True:
            resumed = partial.done > 0
            if problem := partial.complete(address, pauses):
                break
            if not (problem := _verify(partial.path, download.size, expected)):
                os.replace(partial.path, path)
                partial.etag.unlink(missing_ok=True)
                return
            partial.discard()
            if not resumed:  # else the wrong bytes may be those of another mirror
                break
        say(f"{address}: {problem}")
        problems.append(f"{address} ({problem})")
        if not expected:  # nothing would detect a mixture of two mirrors
            partial.discard()
    raise Unavailable(
        f"cannot get {download.name}: {'; '.join(problems)}. Run the command again to resume, or "
        f"download {path} by hand"
    )


class Partial:
    """The part of a file that has been downloaded.

    size: of the complete file in bytes, if known. resumable: its checksum is known, so a mixture of
    two versions would be detected. Otherwise a download is resumed only if the server names the
    version of the file, by a strong ETag, and still has this version.
    """

    def __init__(self, path: Path, size: int | None, resumable: bool) -> None:
        self.name, self.size, self.resumable = path.name, size, resumable
        self.path = path.with_name(f"{path.name}.part")
        self.etag = path.with_name(f"{path.name}.etag")

    @property
    def done(self) -> int:
        """The number of bytes downloaded."""
        return _size(self.path)

    def discard(self) -> None:
        """Delete the downloaded bytes."""
        self.path.unlink(missing_ok=True)
        self.etag.unlink(missing_ok=True)

    def complete(self, address: str, pauses: tuple[float, ...]) -> str | None:
        """Download the missing bytes. Return the error of the last attempt, or None."""
        failures, most = 0, self.done
        while True:
            options = self._prepare_to_resume()
            start = self.done
            if start and start == self.size:
                return None
            code, problem = self._run_curl(address, options)
            if code == 0:
                return None
            status = int(match[1]) if (match := re.search(r"error: (\d{3})", problem)) else 0
            if start and (code == CANNOT_RESUME or status == 416):  # 416: no bytes are missing
                self.discard()
                continue
            # Server errors, time-outs and too many requests may be temporary.
            if code in PERMANENT or 400 <= status < 500 and status not in (408, 429):
                return problem
            failures = 0 if self.done > most else failures + 1
            most = max(most, self.done)
            if failures > len(pauses):
                return problem
            pause = pauses[max(failures - 1, 0)]
            say(f"{address}: {problem}; trying again in {pause:g} s")
            time.sleep(pause)

    def _prepare_to_resume(self) -> list[str]:
        """Return the options of curl to resume, or to start after discarding unusable bytes."""
        version = self.etag.read_text().strip() if self.etag.exists() else ""
        if self.done > (self.size or self.done) or not (self.resumable or version[:1] == '"'):
            self.discard()
        resume = ["--continue-at", str(self.done)] if self.done else []
        if self.resumable:
            return resume
        condition = ["--header", f"If-Range: {version}"]
        return [*resume, *condition] if resume else ["--etag-save", str(self.etag)]

    def _run_curl(self, address: str, options: list[str]) -> tuple[int, str]:
        """Append what curl downloads. Return its exit code and its error message."""
        start = self.done
        limit = self.size or start + shutil.disk_usage(self.path.parent).free
        command = [*CURL, *options, "--max-filesize", str(limit - start), "--url", address]
        with (
            open(self.path, "ab") as file,
            progress(self.name, self.size, initial=start) as add,
            _start(command) as curl,
        ):
            assert curl.stdout and curl.stderr
            try:
                while chunk := curl.stdout.read(1 << 16):
                    if file.tell() + len(chunk) > limit:
                        return TOO_LARGE, f"larger than {limit:,} bytes"
                    file.write(chunk)
                    add(len(chunk))
                os.fsync(file.fileno())
                message = curl.stderr.read().decode(errors="replace").strip()
                curl.wait()
            finally:
                curl.kill()
        if curl.returncode == TOO_LARGE:
            message = f"larger than {limit:,} bytes"
        return curl.returncode, re.sub(r"^curl: \(\d+\) ", "", message.rpartition("\n")[2])


def _start(command: list[str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(command, bufsize=0, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except FileNotFoundError:
        raise InputError(
            "curl is not installed: install it (on Debian and Ubuntu: apt install curl)"
        ) from None
