"""Downloads by curl: from the first mirror that works, resumed after interruptions, and verified.

curl is maintained, installed nearly everywhere, and also used by the recipes in examples/. It
handles redirects, time-outs and protocols. This module chooses the mirror, retries, limits the
size and compares checksums. curl writes to a pipe, so it ends when this process does.
"""

import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

from ..errors import InputError
from ..text.manifest import hash_file
from .console import progress, say

TIMEOUT = "60"  # seconds without data
#: Seconds to wait before each retry of a mirror. New data starts the sequence again.
RETRY_DELAYS = (1.0, 4.0, 16.0, 64.0)
CURL = (
    *("curl", "--disable", "--fail", "--location", "--silent", "--show-error", "--globoff"),
    *("--proto", "=http,https,ftp,file", "--proto-redir", "=http,https,ftp"),
    *("--connect-timeout", TIMEOUT, "--speed-limit", "1", "--speed-time", TIMEOUT),
)
#: curl's exit codes for an unknown host, a server that cannot resume, a file above the size limit,
#: and errors that a retry would not avoid: bad URL, unsupported protocol, missing file (file, ftp).
CANNOT_RESOLVE, CANNOT_RESUME, TOO_LARGE, PERMANENT = 6, 33, 63, {1, 3, 37, 63, 78}


class Download(NamedTuple):
    """A file to fetch: its local name, its mirrors in order, its checksums, and its size if known.

    It has at least one checksum, sha256 or md5, by algorithm. The size is in bytes.
    """

    name: str
    urls: tuple[str, ...]
    checksums: dict[str, str]
    size: int | None = None


class DownloadError(InputError):
    """No mirror provided the file."""


def fetch(download: Download, folder: Path) -> None:
    """Fetch a file into the folder unless it is there, and verify it.

    Raises DownloadError if no mirror provided the file, InputError if the folder contains a
    different file of this name, and OSError if the file cannot be written. The next call resumes
    an incomplete download.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / download.name
    if not path.is_file():
        _fetch_from_mirrors(download, path)
    elif problem := _verify(path, download):
        raise InputError(f"{path} {problem}; delete it to fetch it again")
    say(f"{download.name}: verified by its {' and '.join(download.checksums)}")


def _verify(path: Path, download: Download) -> str | None:
    """Return how a file differs from its size and checksums, or None if it does not."""
    if download.size is not None and _size(path) != download.size:
        return f"has {_size(path):,} bytes, not {download.size:,}"
    for algorithm, value in download.checksums.items():
        if (actual := hash_file(path, algorithm)) != value:
            return f"has the {algorithm} {actual}, not {value}"
    return None


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _fetch_from_mirrors(download: Download, path: Path) -> None:
    # May be resumed from any mirror: the checksum detects a mixture of two versions.
    partial = path.with_name(f"{path.name}.part")
    problems = []
    for url in download.urls:
        while True:
            resumed = _size(partial) > 0
            if problem := _complete(partial, url, download.size):
                break
            if not (problem := _verify(partial, download)):
                os.replace(partial, path)
                return
            partial.unlink()
            if not resumed:  # otherwise the bad bytes may be another mirror's
                break
        say(f"{url}: {problem}")
        problems.append(f"{url} ({problem})")
    raise DownloadError(
        f"cannot download {download.name}: {'; '.join(problems)}. Rerun the command to resume, or "
        f"download the file by hand and save it as {path}"
    )


def _complete(partial: Path, url: str, size: int | None) -> str | None:
    """Download the missing bytes of a file. Return the error of the last attempt, or None.

    size: of the complete file in bytes, if known.
    """
    failures, most = 0, _size(partial)
    while True:
        start = _size(partial)
        if size and start >= size:
            return None
        code, problem = _run_curl(partial, url, size)
        if code == 0:
            return None
        status = int(match[1]) if (match := re.search(r"error: (\d{3})", problem)) else 0
        if start and (code == CANNOT_RESUME or status == 416):  # 416: past the end
            partial.unlink()
            continue
        done = _size(partial)
        # Server errors, time-outs and too many requests may be temporary.
        is_offline = code == CANNOT_RESOLVE and not done
        if is_offline or code in PERMANENT or 400 <= status < 500 and status not in (408, 429):
            return problem
        failures = 0 if done > most else failures + 1
        most = max(most, done)
        if failures > len(RETRY_DELAYS):
            return problem
        pause = RETRY_DELAYS[max(failures - 1, 0)]
        say(f"{url}: {problem}; trying again in {pause:g} s")
        time.sleep(pause)


def _run_curl(partial: Path, url: str, size: int | None) -> tuple[int, str]:
    """Append what curl downloads. Return its exit code and its error message."""
    start = _size(partial)
    resume = ["--continue-at", str(start)] if start else []
    limit = size or start + shutil.disk_usage(partial.parent).free
    command = [*CURL, *resume, "--max-filesize", str(limit), "--url", url]
    with (
        open(partial, "ab") as file,
        progress(partial.stem, size, initial=start) as add,
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
