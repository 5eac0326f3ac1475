"""The recipes for CPUs start two processes and choose the processor's precision."""

import os
import re
import shutil

import pytest
import torch

from aiayn_plugin.atomic import hold_lock

LAUNCHER = "torchrun --standalone --nproc_per_node 2 --no-python fairseq-train "


def training(run, recipe: str, *arguments: str, **environment: str) -> str:
    """Return the command with which a recipe trains."""
    done = run("bash", f"examples/{recipe}.sh", *arguments, env={"DRY_RUN": "1", **environment})
    assert done.returncode == 0 and not done.stderr
    return next(line for line in done.stdout.splitlines() if "fairseq-train" in line)


@pytest.mark.parametrize(
    "recipe, cores, has_gpu, precision",
    [
        *(("quickstart", 1, False, ""), ("quickstart", 2, False, "--bf16")),
        *(("quickstart", 16, True, ""), ("multi30k", 2, False, ""), ("tatoeba", 2, False, "")),
    ],
)
def test_small_models_train_in_two_processes_unless_there_is_a_gpu(
    run, tmp_path, recipe, cores, has_gpu, precision
):
    smi = "echo 'a GPU'" if has_gpu else "exit 1"
    for name, command in (("nproc", f"echo {cores}"), ("nvidia-smi", smi)):
        (tmp_path / name).write_text(f"#!/bin/sh\n{command}\n")
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    command = training(run, recipe, PRECISION=precision, RUN=str(tmp_path / "run"), PATH=path)
    assert (LAUNCHER in command) == (cores > 1 and not has_gpu)
    assert ("--bf16" in command) == bool(precision)


def test_a_gpu_that_torch_cannot_use_gives_a_warning(run, tmp_path):
    if torch.cuda.is_available():
        pytest.skip("has a GPU")
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho 'a GPU'\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    script = "source examples/lib.sh; find_gpu; has_gpu || echo none"
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = run("bash", "-ec", script, "recipe.sh", env={"PATH": path})
    assert done.stdout == "none\n"
    assert done.stderr.startswith(
        "recipe.sh: warning: torch cannot use the GPU, so the CPU is used"
    )


@pytest.mark.parametrize(
    "command, status", [("no-such-command", 127), ("bash -c 'kill -9 $$'", 137)]
)
def test_a_command_that_fails_without_a_message_is_named(run, tmp_path, command, status):
    script = f"set -euo pipefail; source examples/lib.sh; RUN=$1; log {command}; echo continued"
    done = run("bash", "-c", script, "recipe.sh", str(tmp_path))
    assert (done.returncode, done.stdout) == (status, "")
    end = f" ended with status {status}: see {tmp_path}/train.log\n"
    assert done.stderr.endswith(f"recipe.sh: error: {command.split()[0]}{end}")


def test_a_full_disk_does_not_hide_the_commands_error(run):
    error = "fairseq-train: error: No space left on device"
    script = f"set -o pipefail; echo '{error}' | python examples/progress.py /dev/full"
    done = run("bash", "-c", script)
    assert (done.returncode, done.stderr) == (0, f"{error}\n")


def test_ctrl_c_before_the_plugin_is_loaded_shows_no_trace(run, tmp_path):
    trace = "Traceback (most recent call last):\\n  …\\nKeyboardInterrupt\\n"
    done = run("bash", "-c", f"printf '{trace}' | python examples/progress.py {tmp_path}/log")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("saved", [3, 9])
def test_a_short_run_averages_the_checkpoints_it_has(run, tmp_path, saved):
    (tmp_path / "checkpoints").mkdir()
    for name in ("last", *(f"1_{n}" for n in range(saved))):
        (tmp_path / f"checkpoints/checkpoint_{name}.pt").touch()
    script = "source examples/lib.sh; RUN=$1; aiayn() { echo $*; }; average 5"
    done = run("bash", "-ec", script, "recipe.sh", str(tmp_path))
    assert f"--num-update-checkpoints {min(saved, 5)} " in done.stdout


def test_the_help_of_a_recipe_is_its_first_comment(run, tmp_path):
    done = run("bash", "examples/multi30k.sh", "tests", "--help", env={"RUN": str(tmp_path)})
    first, *_, last = done.stdout.splitlines()
    assert first.startswith("Multi30k (image captions") and last.startswith("  PRECISION")
    assert done.returncode == 0 and not done.stderr and not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["ignore", "default"])
def test_torchrun_ignores_the_hang_up_that_nohup_ignores(run, tmp_path, kind):
    command = "env", f"--{kind}-signal=HUP", "bash", "examples/quickstart.sh"
    done = run(*command, env={"DRY_RUN": "1", "RUN": str(tmp_path)})
    assert ("PET_SIGNALS_TO_HANDLE" in done.stdout) == (kind == "ignore")


def test_bfloat16_is_the_default_of_processors_that_have_it(run, tmp_path, monkeypatch):
    if shutil.which("nvidia-smi"):
        pytest.skip("has a GPU")
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        flags = file.read().split()
    monkeypatch.delenv("PRECISION", raising=False)
    command = training(run, "multi30k", RUN=str(tmp_path))
    assert ("--bf16" in command) == ("avx512_bf16" in flags or "amx_bf16" in flags)


@pytest.mark.parametrize("recipe, arguments", [("quickstart", []), ("multi30k", ["tests"])])
def test_arguments_go_to_fairseq_train_and_take_precedence(run, tmp_path, recipe, arguments):
    given = [*arguments, "--seed", "2", "--max-update", "7"]
    command = training(run, recipe, *given, PRECISION="", RUN=str(tmp_path))
    assert command.rstrip().endswith("--seed 2 --max-update 7")
    assert not list(tmp_path.iterdir())


def test_tatoeba_translates_in_the_other_direction(run, tmp_path):
    environment = {"DRY_RUN": "1", "DIRECTION": "de-en", "RUN": str(tmp_path)}
    done = run("bash", "examples/tatoeba.sh", "tests", env=environment)
    assert "aiayn prepare -s de -t en " in done.stdout, done.stderr
    for precision in ("int8", "bfloat16"):
        assert (
            f"< {tmp_path}/raw/newstest2014.de > {tmp_path}/newstest2014.{precision}.en"
            in done.stdout
        )


@pytest.mark.parametrize(
    "recipe, arguments, message",
    [
        ("tatoeba", ["absent"], "no such directory: absent"),
        ("parsing_wsj", [], "give the directory of the Penn Treebank"),
        (
            "parsing_sample",
            ["--seed", "2"],
            "give at most one argument, a directory, not: --seed 2",
        ),
        (
            "multi30k_published",
            ["tests", "x"],
            "give at most one argument, a directory, not: tests x",
        ),
    ],
)
def test_wrong_arguments_are_reported_in_one_line(run, tmp_path, recipe, arguments, message):
    environment = {"DRY_RUN": "1", "RUN": str(tmp_path)}
    done = run("bash", f"examples/{recipe}.sh", *arguments, env=environment)
    assert done.returncode == 1 and done.stderr == f"{recipe}.sh: error: {message}\n"


@pytest.mark.parametrize(
    "recipe, name, value, wrong, choices",
    [
        ("parsing_sample", "MODELS", "semi wjs", "wjs", "wsj semi"),
        ("multi30k_published", "MODELS", "papers", "papers", "published ensemble paper fairseq"),
        ("multi30k_published", "SPLIT", "tests", "tests", "valid test"),
        ("tatoeba", "PRECISION", "bf16", "bf16", "--bf16 --fp16"),
        ("tatoeba", "DIRECTION", "en-fr", "en-fr", "en-de de-en"),
        ("tatoeba", "DIRECTION", "en-de de-en", "en-de de-en", "en-de de-en"),
    ],
)
def test_a_wrong_choice_is_an_error_before_anything_runs(
    run, tmp_path, recipe, name, value, wrong, choices
):
    environment = {name: value, "RUN": str(tmp_path / "run")}
    done = run("bash", f"examples/{recipe}.sh", env=environment)
    assert (done.returncode, done.stdout) == (1, "") and not (tmp_path / "run").exists()
    assert re.fullmatch(f"{recipe}.sh: error: {name}={wrong}: choose from {choices}\n", done.stderr)


def test_a_run_is_not_resumed_with_different_arguments(run, tmp_path):
    """Otherwise the scores of the old arguments would be taken for those of the new ones."""

    def train(*arguments):
        script = 'source examples/lib.sh; RUN=$1; LAUNCHER=true train "${@:2}"'
        return run("bash", "-ec", script, "recipe.sh", str(tmp_path), *arguments)

    assert train("--sed", "1", "--max-update", "5").returncode == 0  # fails before it trains
    assert train("--seed", "1", "--max-update", "5").returncode == 0
    (tmp_path / "checkpoints").mkdir()
    assert train("--seed", "1", "--h", "5").returncode == 0  # fails before it saves
    assert train("--seed", "1", "--max-update", "5").returncode == 0
    (tmp_path / "checkpoints/checkpoint_last.pt").touch()
    longer = ("--seed", "1", "--max-update=9", "--bf16", "--reset-dataloader")
    assert train(*longer).returncode == 0
    done = train("--seed", "2", "--max-update", "9")
    assert done.returncode == 1 and "was started with different arguments" in done.stderr


def test_a_run_in_use_keeps_its_arguments(run, tmp_path):
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "arguments").write_text(" --seed 1\n")
    script = "source examples/lib.sh; RUN=$1; LAUNCHER=true train --seed 2"
    with hold_lock(tmp_path / "checkpoints", "in use"):
        done = run("bash", "-ec", script, "recipe.sh", str(tmp_path))
    assert done.returncode == 1 and "is in use by another training run" in done.stderr
    assert (tmp_path / "arguments").read_text() == " --seed 1\n"


def test_shared_data_is_linked_once_and_not_replaced(run, tmp_path):
    def share(data):
        script = "source examples/lib.sh; RUN=$1; DATA=$2 share_data"
        return run("bash", "-ec", script, "recipe.sh", str(tmp_path / "run"), str(tmp_path / data))

    for name in ("run", "a/data", "b/data"):
        (tmp_path / name).mkdir(parents=True)
    assert share("a").returncode == share("a").returncode == 0
    assert (tmp_path / "run/data").samefile(tmp_path / "a/data")
    assert share("b").returncode == 1 and not any((tmp_path / "a/data").iterdir())


def test_paths_of_the_user_are_relative_to_the_working_directory(run, repo, tmp_path):
    environment = {"DRY_RUN": "1", "RUN": str(tmp_path), "DATA": "data", "TABLE": "mine.yaml"}
    done = run("bash", repo / "examples/wmt14_en_de_base.sh", cwd=tmp_path, env=environment)
    assert f"--dest {tmp_path}/data --table {tmp_path}/mine.yaml" in done.stdout, done.stderr


@pytest.mark.parametrize(
    "corpus, directory, changed",
    [
        ("multi30k", "multi30k", "train.de"),
        ("tatoeba", "", "test.de"),
        ("published", "multi30k_published", "test.2016.en"),
    ],
)
def test_the_text_is_checked(run, repo, tmp_path, corpus, directory, changed):
    shared = repo.parent / "shared" / "data" / directory
    if not shared.is_dir():
        pytest.skip(f"needs the text in {shared}")
    command, places = ("bash", "examples/corpora.sh", corpus, shared), {"RUN": str(tmp_path)}
    done = run(*command, env=places)
    assert done.returncode == 0, done.stderr
    (tmp_path / "raw" / changed).unlink()
    (tmp_path / "raw" / changed).write_text("Ja.\n")
    done = run(*command, env=places)
    assert (
        done.returncode == 1
        and f"the text in {tmp_path}/raw does not match its checksums" in done.stderr
    )


def test_the_published_result_is_reproduced_with_their_batches_schedule_and_search(run, tmp_path):
    environment = {"DRY_RUN": "1", "SEEDS": "1 2", "RUN": str(tmp_path), "PRECISION": "--bf16"}
    done = run("bash", "examples/multi30k_published.sh", "tests", env=environment)
    assert done.returncode == 0 and not done.stderr
    training_commands = [line for line in done.stdout.splitlines() if "fairseq-train" in line]
    assert [line.count("--lr 0.005") for line in training_commands] == [1, 1, 0, 0, 1, 1]
    for line in training_commands:
        assert "--max-tokens 4096 --update-freq " in line and " --patience 10 " in line
        assert ("--bf16" in line) == ("--arch aiayn_tiny" in line)
    searches = [line for line in done.stdout.splitlines() if "fairseq-generate" in line]
    assert all("--gen-subset valid" in line for line in searches)
    assert [line.count("--beam 5 --lenpen 1") for line in searches] == [1, 1, 1, 0, 0, 1, 1]
    models = ":".join(f"{tmp_path}/published-{seed}/model.pt" for seed in (1, 2))
    assert f" --path {models} " in searches[2]


def test_the_published_text_is_preprocessed_once(run, tmp_path):
    environment = {"DRY_RUN": "1", "RUN": str(tmp_path)}
    first = run("bash", "examples/multi30k_published.sh", env=environment).stdout
    assert f"--destdir {tmp_path}/data.part" in first
    (tmp_path / "data").mkdir()
    again = run("bash", "examples/multi30k_published.sh", env=environment).stdout
    assert "fairseq-train" in again and "fairseq-preprocess" not in again
