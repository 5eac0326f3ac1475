"""Only a newline ends a line."""

import sys

import pytest

from aiayn_plugin.errors import InputError
from aiayn_plugin.text.lines import clean_line, read_data_file, read_lines


def test_clean_line_has_no_line_breaks_or_control_characters():
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    cleaned = clean_line(every)
    assert len(cleaned.splitlines()) == 1 and len(cleaned) == len(every) - len(set(every[:32])) + 5
    assert clean_line("a\0b\x1cc\rd\fe\x85f\u2028g\u2029h") == "abc d e f g h"
    kept = "é ß漢\x7f\x80\u00a0\u200b\u200d\ufeff"
    assert clean_line(kept) == kept


def test_read_lines_ends_lines_at_newlines_only(tmp_path):
    path = tmp_path / "text"
    path.write_bytes("\ufeffa\r\nb\u2028c\x85d\re\f\n\n\ufefflast".encode())
    assert list(read_lines(path)) == ["a", "b\u2028c\x85d\re\f", "", "\ufefflast"]


def test_a_data_file_has_a_limited_size(tmp_path):
    path = tmp_path / "dict.txt"
    path.write_bytes(b"12345")
    assert read_data_file(path, 5) == b"12345"
    with pytest.raises(InputError, match="dict.txt has 5 bytes; the limit is 4"):
        read_data_file(path, 4)
