"""The recipes for CPUs start two processes and choose the processor's precision."""

import os
import re
import shutil

import pytest
import torch
from commands import write_program

from aiayn_plugin.atomic import hold_lock

LAUNCHER = "torchrun --standalone --nproc_per_node 2 --no-python fairseq-train "


def training(output: str) -> list[str]:
    """Return the commands with which a recipe trains, in the output of a dry run."""
    return [line for line in output.splitlines() if "fairseq-train" in line]


@pytest.fixture
def call(run, tmp_path):
    """`call(SCRIPT, ...)` runs a script after sourcing lib.sh; RUN is tmp_path."""

    def run_script(script: str, *arguments: str, **environment: str):
        script = f"set -euo pipefail; source examples/lib.sh; {script}"
        environment = {"RUN": str(tmp_path), **environment}
        return run("bash", "-c", script, "recipe.sh", *arguments, env=environment)

    return run_script


@pytest.mark.parametrize(
    "recipe, cores, has_gpu, precision",
    [
        *(("quickstart", 1, False, ""), ("quickstart", 2, False, "--bf16")),
        *(("quickstart", 16, True, ""), ("multi30k", 2, False, ""), ("tatoeba", 2, False, "")),
    ],
)
def test_small_models_train_in_two_processes_unless_there_is_a_gpu(
    dry_run, tmp_path, recipe, cores, has_gpu, precision
):
    write_program(tmp_path / "nproc", f"echo {cores}")
    write_program(tmp_path / "nvidia-smi", "echo 'a GPU'" if has_gpu else "exit 1")
    path = f"{tmp_path}:{os.environ['PATH']}"
    output = dry_run(recipe, PRECISION=precision, RUN=str(tmp_path / "run"), PATH=path)
    [command] = training(output)
    assert (LAUNCHER in command) == (cores > 1 and not has_gpu)
    assert ("--bf16" in command) == bool(precision)


def test_a_gpu_that_torch_cannot_use_gives_a_warning(call, tmp_path):
    if torch.cuda.is_available():
        pytest.skip("has a GPU")
    write_program(tmp_path / "nvidia-smi", "echo 'a GPU'")
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = call("find_gpu; has_gpu || echo none", PATH=path)
    assert done.stdout == "none\n"
    assert done.stderr.startswith(
        "recipe.sh: warning: torch cannot use the GPU, so the CPU is used"
    )


@pytest.mark.parametrize(
    "command, status", [("no-such-command", 127), ("bash -c 'kill -9 $$'", 137)]
)
def test_a_command_that_fails_without_a_message_is_named(call, tmp_path, command, status):
    done = call(f"log {command}; echo continued")
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
def test_a_short_run_averages_the_checkpoints_it_has(call, tmp_path, saved):
    (tmp_path / "checkpoints").mkdir()
    for name in ("last", *(f"1_{n}" for n in range(saved))):
        (tmp_path / f"checkpoints/checkpoint_{name}.pt").touch()
    done = call("aiayn() { echo $*; }; average 5")
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


def test_bfloat16_is_the_default_of_processors_that_have_it(dry_run, tmp_path, monkeypatch):
    if shutil.which("nvidia-smi"):
        pytest.skip("has a GPU")
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        flags = file.read().split()
    monkeypatch.delenv("PRECISION", raising=False)
    [command] = training(dry_run("multi30k", RUN=str(tmp_path)))
    assert ("--bf16" in command) == ("avx512_bf16" in flags or "amx_bf16" in flags)


@pytest.mark.parametrize("recipe, arguments", [("quickstart", []), ("multi30k", ["tests"])])
def test_arguments_go_to_fairseq_train_and_take_precedence(dry_run, tmp_path, recipe, arguments):
    given = [*arguments, "--seed", "2", "--max-update", "7"]
    [command] = training(dry_run(recipe, *given, PRECISION="", RUN=str(tmp_path)))
    assert command.rstrip().endswith("--seed 2 --max-update 7")
    assert not list(tmp_path.iterdir())


def test_tatoeba_translates_in_the_other_direction(dry_run, tmp_path):
    output = dry_run("tatoeba", "tests", DIRECTION="de-en", RUN=str(tmp_path))
    assert "aiayn prepare -s de -t en " in output
    for precision in ("int8", "bfloat16"):
        files = f"< {tmp_path}/raw/newstest2014.de > {tmp_path}/newstest2014.{precision}.en"
        assert files in output


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


def test_a_run_is_not_resumed_with_different_arguments(call, tmp_path):
    """Otherwise the scores of the old arguments would be taken for those of the new ones."""

    tmp_path = tmp_path / "run [1]"
    tmp_path.mkdir()

    def train(*arguments):
        return call('train "$@"', *arguments, LAUNCHER="true", RUN=str(tmp_path))

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


def test_a_run_in_use_keeps_its_arguments(call, tmp_path):
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "arguments").write_text(" --seed 1\n")
    with hold_lock(tmp_path / "checkpoints", "in use"):
        done = call("train --seed 2", LAUNCHER="true")
    assert done.returncode == 1 and "is in use by another training run" in done.stderr
    assert (tmp_path / "arguments").read_text() == " --seed 1\n"


def test_shared_data_is_linked_once_and_not_replaced(call, tmp_path):
    def share(data):
        return call("share_data", RUN=str(tmp_path / "run"), DATA=str(tmp_path / data))

    for name in ("run", "a/data", "b/data"):
        (tmp_path / name).mkdir(parents=True)
    assert share("a").returncode == share("a").returncode == 0
    assert (tmp_path / "run/data").samefile(tmp_path / "a/data")
    assert share("b").returncode == 1 and not any((tmp_path / "a/data").iterdir())


def test_paths_of_the_user_are_relative_to_the_working_directory(dry_run, tmp_path):
    environment = {"RUN": str(tmp_path), "DATA": "data", "TABLE": "mine.yaml"}
    output = dry_run("wmt14_en_de_base", cwd=tmp_path, **environment)
    assert f"--dest {tmp_path}/data --table {tmp_path}/mine.yaml" in output


@pytest.mark.parametrize(
    "corpus, directory, changed",
    [
        ("multi30k", "multi30k", "train.de"),
        ("tatoeba", "", "test.de"),
        ("published", "multi30k_published", "test.2016.en"),
    ],
)
def test_the_text_is_checked(run, succeed, repo, tmp_path, corpus, directory, changed):
    shared = repo.parent / "shared" / "data" / directory
    if not shared.is_dir():
        pytest.skip(f"needs the text in {shared}")
    command, places = ("bash", "examples/corpora.sh", corpus, shared), {"RUN": str(tmp_path)}
    succeed(*command, env=places)
    (tmp_path / "raw" / changed).unlink()
    (tmp_path / "raw" / changed).write_text("Ja.\n")
    done = run(*command, env=places)
    assert (
        done.returncode == 1
        and f"the text in {tmp_path}/raw does not match its checksums" in done.stderr
    )


def test_the_published_result_has_their_batches_schedule_and_search(dry_run, tmp_path):
    environment = {"SEEDS": "1 2", "RUN": str(tmp_path), "PRECISION": "--bf16"}
    output = dry_run("multi30k_published", "tests", **environment)
    assert [line.count("--lr 0.005") for line in training(output)] == [1, 1, 0, 0, 1, 1]
    for line in training(output):
        assert "--max-tokens 4096 --update-freq " in line and " --patience 10 " in line
        assert ("--bf16" in line) == ("--arch aiayn_tiny" in line)
    searches = [line for line in output.splitlines() if "fairseq-generate" in line]
    assert all("--gen-subset valid" in line for line in searches)
    assert [line.count("--beam 5 --lenpen 1") for line in searches] == [1, 1, 1, 0, 0, 1, 1]
    models = ":".join(f"{tmp_path}/published-{seed}/model.pt" for seed in (1, 2))
    assert f" --path {models} " in searches[2]


def test_the_published_text_is_preprocessed_once(dry_run, tmp_path):
    first = dry_run("multi30k_published", RUN=str(tmp_path))
    assert f"--destdir {tmp_path}/data.part" in first
    (tmp_path / "data").mkdir()
    again = dry_run("multi30k_published", RUN=str(tmp_path))
    assert "fairseq-train" in again and "fairseq-preprocess" not in again
