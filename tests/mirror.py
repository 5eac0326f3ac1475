"""A local server with miniatures of the public files of WMT 2014, which can simulate faults."""

import contextlib
import gzip
import hashlib
import io
import random
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import yaml

from aiayn_plugin.corpus.table import WMT14

EUROPARL = "wmt13/training-parallel-europarl-v7.tgz"
#: Special lines: line breaks that do not end a line, an empty line, a line of too many subwords.
ODD = ["a\u2028b c", "a\x85b c", "a\fb c", "a\rb c\r", "", "x" * 5 + " y" * 300, "", ""]


def sentences(name: str, lang: str, number: int) -> bytes:
    """Return lines of different lengths of invented words; the last ones are special."""
    rng = random.Random(name)
    words = ["".join(rng.choices("abcdeilmnorstu", k=rng.randint(1, 9))) for _ in range(400)]
    lines = [" ".join(rng.choices(words, k=rng.randint(3, 12))) + "." for _ in range(number)]
    lines += [f"{odd} {lang}" if odd else odd for odd in ODD]
    lines[-1] = "a" if lang == "en" else "a b c d e f"  # the ratio in subwords is too large
    # The ratio in words is too large, but not in subwords: no merge contains these letters.
    lines[-2] = "qwvzqjwkvy" if lang == "en" else "qw vz qj wk"
    broken = b"not \xff UTF-8" if lang == "en" else b"gut"
    return b"".join(line.encode() + b"\n" for line in lines) + broken + b"\n"


def sgml(name: str, lang: str, number: int) -> bytes:
    """Return a test set of `number` sentences, to which no cleaning limit may apply."""
    lines = sentences(name, lang, number).splitlines()[:number]
    lines[3] = b"yes" if lang == "en" else b"a b c d e f g h"  # too large a ratio for training
    body = b"".join(b'<seg id="%d"> %s </seg>\n' % pair for pair in enumerate(lines, start=1))
    return b'<refset>\n<doc docid="x">\n<hl>\n' + body + b"</hl>\n</doc>\n</refset>\n"


def member_content(member: str, pairs: int) -> bytes:
    """Return the content of a member of an archive, by its name."""
    lang = member.removesuffix(".gz").removesuffix(".sgm")[-2:]
    if member.endswith(".sgm"):
        return sgml("newstest", lang, 20)
    text = sentences(member.removesuffix(".gz")[:-3], lang, pairs)
    return gzip.compress(text, mtime=0) if member.endswith(".gz") else text


def pack(members: dict[str, bytes], compressed: bool) -> bytes:
    """Return a tar of these members."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name, text in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text))
    # without the time, so that an archive always has the same checksum
    return gzip.compress(file.getvalue(), mtime=0) if compressed else file.getvalue()


def archives(table: dict, pairs: int) -> dict[str, bytes]:
    """Return each archive of the table by its path on the server."""
    contents = {}
    for file, facts in table["archives"].items():
        names = [
            corpus[lang]
            for pair, splits in table["pairs"].items()
            for split in ("train", "valid", "test")
            for corpus in splits[split]
            if corpus["archive"] == file
            for lang in pair.split("-")
        ]
        members = {name: member_content(name, pairs) for name in sorted(set(names))}
        members = {"README": b"unwanted", **members}
        path = path_of(facts["urls"][0])
        contents[path] = pack(members, compressed=not path.endswith("tar"))
    return contents


def path_of(url: str) -> str:
    """Return the path of a URL: of http://host/a/b it is a/b."""
    return url.partition("//")[2].partition("/")[2]


def wmt14_arguments(pair: str, dest: Path, table: Path, *more: str) -> list[str]:
    """Return the arguments of wmt14 for a small vocabulary."""
    return [pair, "--dest", str(dest), "--table", str(table), "--vocabulary=400", *more]


class Mirror:
    """The files of the server, its log and its faults, by path.

    requests: path and range of each request. The faults are:

    - "missing": the file does not exist.
    - "wrong": all bytes are zero.
    - "cut": the first three responses end after half of their bytes.
    - "no ranges": each response is the whole file, and the first one ends after half of it.
    - "no length": the response does not announce its size.
    - "busy": the server is temporarily unavailable.
    - "refused": the connection is closed without a response.
    """

    def __init__(self, address: str, files: dict[str, bytes]) -> None:
        self.address, self.files = address, files
        self.faults: dict[str, str] = {}
        self.requests: list[tuple[str, str | None]] = []

    def table(self, path: Path, change: object = None) -> Path:
        """Write wmt14.yaml with the URLs and checksums of this mirror, after `change`."""
        table = yaml.safe_load(WMT14.read_bytes())
        for facts in table["archives"].values():
            file = path_of(facts["urls"][0])
            facts["urls"] = [f"{self.address}/{file}", f"{self.address}/second/{file}"]
            facts["size"] = len(self.files[file])
            facts.pop("md5", None)
            facts["sha256"] = hashlib.sha256(self.files[file]).hexdigest()
        if callable(change):
            change(table)
        path.write_text(yaml.safe_dump(table))
        return path


class Handler(BaseHTTPRequestHandler):
    """Responds with the files and the faults of the server's mirror."""

    protocol_version = "HTTP/1.0"

    def do_GET(self) -> None:
        mirror: Mirror = self.server.mirror  # type: ignore[attr-defined]
        path = self.path.lstrip("/")
        wanted, fault = self.headers.get("Range"), mirror.faults.get(path)
        mirror.requests.append((path, wanted))
        if fault == "refused":
            return
        body = mirror.files.get(path.removeprefix("second/"))
        if body is None or fault == "missing":
            return self.send_error(404)
        if fault == "busy":
            return self.send_error(503)
        start = 0
        if resumes := bool(wanted and fault != "no ranges"):
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(body):
                return self.send_error(416)
        self.send_response(206 if resumes else 200)
        if fault != "no length":
            self.send_header("Content-Length", str(len(body) - start))
        if resumes:
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        self.end_headers()
        body = body[start:]
        if fault == "wrong":
            body = bytes(len(body))
        tries = sum(other == path for other, _ in mirror.requests)
        if fault == "cut" and tries < 4 or fault == "no ranges" and tries < 2:
            body = body[: len(body) // 2]  # then the connection is closed
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def serve(pairs: int) -> Iterator[Mirror]:
    """Yield a running mirror with `pairs` sentence pairs in each corpus."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    files = archives(yaml.safe_load(WMT14.read_bytes()), pairs)
    mirror = Mirror(f"http://127.0.0.1:{server.server_port}", files)
    server.mirror = mirror  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield mirror
    finally:
        server.shutdown()
        server.server_close()


def content(folder: Path) -> dict[Path, bytes]:
    """Return the bytes of every file under a directory."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder): path.read_bytes() for path in files}
