"""Table 3 scaled down: each row changes base in the paper's ratio; only finished rows count."""

import fcntl
import os
import shlex
import signal
import subprocess

import pytest
from commands import alive, wait_until
from models import parse

from aiayn_plugin.paper import ARCHITECTURES, SCALED_DOWN, ModelSettings, get_settings

#: The architectures of Table 3, by the recipe's names.
ROWS = [
    arch.removeprefix("aiayn_")
    for arch in ARCHITECTURES
    if arch not in ("aiayn_big_en_fr", "aiayn_parser", *SCALED_DOWN)
]
SEEDS = ["base_seed2", "base_seed3"]
RECIPE = ("bash", "examples/table3.sh")
#: A training run that takes seconds.
SHORT = {"UPDATES": "2", "TOKENS": "300", "WARMUP": "10"}


def commands(output, name):
    """Return the words of each command of a dry run that starts with `name`."""
    return [shlex.split(line) for line in output.splitlines() if line.startswith(f"{name} ")]


@pytest.fixture(scope="module")
def all_rows(dry_run, tmp_path_factory):
    """The run directory, and what the recipe prints for all rows without running one."""
    folder = tmp_path_factory.mktemp("dry")
    output = dry_run("table3", RUN=str(folder / "run"))
    assert not list(folder.iterdir())
    return folder / "run", output


@pytest.mark.usefixtures("quiet")
def test_every_row_changes_base_in_the_papers_ratio(all_rows):
    folder, output = all_rows
    training_commands = commands(output, "fairseq-train")
    assert [command[1] for command in training_commands] == [
        f"{folder}/{row}/data" for row in (ROWS[0], *SEEDS, *ROWS[1:])
    ]
    for command in training_commands:
        row = command[1].split("/")[-2]
        paper = get_settings(f"aiayn_{row.partition('_seed')[0]}")
        args = parse(*command[2:], data=command[1])
        small = ModelSettings(**{name: getattr(args, name) for name in vars(ModelSettings())})
        assert small.N == paper.N / 2, row
        assert (small.d_model, small.d_ff) == (paper.d_model / 4, paper.d_ff / 4), row
        assert small.head_widths() == tuple(width / 4 for width in paper.head_widths()), row
        for name in ("h", "dropout", "positions", "attention_dropout", "tie_embeddings"):
            assert getattr(small, name) == getattr(paper, name), (row, name)
        assert args.label_smoothing == paper.label_smoothing, row
        assert args.seed == int(row.partition("_seed")[2] or 1), row
        assert args.save_dir == f"{folder}/{row}/checkpoints"


def test_rows_share_all_other_settings(all_rows):
    """Updates, warm-up and batch are the same, so big does not have three times the updates."""
    shared = ("--max-update", "--warmup-updates", "--tokens-per-update", "--log-interval", "--arch")
    for name in shared:
        values = {
            command[command.index(name) + 1] for command in commands(all_rows[1], "fairseq-train")
        }
        assert len(values) == 1, name


def test_rows_are_translated_without_averaging_and_reported(all_rows):
    folder, output = all_rows
    assert "aiayn average" not in output
    for command in commands(output, "fairseq-generate"):
        row = command[1].split("/")[-2]
        assert command[command.index("--path") + 1] == (
            f"{folder}/{row}/checkpoints/checkpoint_last.pt"
        )
        assert command[command.index("--gen-subset") + 1] == "valid"
        assert command[-1] == f"{folder}/{row}/generate-valid.log"
    _, *scores, report = commands(output, "aiayn")  # the first prepares the data
    assert report[:3] == ["aiayn", "report", f"{folder}/base"]
    assert len(report[2:-2]) == len(scores) == len(ROWS) + 2
    for command in scores:
        folder_of_row, name = command[2].rsplit("/", 1)
        assert command[1] == "score" and name == "generate-valid.log"
        assert command[-4:] == ["--split", "valid", "--json", f"{folder_of_row}/scores-valid.json"]


def test_the_papers_scale_takes_the_named_architectures(dry_run, tmp_path):
    places = {"RUN": str(tmp_path / "run"), "DATA": str(tmp_path / "data")}
    rows = ("e_learned", "big", "base_seed2")
    output = dry_run("table3", *rows, SCALE="paper", PRECISION="--bf16", **places)
    assert f"aiayn wmt14 en-de --dest {tmp_path}/data" in output
    found = [" ".join(command[6:]) for command in commands(output, "fairseq-train")]
    rest = "--max-tokens 4096 --bf16 --log-format simple --log-interval 100 --seed"
    last = "--keep-interval-updates 1"  # nothing is averaged
    assert found == [
        f"--arch aiayn_{arch} {rest} {seed} {last}"
        for arch, seed in (("base", 2), ("e_learned", 1), ("big", 1))
    ]
    assert "aiayn average" not in output and "--gen-subset valid" in output
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("rows", "env", "parts"),
    [
        (["c_n2", "c_n3"], {}, ("unknown row c_n3", "base", "c_n2", "e_learned")),
        ([], {"SCALE": "large"}, ("SCALE=large", "choose from small paper")),
        ([], {"JOBS": "two"}, ("JOBS=two",)),
        ([], {"TEXT": "absent"}, ("no such directory: absent",)),
        ([], {"DATA": "absent"}, ("no such directory: absent",)),
        ([], {"SCALE": "paper", "UPDATES": "3"}, ("UPDATES", "SCALE=small")),
    ],
)
def test_unknown_values_fail_with_one_line(run, tmp_path, rows, env, parts):
    done = run(*RECIPE, *rows, env={"RUN": str(tmp_path / "run"), **env})
    assert done.returncode == 1 and not done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith("table3.sh: error: ") and all(part in line for part in parts)
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def few(prepare):
    """A data directory with 400 training and 20 validation pairs."""
    return prepare(400, 20, 5)


@pytest.fixture
def places(repo, few, tmp_path):
    """The variables of a real run on a small corpus."""
    if not (repo / ".venv").is_dir():
        pytest.skip("needs .venv: run examples/setup.sh")
    (tmp_path / "data").symlink_to(few)
    return {"RUN": str(tmp_path / "run"), "DATA": str(tmp_path), **SHORT}


@pytest.mark.long
def test_finished_rows_are_skipped_and_failed_rows_repeated(run, places, tmp_path):
    folder = tmp_path / "run"
    in_the_way = folder / "c_n2" / "checkpoints"
    in_the_way.parent.mkdir(parents=True)
    in_the_way.write_text("not a directory")
    done = run(*RECIPE, "c_n2", "base", env={**places, "JOBS": "2"})
    assert done.returncode == 1
    assert "not finished: c_n2 (" in done.stderr.splitlines()[-1]
    assert "num_updates" not in done.stdout + done.stderr
    assert not (folder / "c_n2" / "generate-valid.log").exists()
    base = (folder / "base" / "train.log").read_text()
    assert "| num_updates 2 |" in base
    assert "c_n2" not in (folder / "report.md").read_text("utf-8")

    in_the_way.unlink()
    done = run(*RECIPE, "c_n2", "base", env=places)
    assert done.returncode == 0 and "base has finished" in done.stdout, done.stdout + done.stderr
    assert base == (folder / "base" / "train.log").read_text()
    assert "| num_updates 2 |" in (folder / "c_n2" / "train.log").read_text()
    for row in ("base", "c_n2"):
        lines = (folder / row / "generate-valid.log").read_text("utf-8").splitlines()
        assert sum(line.startswith("D-") for line in lines) == 20
    for kind in ("html", "md", "json"):
        assert "c_n2" in (folder / f"report.{kind}").read_text("utf-8")

    done = run(*RECIPE, "c_n2", "base", env={**places, "UPDATES": "3"})
    assert done.returncode == 1
    assert "base was started with different settings" in done.stderr.splitlines()[-1]


def test_a_row_is_trained_by_one_process_at_a_time(run, repo, corpus, tmp_path):
    """A training run that outlives the recipe that started it holds the lock of its row."""
    if not (repo / ".venv").is_dir():
        pytest.skip("needs .venv: run examples/setup.sh")
    (tmp_path / "data").symlink_to(corpus)
    (tmp_path / "run" / "base").mkdir(parents=True)
    with open(tmp_path / "run" / "base" / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = run(*RECIPE, "base", env={"RUN": str(tmp_path / "run"), "DATA": str(tmp_path)})
    assert done.returncode == 1 and "base is being trained by a different process" in done.stderr
    assert not (tmp_path / "run" / "base" / "train.log").exists()


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_run_resumes_and_is_not_finished(succeed, places, tmp_path, how):
    """SIGTERM ends the recipe, and SIGKILL the training run under it."""
    places["UPDATES"] = "60"
    row = tmp_path / "run" / "c_n2"
    with subprocess.Popen(
        [*RECIPE, "c_n2"],
        env={**os.environ, **places},
        text=True,
        start_new_session=True,
        stderr=subprocess.PIPE,
    ) as process:
        # It is written after 15 updates.
        wait_until((row / "checkpoints" / "checkpoint_last.pt").exists, process)
        if how == signal.SIGTERM:
            process.terminate()
        else:
            for number in alive(process.pid):
                words = open(f"/proc/{number}/cmdline").read().split("\0")
                if any(word.endswith("fairseq-train") for word in words):
                    os.kill(int(number), how)
        errors = process.communicate()[1]
        assert process.returncode == (130 if how == signal.SIGTERM else 1), errors
    wait_until(lambda: not alive(process.pid))
    assert not (row / "generate-valid.log").exists() and not (tmp_path / "run/report.md").exists()
    assert how == signal.SIGTERM or "not finished: c_n2" in errors
    succeed(*RECIPE, "c_n2", env=places)
    assert (row / "generate-valid.log").exists()
    assert "Loaded checkpoint" in (row / "train.log").read_text()
