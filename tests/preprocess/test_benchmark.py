"""The benchmark of preprocessing times the commands, and nothing else."""

import benchmark


def test_removing_the_data_of_an_earlier_run_is_not_timed(tmp_path, monkeypatch):
    earlier = tmp_path / "train.data"
    earlier.mkdir()
    clock = iter([10.0, 13.0])

    def read_clock():
        assert not earlier.exists()
        return next(clock)

    commands = []
    monkeypatch.setattr(benchmark.time, "monotonic", read_clock)
    monkeypatch.setattr(benchmark.subprocess, "run", lambda args, **_: commands.append(args[-1]))
    assert benchmark.run_commands("binarise", tmp_path / "train", jobs=1) == 3
    assert commands[0].startswith("fairseq-preprocess ")
