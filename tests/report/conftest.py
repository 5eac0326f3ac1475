"""Run directories with hostile translations."""

from pathlib import Path

import pytest
from training_runs import interrupted, translation_scores, write_scores


@pytest.fixture
def make(tmp_path):
    """`make(name, wrong, flags…)` creates a run directory; `wrong` translations are hostile."""

    def make_run(name: str, wrong: int = 2, *flags: str, **facts) -> Path:
        run = tmp_path / name
        interrupted(*flags, **facts).write(run)
        scores = translation_scores(wrong)
        return write_scores(run, test=scores, valid=scores)

    return make_run
