"""What commands and recipes show on the terminal, and how they end after Ctrl-C."""

import json
import os
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from commands import TRAIN, after, assert_ends, wait_until

#: What fairseq and its libraries print for their developers.
DEBUGGING = ("DEBUG", "can_reuse_epoch_itr", "Warning")
#: Sources the functions of the recipes and trains on $RUN/data.
RECIPE = f"set -euo pipefail; source examples/lib.sh; begin; train {shlex.join(TRAIN)}"


@pytest.fixture
def recipe(repo, corpus, tmp_path) -> Path:
    """A recipe's RUN, with data."""
    if not (repo / ".venv").is_dir():
        pytest.skip("needs .venv: bash examples/setup.sh")
    (tmp_path / "data").symlink_to(corpus)
    return tmp_path


def test_ctrl_c_ends_a_run_after_the_update_and_saves_it(succeed, corpus, tmp_path):
    """A terminal sends the signal to every process, including those that load the data.

    Until then the training prints no debugging.
    """
    program, log = Path(sys.executable).with_name("fairseq-train"), tmp_path / "log"
    options = [corpus, *TRAIN, "--num-workers", "1", "--save-dir", tmp_path]
    with (
        open(log, "w") as file,
        subprocess.Popen(
            [program, *options],
            stdout=file,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONWARNINGS": ""},
        ) as process,
    ):
        wait_until(lambda: "num_updates=3" in log.read_text(), process)
        os.killpg(process.pid, signal.SIGINT)
        errors = process.communicate(timeout=120)[1]
    assert process.returncode == -signal.SIGINT, errors  # the shell's 130
    # torch warns about this from 2.14 on while fairseq is imported, before it reads --user-dir
    output = log.read_text() + errors
    lines = [line for line in output.splitlines() if "torch.jit.script" not in line]
    assert not [line for line in lines if any(word in line for word in DEBUGGING)]
    *_, last = errors.splitlines()
    pattern = r"fairseq-train: stopped at update (\d+); run the same command to continue"
    assert (match := re.fullmatch(pattern, last)), errors
    assert "stop_time_hours:" not in log.read_text()
    *_, validated, saved = map(json.loads, (tmp_path / "run.jsonl").read_text().splitlines())
    assert saved["event"] == "save" and validated["event"] != "validation"
    assert not list(tmp_path.glob("checkpoint_[0-9]*"))  # averages contain regular intervals only
    log = succeed("fairseq-train", *options, "--max-update", int(match[1]) + 1)
    assert f"@ {match[1]} updates)" in log.stdout and log.stdout.count("| train_inner |") == 1


def test_ctrl_c_stops_a_recipe_and_all_its_processes(recipe):
    environment = {
        **os.environ,
        "RUN": str(recipe),
        "LAUNCHER": "torchrun --standalone --nproc_per_node 2 --no-python",
    }
    process, terminal = pty.fork()
    if not process:
        command = f"{RECIPE} --disable-validation; echo went on"
        os.execvpe("bash", ["bash", "-c", command], environment)
    output, interrupted, late = b"", False, after(300)
    while True:
        if not select.select([terminal], [], [], 1)[0]:
            assert not late(), output.decode()
            continue
        try:
            output += os.read(terminal, 4096)
        except OSError:  # the end
            break
        if not interrupted and b"update 3 of 2,000, loss" in output:
            os.write(terminal, b"\x03")
            interrupted = True
    text = output.decode()
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 130, text
    shown = text.partition("^C")[2].strip()
    pattern = r"(\S*\[[#.]+\] update .*\s+)*fairseq-train: stopped at update \d+; run the same .*"
    assert re.fullmatch(pattern, shown), text
    assert_ends(recipe)


def test_a_recipe_shows_progress_and_errors_and_logs_the_rest(run, recipe):
    environment = {"RUN": str(recipe)}
    train = f"{RECIPE} --disable-validation --max-update 20"
    done = run("bash", "-c", train, env=environment)
    assert done.returncode == 0 and not done.stderr
    lines = [line for line in done.stdout.splitlines() if not line.startswith("setup.sh")]
    assert len(lines) == 10
    for number, line in enumerate(lines, 1):
        left = ", .* s left" if number < 10 else ""
        assert re.fullmatch(rf"update {2 * number} of 20, loss \d+(\.\d+)?{left}", line)
    log = (recipe / "train.log").read_text()
    assert log.count("| train_inner |") == 20

    functions, error = RECIPE.partition("train")[0], "aiayn prepare: error: --h 5"
    finished = "| INFO | … | this run has finished (--max-update 20, after 20 updates)"
    printf = rf"printf '1%%\r2%%\n{finished}\n'"  # of a progress bar, only the last state
    done = run("bash", "-c", f"{functions} log {printf}; echo went on", env=environment)
    assert done.stderr.startswith("this run has finished (") and "went on" in done.stdout
    assert (recipe / "train.log").read_text() == f"{log}2%\n{finished}\n"

    # Ctrl-C with several GPUs: the first line is the command's, the second its first process's.
    stopping, stopped = "fairseq-train: stopping after this update", "stopped at update 7; run"
    printf = f"printf '{stopping}\\n| INFO | … | {stopped}\\n'"
    done = run("bash", "-c", f"{functions} log {printf}", env=environment)
    assert done.stderr == f"{stopping}\n{stopped}\n"

    done = run(
        *("bash", "-c", f"{functions} log python -c 'exit(\"{error}\")'; echo went on"),
        env=environment,
    )
    assert (done.returncode, done.stderr) == (1, f"{error}\n") and "went on" not in done.stdout
    crash = "log python -c 'print(\"| WARNING | … | careful\"); 1/0'"
    done = run("bash", "-c", f"{functions} {crash}", env=environment)
    assert done.returncode == 1
    assert done.stderr.startswith("careful\n") and done.stderr.endswith(
        f"ZeroDivisionError: division by zero\nthe full log is in {recipe}/train.log\n"
    )


@pytest.mark.parametrize(
    "words",
    ["quickstart", "multi30k", "multi30k tests", "parsing_sample", "parsing_sample tests"]
    + ["parsing_wsj tests", "parsing_semi tests README.md", "table3", "wmt14_en_de_base"]
    + ["wmt14_en_fr_big"],
)
def test_a_dry_run_can_be_pasted_into_a_shell(dry_run, tmp_path, words):
    """Its programs are found, here as ones that do nothing, and its paths are relative."""
    output = dry_run(*words.split())
    assert "fairseq-train" in output
    assert not re.search(r"(^|[\s='\"@])/", output, re.MULTILINE), output
    programs = tmp_path / "programs"
    programs.mkdir()
    for program in "aiayn bash env fairseq-generate fairseq-train ln python".split():
        (programs / program).symlink_to("/bin/true")
    (programs / "mkdir").symlink_to(shutil.which("mkdir"))
    pasted = subprocess.run(
        ["/bin/bash", "-e"],
        input=output,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PATH": str(programs)},
    )
    assert pasted.returncode == 0 and not pasted.stderr, pasted.stderr
    assert (tmp_path / "runs").is_dir()
