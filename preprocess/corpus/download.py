"""Files from the internet: fetched from the first mirror that works, resumed, and verified."""

import contextlib
import hashlib
import http.client
import json
import os
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from aiayn_plugin.errors import InputError

from .console import progress, say
from .partial import Partial

CHUNK = 1 << 20
TIMEOUT = 60.0  # seconds without a byte
#: Seconds to wait before an address is tried again. Each try in a row that brings no new byte takes
#: the next pause; after the last one the address is given up.
PAUSES = (1.0, 4.0, 16.0, 64.0)


class Download(NamedTuple):
    """A file to fetch: its local name, its addresses in the order to try, and what is published.

    The size is in bytes.
    """

    name: str
    addresses: tuple[str, ...]
    size: int | None = None
    sha256: str | None = None
    md5: str | None = None

    def checksums(self) -> dict[str, str]:
        """Return the published checksums by algorithm."""
        values = {"sha256": self.sha256, "md5": self.md5}
        return {name: value for name, value in values.items() if value}


class _TryFailed(Exception):
    """A failure that another try at the same address may not meet."""


class _AddressFailed(_TryFailed):
    """A failure that every try at the same address will meet."""


class Unavailable(InputError):
    """A file that no address gave."""


def fetch(download: Download, folder: Path, record: Path) -> None:
    """Fetch a file into the folder unless it is there, and keep its SHA-256 in the file `record`.

    A file in the folder is trusted if it was verified before and is unchanged since.

    Raises Unavailable if no address gave the file, InputError if the folder holds another file of
    this name, and OSError if the file cannot be written. An unfinished file stays, and the next
    call goes on with it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / download.name
    records = _load(record)
    known = records.get(download.name, {})
    if not path.is_file():
        digest = _fetch_anew(download, path, known.get("sha256"))
    elif _state(path, download).items() <= known.items():
        return
    else:
        problem, digest = _verify(path, download, known.get("sha256"))
        if problem:
            accept = "" if download.checksums() else f", or its entry in {record} to accept it"
            raise InputError(f"{path} {problem}; delete it to have it fetched{accept}")
    records[download.name] = {"sha256": digest, **_state(path, download)}
    _save(records, record)
    if published := download.checksums():
        verdict = f"verified by its published {' and '.join(published)}"
    elif known:
        verdict = "verified by the sha256 recorded when it was first fetched"
    else:
        verdict = "no checksum is published: its sha256 is recorded and holds from now on"
    say(f"{download.name}: {verdict}")


def checksum(download: Download, record: Path) -> str | None:
    """Return a published checksum of the file, else the recorded one, else None."""
    published = next(iter(download.checksums().values()), None)
    return published or _load(record).get(download.name, {}).get("sha256")


def reject(download: Download, folder: Path, record: Path) -> str:
    """Set a broken file aside, forget its record, and return what was done, for a message.

    A file with the published checksum stays: another download would give the same bytes.
    """
    if download.checksums():
        return "although its checksum is the published one"
    path = folder / download.name
    aside = path.rename(path.with_name(f"{path.name}.broken"))
    records = _load(record)
    records.pop(download.name, None)
    _save(records, record)
    return f"it is {aside.name} now: start again to fetch it anew"


def _state(path: Path, download: Download) -> dict[str, Any]:
    """Return what shows a change: of the file, or of the checksums published for it."""
    stat = path.stat()
    return {"stat": [stat.st_size, stat.st_mtime_ns], "published": download.checksums()}


def _load(record: Path) -> dict[str, dict]:
    with contextlib.suppress(OSError, ValueError):
        return dict(json.loads(record.read_bytes()))
    return {}


def _save(records: dict[str, dict], record: Path) -> None:
    aside = record.with_name(f"{record.name}.part")
    aside.write_text(json.dumps(records, indent=2) + "\n")
    aside.rename(record)


def _verify(path: Path, download: Download, recorded: str | None) -> tuple[str | None, str]:
    """Return what is wrong with a file, or None if it is right, and its SHA-256.

    The published checksums decide. If there is none, the `recorded` SHA-256 decides.
    """
    if download.size is not None and path.stat().st_size != download.size:
        return f"has {path.stat().st_size:,} bytes, not {download.size:,}", ""
    hashes = {"sha256": hashlib.sha256(), "md5": hashlib.md5(usedforsecurity=False)}
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            for digest in hashes.values():
                digest.update(chunk)
    wanted = download.checksums() or ({"sha256": recorded} if recorded else {})
    for name, value in wanted.items():
        if (actual := hashes[name].hexdigest()) != value:
            return f"has the {name} {actual}, not {value}", ""
    return None, hashes["sha256"].hexdigest()


def _fetch_anew(download: Download, path: Path, recorded: str | None) -> str:
    """Fetch the file from the first address that gives the right one, and return its SHA-256."""
    verified = bool(recorded or download.checksums())
    part = Partial(path.with_name(path.name + ".part"), verified)
    problems = []
    for address in download.addresses:
        while True:
            continued = part.size > 0
            problem = _try(address, part, download.size)
            if problem:
                break
            problem, digest = _verify(part.path, download, recorded)
            if not problem:
                part.finish(path)
                return digest
            part.discard()  # nobody knows which bytes are wrong
            # The wrong bytes may have come from an earlier address: then this one gets another try.
            if not continued:
                break
        say(f"{address}: {problem}")
        problems.append(f"{address} ({problem})")
    raise Unavailable(
        f"cannot get {download.name}: {'; '.join(problems)}. Start again to continue, or put the "
        f"file at {path} by hand"
    )


def _try(address: str, part: Partial, size: int | None) -> str | None:
    """Add to `part` until it is complete. Return why that failed, or None if it did not."""
    failures, most = 0, part.size
    while True:
        try:
            _resume(address, part, size)
            return None
        except urllib.error.HTTPError as error:
            problem = f"HTTP {error.code} {error.reason}"
            # A fault of the server, a time-out and too many requests may pass; others stay.
            if error.code < 500 and error.code not in (408, 429):
                return problem
        except (_AddressFailed, ValueError) as error:
            return str(error)
        except (_TryFailed, http.client.HTTPException) as error:
            problem = str(error) or type(error).__name__
        failures = 0 if part.size > most else failures + 1
        most = max(most, part.size)
        if failures > len(PAUSES):
            return problem
        pause = PAUSES[max(failures - 1, 0)]
        say(f"{address}: {problem}; trying again in {pause:g} s")
        time.sleep(pause)


def _resume(address: str, part: Partial, size: int | None) -> None:
    """Append the missing bytes to `part`, or write it anew if they may be of another version."""
    present, wanted = part.size, part.request(address)
    if present and present == size:
        return
    headers = {"User-Agent": "aiayn-plugin", **wanted}
    request = urllib.request.Request(address, headers=headers)
    try:
        with _network():
            response = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code != 416 or not wanted:
            raise
        # 416: no byte follows. `part` is too long, or is the whole file of a size unknown to us.
        part.discard()
        return _resume(address, part, size)
    with response:
        start = present if response.status == 206 and wanted else 0
        sent = response.headers.get("Content-Range", "")
        if response.status == 206 and not sent.startswith(f"bytes {start}-"):
            raise _TryFailed("the server sent another range than was asked for")
        if start and not part.fits(address, response.headers):
            part.discard()
            raise _TryFailed("the file has changed since its beginning was fetched")
        _receive(response, address, part, start, size)


def _receive(
    response: http.client.HTTPResponse, address: str, part: Partial, start: int, size: int | None
) -> None:
    """Write the bytes of the response to `part`, from the position `start` on."""
    length = response.headers.get("Content-Length")
    total = start + int(length) if length else size
    if size is not None and total != size:
        raise _AddressFailed(f"the server has a file of {total:,} bytes, not {size:,}")
    path = part.path
    if total is not None and total - start > shutil.disk_usage(path.parent).free:
        raise OSError(f"{path}: no room for {(total - start) / 1e9:,.1f} GB")
    if not start:
        part.begin(address, response.headers)
    name, began = path.name.removesuffix(".part"), time.monotonic()

    def describe(done: int) -> str:
        rate = (done - start) / max(time.monotonic() - began, 1e-3)
        left = ((total or 0) - done) / max(rate, 1)
        return (
            f"{name}: {done / 1e6:,.1f} of {(total or 0) / 1e6:,.1f} MB, "
            f"{rate / 1e6:,.1f} MB/s, {left:,.0f} s left"
        )

    bar = {"desc": name, "initial": start, "unit": "B", "unit_scale": True}
    with open(path, "ab" if start else "wb") as file, progress(describe, total, **bar) as add:
        while chunk := _read(response):
            file.write(chunk)
            add(len(chunk))
            if total is not None and file.tell() > total:
                raise _AddressFailed(f"the server sends more than {total:,} bytes")
        os.fsync(file.fileno())
        written = file.tell()
    if total is not None and written < total:
        raise _TryFailed(f"connection broken at {written:,} of {total:,} bytes")


def _read(response: http.client.HTTPResponse) -> bytes:
    with _network():
        return response.read(CHUNK)


@contextlib.contextmanager
def _network() -> Iterator[None]:
    """Turn each OSError of the network into _TryFailed. An OSError of the disk is none of these."""
    try:
        yield
    except urllib.error.HTTPError:
        raise
    except OSError as error:
        raise _TryFailed(getattr(error, "reason", error)) from None
