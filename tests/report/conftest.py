"""Hostile training runs for the report."""

import pytest
from training_runs import generated, training_log


@pytest.fixture(scope="session")
def data(prepare):
    return prepare(300, 20, 40)


@pytest.fixture
def make(tmp_path, data):
    """`make(name, wrong, flags…)` makes a run's directory, with so many hostile translations."""

    def make_run(name: str, wrong: int = 2, *flags: str):
        run = tmp_path / name
        run.mkdir(parents=True)
        (run / "data").symlink_to(data)
        (run / "train.log").write_bytes(training_log(*flags).bytes())
        (run / "generate.log").write_text(generated(data, "test", wrong), encoding="utf-8")
        (run / "generate-valid.log").write_text(generated(data, "valid", wrong), encoding="utf-8")
        return run

    return make_run
