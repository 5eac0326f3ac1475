"""A download that is not whole yet, and what tells whether the rest belongs to it.

A server names the version of a file: by a strong ETag, or by the time of its last change. A file
that has another version than its first bytes would be joined from two.
"""

import contextlib
import json
from datetime import timedelta
from email.message import Message
from email.utils import parsedate_to_datetime
from pathlib import Path

#: A file may change twice within the second that Last-Modified names. RFC 7232 (2.2.2) takes this
#: time for a version if the answer is so much younger.
SETTLED = timedelta(minutes=1)


class Partial:
    """The first bytes of a download, in a file, and a note beside it of where they are from.

    `verified` says that the whole file has a known checksum. Then any bytes may be continued, at
    any address, because a mixture would be found.
    """

    def __init__(self, path: Path, verified: bool) -> None:
        self.path, self.verified = path, verified
        self.note = path.with_name(f"{path.name}.from")

    @property
    def size(self) -> int:
        """The number of bytes that are there."""
        return self.path.stat().st_size if self.path.exists() else 0

    def request(self, address: str) -> dict[str, str]:
        """Return the headers that ask for the missing bytes, or none if all bytes are needed."""
        missing = {"Range": f"bytes={self.size}-"}
        if self.size and self.verified:
            return missing
        version = self._origin(address).get("version")
        return {**missing, "If-Range": version} if self.size and version else {}

    def fits(self, address: str, answer: Message) -> bool:
        """Return whether the bytes of an answer are of the same version, as far as it tells.

        A server may ignore If-Range.
        """
        origin, now = self._origin(address), _describe(answer)
        return self.verified or all(origin[key] == now[key] for key in origin.keys() & now.keys())

    def begin(self, address: str, answer: Message) -> None:
        """Forget the bytes, and note the version of those that the answer will give."""
        self.discard()
        aside = self.note.with_name(f"{self.note.name}.part")
        aside.write_text(json.dumps({"address": address, **_describe(answer)}))
        aside.rename(self.note)

    def discard(self) -> None:
        """Forget the bytes, and then their version."""
        self.path.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)

    def finish(self, path: Path) -> None:
        """Give the file, which is whole now, its final name."""
        self.path.rename(path)
        self.note.unlink(missing_ok=True)

    def _origin(self, address: str) -> dict[str, str]:
        """Return the version of the bytes, if they are from this address."""
        with contextlib.suppress(OSError, ValueError):
            origin = dict(json.loads(self.note.read_bytes()))
            if origin.pop("address") == address:
                return origin
        return {}


def _describe(answer: Message) -> dict[str, str]:
    """Return what an answer tells of the version of a file: "version" is for If-Range."""
    tag, changed = answer.get("ETag", ""), answer.get("Last-Modified", "")
    total = answer.get("Content-Range", "").rpartition("/")[2] or answer.get("Content-Length", "")
    strong = tag if tag.startswith('"') else changed if _settled(answer) else ""
    told = {"tag": tag, "changed": changed, "total": total.replace("*", ""), "version": strong}
    return {name: value for name, value in told.items() if value}


def _settled(answer: Message) -> bool:
    """Return whether the time of the last change is a version: it was long before the answer."""
    with contextlib.suppress(TypeError, ValueError):
        date, changed = (parsedate_to_datetime(answer[name]) for name in ("Date", "Last-Modified"))
        return date - changed >= SETTLED
    return False
