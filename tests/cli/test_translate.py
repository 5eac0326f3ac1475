"""`aiayn translate` and its input."""

import io

from aiayn_plugin.cli import main


def test_nbest_numbers_lines_across_buffers(model_dir, monkeypatch):
    text = "\n" * 12_000 + "March 3\n"  # empty lines need no search
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(output := io.BytesIO()))
    main(["translate", str(model_dir), "--device", "cpu", "--nbest", "2"])
    numbers = [int(line.split(b" ||| ")[0]) for line in output.getvalue().splitlines()]
    assert numbers == [*range(1, 12_001), 12_001, 12_001]
