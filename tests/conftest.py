"""What the tests share."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
#: How fairseq's own small model is trained, without the plugin.
STOCK = (
    "--arch transformer --encoder-layers 2 --decoder-layers 2 --share-all-embeddings "
    "--encoder-embed-dim 128 --decoder-embed-dim 128 --encoder-ffn-embed-dim 256 "
    "--decoder-ffn-embed-dim 256 --encoder-attention-heads 4 --decoder-attention-heads 4 "
    "--task translation --optimizer adam --lr-scheduler inverse_sqrt --cpu --num-workers 0 "
    "--criterion label_smoothed_cross_entropy --label-smoothing 0.1 --no-epoch-checkpoints "
    "--disable-validation"
).split() + ["--adam-betas", "(0.9, 0.98)"]


@pytest.fixture(scope="session")
def repo() -> Path:
    """The root of the checkout.

    A test that runs fairseq in this process gives `--user-dir` as `repo / "aiayn_plugin"`: fairseq
    refuses a plugin that is already imported from another place.
    """
    return ROOT


@pytest.fixture(scope="session")
def run() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a command as a user would, with the commands of this Python's environment on PATH.

    `run("fairseq-train", "--help", cwd=tmp_path, env={"NAME": "value"}, timeout=60)`; the result
    is not checked.
    """
    commands = str(Path(sys.executable).parent)

    def run_command(
        *command: str | Path,
        cwd: str | Path = ROOT,
        env: dict[str, str] | None = None,
        **options,
    ) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([commands, os.environ["PATH"]])
        return subprocess.run(
            [str(word) for word in command],
            cwd=cwd,
            env={**os.environ, "PATH": path, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            **options,
        )

    return run_command


@pytest.fixture(scope="session")
def prepare(run, tmp_path_factory) -> Callable[..., Path]:
    """`prepare(train, valid, test)` gives a prepared directory of the embedded corpus."""

    def make(train: int, valid: int, test: int) -> Path:
        folder = tmp_path_factory.mktemp("corpus")
        sizes = ["--train", train, "--valid", valid, "--test", test]
        made = run(sys.executable, "preprocess/cldr.py", "--dest", folder / "raw", *sizes)
        assert made.returncode == 0, made.stderr
        splits = [f"--{split}pref={folder}/raw/{split}" for split in ("train", "valid", "test")]
        made = run(
            *(sys.executable, "preprocess/prepare.py", "-s", "en", "-t", "de", *splits),
            *("--destdir", folder / "data", "--merges", "500"),
        )
        assert made.returncode == 0, made.stderr
        return folder / "data"

    return make


@pytest.fixture(scope="session")
def corpus(prepare) -> Path:
    """A prepared directory with 1,014 validation pairs and 5 test pairs."""
    return prepare(2000, 1014, 5)


@pytest.fixture(scope="session")
def trained_on_multi30k(run, repo, tmp_path_factory) -> tuple[Path, Path, Path]:
    """Prepared Multi30k, fairseq's own model after 500 updates on it, and the same converted."""
    raw = repo.parent / "shared" / "data" / "multi30k"
    if not raw.is_dir():
        pytest.skip(f"needs the text of Multi30k in {raw}")
    folder = tmp_path_factory.mktemp("multi30k")
    prefixes = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
    made = run(
        *("python", "preprocess/prepare.py", "-s", "en", "-t", "de", "--merges", "4000"),
        *("--destdir", folder / "data"),
        *(f"--{split}pref={raw / name}" for split, name in prefixes.items()),
    )
    assert made.returncode == 0, made.stderr
    log = run(
        *("fairseq-train", folder / "data", *STOCK, "--lr", "0.003", "--warmup-updates", "200"),
        *("--max-tokens", "2000", "--max-update", "500", "--save-dir", folder),
    )
    assert log.returncode == 0, log.stderr
    stock, ours = folder / "checkpoint_last.pt", folder / "ours.pt"
    made = run("aiayn", "convert", "--input", stock, "--output", ours)
    assert made.returncode == 0, made.stderr
    return folder / "data", stock, ours
