"""Files from the internet: resumed, tried again, from one mirror after the other, and verified."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import os
import shutil
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from parallel import say
from tqdm import tqdm

from aiayn_plugin.errors import TextError

CHUNK = 1 << 20
TIMEOUT = 60.0  # seconds without a byte
#: Seconds to wait before an address is tried again, each time that it gave nothing new.
PAUSES = (1.0, 4.0, 16.0, 64.0)


class Download(NamedTuple):
    """A file to get: its name here, addresses in the order to try, what is known of it."""

    name: str
    addresses: tuple[str, ...]
    size: int | None = None
    sha256: str | None = None
    md5: str | None = None

    def checksums(self) -> dict[str, str]:
        """The published checksums, by algorithm."""
        known = {"sha256": self.sha256, "md5": self.md5}
        return {name: value for name, value in known.items() if value}


class _Broken(Exception):
    """What one try failed with."""


class _Hopeless(_Broken):
    """What another try at the same address would fail with as well."""


class Unavailable(TextError):
    """A file that no address gave."""


def fetch(download: Download, folder: Path, record: Path) -> None:
    """Get the file, unless it is there, into folder, and keep its SHA-256 in `record`.

    A file that is there is believed if it was verified before and has not been touched since.

    Raises:
        Unavailable: no address gave it; what there is of it stays, to be continued.
        TextError: the file that is there, put there by hand, is another one.
        OSError: it cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / download.name
    recorded = _recorded(record)
    entry = recorded.get(download.name, {})
    if path.is_file():
        stat = path.stat()
        seen = {"stat": [stat.st_size, stat.st_mtime_ns], "published": download.checksums()}
        if seen.items() <= entry.items():
            return
        problem, digest = _verify(path, download, entry.get("sha256"))
        if problem:
            known = "" if download.checksums() else f", or its entry in {record} to accept it"
            raise TextError(f"{path} {problem}; delete it to have it fetched{known}")
    else:
        digest = _get(download, path, entry.get("sha256"))
    stat = path.stat()
    recorded[download.name] = {
        "sha256": digest,
        "stat": [stat.st_size, stat.st_mtime_ns],
        "published": download.checksums(),
    }
    _write(recorded, record)
    say(f"{download.name}: {_how(download, entry)}")


def checksum(download: Download, record: Path) -> str | None:
    """Return a published checksum of the file, or the one recorded; None before its first fetch."""
    published = next(iter(download.checksums().values()), None)
    return published or _recorded(record).get(download.name, {}).get("sha256")


def reject(download: Download, folder: Path, record: Path) -> str:
    """Set aside a file that is broken, unless its published checksum is right, and forget what was
    recorded of it; return what was done, in words."""
    if download.checksums():
        return "although its checksum is the published one"
    path = folder / download.name
    aside = path.rename(path.with_name(f"{path.name}.broken"))
    recorded = _recorded(record)
    recorded.pop(download.name, None)
    _write(recorded, record)
    return f"it is {aside.name} now: start again to fetch it anew"


def _how(download: Download, entry: dict[str, str]) -> str:
    if published := download.checksums():
        return f"verified by its published {' and '.join(published)}"
    if entry:
        return "verified by the sha256 recorded when it was first fetched"
    return "no checksum is published: its sha256 is recorded and holds from now on"


def _recorded(record: Path) -> dict[str, dict]:
    with contextlib.suppress(OSError, ValueError):
        return dict(json.loads(record.read_bytes()))
    return {}


def _write(recorded: dict[str, dict], record: Path) -> None:
    aside = record.with_name(f"{record.name}.part")
    aside.write_text(json.dumps(recorded, indent=2) + "\n")
    aside.rename(record)


def _digests(path: Path) -> dict[str, str]:
    digests = {"sha256": hashlib.sha256(), "md5": hashlib.md5(usedforsecurity=False)}
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            for digest in digests.values():
                digest.update(chunk)
    return {name: digest.hexdigest() for name, digest in digests.items()}


def _verify(path: Path, download: Download, recorded: str | None) -> tuple[str | None, str]:
    """Return what is wrong with the file, None if nothing is, and its SHA-256."""
    if download.size is not None and path.stat().st_size != download.size:
        return f"has {path.stat().st_size:,} bytes, not {download.size:,}", ""
    found = _digests(path)
    wanted = download.checksums() or ({"sha256": recorded} if recorded else {})
    for name, value in wanted.items():
        if found[name] != value:
            return f"has the {name} {found[name]}, not {value}", ""
    return None, found["sha256"]


def _get(download: Download, path: Path, recorded: str | None) -> str:
    """Fetch the file from the first address that gives the right one; return its SHA-256."""
    part = path.with_name(path.name + ".part")
    problems = []
    for address in download.addresses:
        while True:
            continued = part.exists()
            problem = _try(address, part, download.size)
            if problem:
                break
            problem, digest = _verify(part, download, recorded)
            if not problem:
                part.rename(path)
                return digest
            part.unlink()  # nothing of it can be trusted
            if not continued:  # else its beginning, from elsewhere, may be what is wrong
                break
        say(f"{address}: {problem}")
        problems.append(f"{address} ({problem})")
    raise Unavailable(
        f"cannot get {download.name}: {'; '.join(problems)}. Start again to continue, or put the "
        f"file at {path} by hand"
    )


def _try(address: str, part: Path, size: int | None) -> str | None:
    """Add to `part` until it is whole; return why it could not be, None if it is."""
    failures = 0
    while True:
        before = part.stat().st_size if part.exists() else 0
        try:
            _continue(address, part, size)
            return None
        except urllib.error.HTTPError as error:
            if error.code < 500 and error.code not in (408, 429):
                return f"HTTP {error.code} {error.reason}"
            problem = f"HTTP {error.code} {error.reason}"
        except (_Hopeless, ValueError) as error:
            return str(error)
        except (_Broken, http.client.HTTPException) as error:
            problem = str(error) or type(error).__name__
        failures = 0 if part.exists() and part.stat().st_size > before else failures + 1
        if failures > len(PAUSES):
            return problem
        pause = PAUSES[max(failures - 1, 0)]
        say(f"{address}: {problem}; trying again in {pause:g} s")
        time.sleep(pause)


def _continue(address: str, part: Path, size: int | None) -> None:
    """Append what is missing in `part`, or write it anew where the server gives no ranges."""
    there = part.stat().st_size if part.exists() else 0
    if there and there == size:
        return
    request = urllib.request.Request(address, headers={"User-Agent": "aiayn-plugin"})
    if there:
        request.add_header("Range", f"bytes={there}-")
    try:
        with _network():
            response = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code != 416 or not there:
            raise
        part.unlink()  # longer than the file, or just as long as one of unknown size
        return _continue(address, part, size)
    with response:
        resumed = response.status == 206
        start = there if resumed else 0
        if resumed and not response.headers.get("Content-Range", "").startswith(f"bytes {there}-"):
            raise _Broken("the server sent another range than was asked for")
        length = response.headers.get("Content-Length")
        total = start + int(length) if length else size
        if size is not None and total != size:
            raise _Hopeless(f"the server has a file of {total:,} bytes, not {size:,}")
        if total is not None and total - start > shutil.disk_usage(part.parent).free:
            raise OSError(f"{part}: no room for {(total - start) / 1e9:,.1f} GB")
        with open(part, "ab" if resumed else "wb") as file, _bar(part, start, total) as show:
            while chunk := _read(response):
                file.write(chunk)
                show(len(chunk))
                if total is not None and file.tell() > total:
                    raise _Hopeless(f"the server sends more than {total:,} bytes")
            os.fsync(file.fileno())
            written = file.tell()
    if total is not None and written < total:
        raise _Broken(f"connection broken at {written:,} of {total:,} bytes")


def _read(response: http.client.HTTPResponse) -> bytes:
    with _network():
        return response.read(CHUNK)


@contextlib.contextmanager
def _network() -> Iterator[None]:
    """Raise what the network fails with as _Broken, unlike what the disk fails with."""
    try:
        yield
    except urllib.error.HTTPError:
        raise
    except OSError as error:
        raise _Broken(getattr(error, "reason", error)) from None


@contextlib.contextmanager
def _bar(part: Path, start: int, total: int | None) -> Iterator[Callable[[int], object]]:
    """Give a function that shows so many bytes more: a bar, or a line for every tenth."""
    name = part.name.removesuffix(".part")
    plain = not sys.stderr.isatty()
    began, done = time.monotonic(), start

    def line(more: int) -> None:
        nonlocal done
        before, done = done, done + more
        if total and done * 10 // total > before * 10 // total:
            rate = (done - start) / max(time.monotonic() - began, 1e-3)
            left = (total - done) / max(rate, 1)
            say(f"{name}: {done / 1e6:,.1f} of {total / 1e6:,.1f} MB, {rate / 1e6:,.1f} MB/s, "
                f"{left:,.0f} s left")

    if plain:
        yield line
    else:
        with tqdm(total=total, initial=start, desc=name, unit="B", unit_scale=True) as bar:
            yield bar.update
