"""`aiayn benchmark translate`: its searches accept the same sentences as fairseq-generate."""

import pytest

from aiayn_plugin.benchmarks.searches import Search


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--task", "translation"], r"Size of sample #\d+ is invalid"),
        (
            [],
            r"sentences? exceeds? the \(source, target\) limits \(2, 1024\) .* "
            r"sentence \d with \(\d+, \d+\) tokens",
        ),
    ],
)
def test_sentences_that_are_too_long_are_an_error(model_dir, repo, options, message):
    argv = [str(model_dir / "data"), "--user-dir", str(repo / "aiayn_plugin"), "--cpu", *options]
    argv += ["--path", str(model_dir / "model.pt"), "--gen-subset", "test"]
    assert len(Search(argv).translate(64, 0)[1]) == 5
    with pytest.raises(Exception, match=message):
        Search([*argv, "--max-source-positions", "2"]).translate(64, 0)
