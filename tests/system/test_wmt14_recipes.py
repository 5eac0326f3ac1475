"""The recipes of Table 2, with the miniature of WMT 2014's files and a model of two minutes."""

import os
from pathlib import Path

import pytest
from mirror import serve

RECIPES = {
    "en_de_base": ("en-de", "aiayn_base", 5, 27.3),
    "en_de_big": ("en-de", "aiayn_big", 20, 28.4),
    "en_fr_base": ("en-fr", "aiayn_base", 5, 38.1),
    "en_fr_big": ("en-fr", "aiayn_big_en_fr", 20, 41.8),
}


@pytest.mark.parametrize("name", RECIPES)
def test_dry_run_prints_every_command_and_runs_none(run, tmp_path, name):
    pair, arch, checkpoints, bleu = RECIPES[name]
    places = {"RUN": str(tmp_path / "run"), "DATA": str(tmp_path / "data")}
    done = run(
        "bash",
        f"examples/wmt14_{name}.sh",
        "--seed",
        "5",
        env={"DRY_RUN": "1", "PRECISION": "--bf16", "PREPARE": "--protect-patterns", **places},
    )
    assert done.returncode == 0 and not done.stderr
    for part in (
        f"python preprocess/wmt14.py {pair} --dest {tmp_path}/data --protect-patterns",
        f"fairseq-train {tmp_path}/run/data --user-dir aiayn_plugin ",
        f"--arch {arch} --max-tokens 4096 --bf16 --log-format simple --log-interval 100 --seed 5",
        f"--num-update-checkpoints {checkpoints} ",
        "--gen-subset test --beam 4 --lenpen 0.6 --batch-size 64 > ",
        "aiayn score ",
        f"(Table 2, {arch}): BLEU {bleu}",
    ):
        assert part in done.stdout, done.stdout
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "gpus, given, tokens",
    [
        ("24576", "", 12288),
        ("81920\n16384", "", 8192),
        ("143771", "", 30000),
        ("[N/A]", "", 4096),
        ("24576", "500", 500),
    ],
)
def test_a_batch_is_as_large_as_the_smallest_gpu_has_room_for(run, tmp_path, gpus, given, tokens):
    smi = tmp_path / "nvidia-smi"
    smi.write_text(f"#!/bin/sh\necho '{gpus}'\n")
    smi.chmod(0o755)
    done = run(
        "bash",
        "examples/wmt14_en_de_base.sh",
        env={"DRY_RUN": "1", "MAX_TOKENS": given, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    assert done.returncode == 0 and not done.stderr
    assert f"--max-tokens {tokens} --bf16" in done.stdout


@pytest.mark.parametrize(
    "capability, precision",
    [
        ("8.0", "--bf16"),
        ("10.0", "--bf16"),
        ("9.0\n7.0", "--fp16"),
        ("[N/A]", "--bf16"),
    ],
)
def test_a_gpu_without_bfloat16_takes_float16(run, tmp_path, capability, precision):
    smi = tmp_path / "nvidia-smi"
    smi.write_text(f"#!/bin/sh\necho '{capability}'\n")
    smi.chmod(0o755)
    environment = {key: value for key, value in os.environ.items() if key != "PRECISION"}
    done = run(
        "bash",
        "examples/wmt14_en_de_base.sh",
        env={**environment, "DRY_RUN": "1", "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    assert done.returncode == 0 and not done.stderr
    assert f" {precision} --log-format" in done.stdout


@pytest.fixture(scope="module")
def recipe(run, repo, tmp_path_factory):
    """One run of the English-French recipe, stopped after a few updates of a tiny model."""
    if not (repo / ".venv").is_dir():
        pytest.skip("needs .venv, which examples/setup.sh makes")
    folder = tmp_path_factory.mktemp("recipe")
    with serve(pairs=60) as mirror:
        places = {
            "RUN": str(folder / "run"),
            "DATA": str(folder / "data"),
            "TABLE": str(mirror.table(folder / "table.yaml")),
        }
        done = run(
            *("bash", "examples/wmt14_en_fr_base.sh", "--arch", "aiayn_tiny", "--max-update", "8"),
            *("--save-interval-updates", "1", "--keep-interval-updates", "20", "--cpu"),
            env={"PRECISION": "", **places},
        )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "run", done.stdout


def test_recipe_goes_from_the_public_files_to_both_scores(recipe):
    folder, output = recipe
    assert "paper BLEU" in output and "sacreBLEU" in output
    assert output.endswith(
        "(Table 2, aiayn_base): BLEU 38.1, to compare with the paper BLEU above.\n"
    )
    assert len((folder / "translation.txt").read_text("utf-8").splitlines()) == 20
    assert "▁" not in (folder / "translation.txt").read_text("utf-8")


def test_word_pieces_serve_every_command_that_bpe_serves(run, recipe, repo):
    folder, _ = recipe
    model = ("--user-dir", repo / "aiayn_plugin", "--path", folder / "model.pt", "--beam", "2")
    source = folder / "data" / "test.raw.en"
    done = run(
        *("fairseq-interactive", folder / "data", *model, "--input", source, "--cpu"),
        *("--bpe", "sentencepiece", "--sentencepiece-model", folder / "data/wordpieces.model"),
    )
    assert done.returncode == 0, done.stderr
    detokenised = [line for line in done.stdout.splitlines() if line.startswith("D-")]
    assert len(detokenised) == 20 and "▁" not in "".join(detokenised)
    done = run("bash", "-c", f"aiayn translate '{folder}' < '{source}'")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 20 and "▁" not in done.stdout
    log = folder / "joined.log"
    done = run(
        "bash",
        "-c",
        f"fairseq-generate '{folder}/data' --user-dir aiayn_plugin --cpu "
        f"--path '{folder}/model.pt' --remove-bpe sentencepiece > '{log}'",
    )
    assert done.returncode == 0, done.stderr
    scores = [
        run("aiayn", "score", name, "--data", folder / "data").stdout
        for name in (log, Path(folder / "generate.log"))
    ]
    assert scores[0] == scores[1] and "paper BLEU" in scores[0]
