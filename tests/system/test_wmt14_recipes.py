"""The recipes of Table 2, with a miniature of WMT 2014 and a small model."""

import os
import re
import shutil

import pytest
from commands import write_program
from mirror import serve

from aiayn_plugin.text.dictionary import Vocabulary, read_dictionary
from aiayn_plugin.text.generate_log import read_hypotheses
from aiayn_plugin.text.lines import read_lines
from aiayn_plugin.text.pipeline import TextPipeline

RECIPES = {
    "en_de_base": ("en-de", "aiayn_base", 5, 27.3),
    "en_de_big": ("en-de", "aiayn_big", 20, 28.4),
    "en_fr_base": ("en-fr", "aiayn_base", 5, 38.1),
    "en_fr_big": ("en-fr", "aiayn_big_en_fr", 20, 41.8),
}


@pytest.mark.parametrize("name", RECIPES)
def test_a_dry_run_prints_commands_without_running_them(dry_run, tmp_path, name):
    pair, arch, checkpoints, bleu = RECIPES[name]
    environment = {
        **{"RUN": str(tmp_path / "run"), "DATA": str(tmp_path / "data")},
        **{"PRECISION": "--bf16", "PREPARE": "--protect-patterns", "MAX_TOKENS": "4096"},
    }
    output = dry_run(f"wmt14_{name}", "--seed", "5", **environment)
    for part in (
        f"aiayn wmt14 {pair} --dest {tmp_path}/data --protect-patterns",
        f"fairseq-train {tmp_path}/run/data --user-dir aiayn_plugin ",
        f"--arch {arch} --max-tokens 4096 --bf16 --log-format simple --log-interval 100 --seed 5",
        f"--num-update-checkpoints {checkpoints} ",
        "--gen-subset test --beam 4 --lenpen 0.6 --batch-size 64 > ",
        "aiayn score ",
        f"(Table 2, {arch}): BLEU {bleu}",
    ):
        assert part in output, output
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "memory, capability, given, options",
    [
        ("24576", "8.0", "", "--max-tokens 12288 --bf16"),
        ("81920\n16384", "10.0", "", "--max-tokens 8192 --bf16"),  # the smallest GPU
        ("143771", "9.0\n7.0", "", "--max-tokens 30000 --fp16"),  # the oldest GPU
        ("[N/A]", "[N/A]", "", "--max-tokens 4096 --bf16"),
        ("24576", "8.0", "500", "--max-tokens 500 --bf16"),
    ],
)
def test_memory_and_capability_of_the_gpus_set_batch_and_precision(
    dry_run, tmp_path, monkeypatch, memory, capability, given, options
):
    script = f"case $* in *memory.total*) echo '{memory}' ;; *) echo '{capability}' ;; esac"
    write_program(tmp_path / "nvidia-smi", script)
    monkeypatch.delenv("PRECISION", raising=False)
    path = f"{tmp_path}:{os.environ['PATH']}"
    output = dry_run("wmt14_en_de_base", MAX_TOKENS=given, PATH=path)
    assert f" {options} --log-format" in output and " --num-workers 4 " in output


@pytest.fixture(scope="module")
def recipe(run, repo, tmp_path_factory):
    """The directory and output of the English-French recipe with five updates of a tiny model."""
    if not (repo / ".venv").is_dir():
        pytest.skip("needs .venv: bash examples/setup.sh")
    shutil.which("curl") or pytest.skip("needs curl")
    folder = tmp_path_factory.mktemp("recipe")
    with serve(pairs=60) as mirror:
        places = {
            "RUN": str(folder / "run"),
            "DATA": str(folder / "data"),
            "TABLE": str(mirror.table(folder / "table.yaml")),
        }
        done = run(
            *("bash", "examples/wmt14_en_fr_base.sh", "--arch", "aiayn_tiny", "--max-update", "5"),
            *("--save-interval-updates", "1", "--disable-validation", "--cpu"),
            env={"PRECISION": "", **places},
        )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "run", done.stdout


def test_the_recipe_leads_from_the_public_files_to_both_scores(recipe):
    folder, output = recipe
    assert "paper BLEU" in output and "sacreBLEU" in output
    assert output.endswith(
        "(Table 2, aiayn_base): BLEU 38.1, to compare with the paper BLEU above.\n"
    )
    assert len((folder / "translation.txt").read_text("utf-8").splitlines()) == 20
    assert "▁" not in (folder / "translation.txt").read_text("utf-8")


def test_word_pieces_work_in_every_command(run, succeed, recipe, repo):
    folder, _ = recipe
    model = ("--user-dir", repo / "aiayn_plugin", "--path", folder / "model.pt", "--beam", "2")
    source = folder / "data" / "test.raw.en"
    done = succeed(
        *("fairseq-interactive", folder / "data", *model, "--input", source, "--cpu"),
        *("--max-len-b", "8"),
    )
    pipeline = TextPipeline.load(folder / "data")
    texts = [pipeline.decode(line) for line in read_hypotheses(done.stdout.splitlines())]
    assert re.findall(r"^D-\d+\t.*\t(.*)$", done.stdout, re.MULTILINE) == texts
    vocabulary = Vocabulary(read_dictionary(folder / "data" / "dict.en.txt"))
    token_ids = [vocabulary.encode(pipeline.encode(line).split()) for line in read_lines(source)]
    sources = [" ".join(vocabulary.decode(line)) for line in token_ids]
    assert re.findall(r"^S-\d+\t(.*)$", done.stdout, re.MULTILINE) == sources
    assert len(texts) == 20
    done = succeed("aiayn", "translate", folder, input=source.read_bytes())
    assert len(done.stdout.splitlines()) == 20 and "▁" not in done.stdout
    done = succeed(
        *("fairseq-generate", folder / "data", *model[:4], "--cpu"),
        *("--remove-bpe", "sentencepiece"),
    )
    (folder / "joined.log").write_text(done.stdout)
    scores = [
        run("aiayn", "score", folder / name, "--data", folder / "data").stdout
        for name in ("joined.log", "generate.log")
    ]
    assert scores[0] == scores[1] and "paper BLEU" in scores[0]
