"""The recipes for a CPU start two processes, and take the precision that the processor has."""

import os
import shutil

import pytest

START = "torchrun --standalone --nproc_per_node 2 --no-python fairseq-train "


@pytest.mark.parametrize("recipe", ["quickstart", "multi30k"])
@pytest.mark.parametrize(
    "cores, gpu, precision",
    [
        (1, False, ""),
        (2, False, ""),
        (8, False, "--bf16"),
        (16, True, "--bf16"),
        (16, True, ""),
    ],
)
def test_small_models_take_two_processes_where_there_is_no_gpu(
    run, tmp_path, recipe, cores, gpu, precision
):
    for name, answer in (("getconf", cores), ("nvidia-smi", "a GPU"))[: 1 + gpu]:
        (tmp_path / name).write_text(f"#!/bin/sh\necho '{answer}'\n")
        (tmp_path / name).chmod(0o755)
    done = run(
        "bash",
        f"examples/{recipe}.sh",
        env={
            "DRY_RUN": "1",
            "PRECISION": precision,
            "RUN": str(tmp_path / "run"),
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
        },
    )
    assert done.returncode == 0 and not done.stderr
    assert (START in done.stdout) == (cores > 1 and not gpu)
    assert ("--bf16" in done.stdout) == bool(precision)


def test_half_precision_is_for_processors_that_have_it(run, tmp_path):
    if shutil.which("nvidia-smi"):
        pytest.skip("has a GPU")
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        flags = file.read().split()
    environment = {key: value for key, value in os.environ.items() if key != "PRECISION"}
    done = run(
        "bash", "examples/multi30k.sh", env={**environment, "DRY_RUN": "1", "RUN": str(tmp_path)}
    )
    assert ("--bf16" in done.stdout) == ("avx512_bf16" in flags or "amx_bf16" in flags)


@pytest.mark.parametrize(
    "recipe, given",
    [
        ("quickstart", []),
        ("multi30k", []),
        ("multi30k", ["tests"]),
    ],
)
def test_further_arguments_go_to_fairseq_train_and_win(run, tmp_path, recipe, given):
    done = run(
        "bash",
        f"examples/{recipe}.sh",
        *given,
        "--seed",
        "2",
        "--max-update",
        "7",
        env={"DRY_RUN": "1", "PRECISION": "", "RUN": str(tmp_path)},
    )
    assert done.returncode == 0 and not done.stderr
    line = next(line for line in done.stdout.splitlines() if "fairseq-train" in line)
    assert line.rstrip().endswith("--seed 2 --max-update 7")
    assert not list(tmp_path.iterdir())
