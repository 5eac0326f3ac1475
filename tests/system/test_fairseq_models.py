"""fairseq's own models and searches still work with the plugin loaded."""

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import PLUGIN

PAIR = ["-s", "in", "-t", "out"]
#: The search and the batches of fairseq's own task.
STOCK = ["--task", "translation", "--required-batch-size-multiple", "1"]
#: A small model of the plugin, after three updates.
PLUGINS = (
    "--arch aiayn_tiny --N 1 --d-model 8 --d-ff 8 --tie-embeddings target --max-update 3".split()
)
SMALL = ["--encoder-embed-dim", "8", "--decoder-embed-dim", "8"]
#: fairseq's models, including ConvS2S, one of the paper's baselines.
MODELS = {
    "fconv": [
        *("--arch", "fconv", *SMALL, "--encoder-layers", "[(8, 3), (8, 3)]"),
        *("--decoder-layers", "[(8, 3), (8, 3)]", "--decoder-out-embed-dim", "8"),
    ],
    "lstm": [
        *("--arch", "lstm", *SMALL, "--encoder-hidden-size", "8", "--encoder-bidirectional"),
        *("--decoder-out-embed-dim", "8", "--decoder-hidden-size", "8"),
    ],
    "lightconv": [
        *("--arch", "lightconv_iwslt_de_en", *SMALL, "--encoder-conv-type", "lightweight"),
        *("--decoder-conv-type", "lightweight"),
    ],
    "transformer": [
        *("--arch", "transformer", *SMALL, "--encoder-layers", "2", "--decoder-layers", "2"),
        *("--encoder-ffn-embed-dim", "8", "--decoder-ffn-embed-dim", "8"),
    ],
}
#: Sentences of the validation set: not a multiple of 8.
VALID = 30


@pytest.fixture(scope="module")
def fairseq(run) -> Callable[..., str]:
    """`fairseq(command, …)` runs a command with the plugin loaded and returns its output."""

    def succeed(*command: str | Path, status: int = 0) -> str:
        log = run(*command, "--user-dir", PLUGIN, timeout=120)
        output = log.stdout + log.stderr
        assert log.returncode == status and "Traceback" not in output, output
        return output

    return succeed


@pytest.fixture(scope="module")
def data(request, fairseq, tmp_path_factory) -> list[str | Path]:
    """Data of letters, made with fairseq-preprocess only, and the options to read it."""
    impl_name = getattr(request, "param", "mmap")
    folder, rng = tmp_path_factory.mktemp("letters"), random.Random(1)
    for split, number in (("train", 100), ("valid", VALID), ("test", VALID)):
        for lang in PAIR[1::2]:
            lines = (
                " ".join(rng.choices("abcdefgh", k=rng.randint(1, 12))) + "\n"
                for _ in range(number)
            )
            (folder / f"{split}.{lang}").write_text("".join(lines))
        (folder / f"{split}.align").write_text("0-0\n" * number)
    impl = ["--dataset-impl", impl_name]
    alignments = (
        ["--align-suffix", "align"] if impl_name == "mmap" else []
    )  # raw data has no alignments
    prefixes = [f"--{split}pref={folder / split}" for split in ("train", "valid", "test")]
    dest = folder / "data"
    fairseq("fairseq-preprocess", *PAIR, *prefixes, "--destdir", dest, *impl, *alignments)
    return [dest, *PAIR, *impl, "--cpu", "--num-workers", "0"]


def generated(output: str) -> list[str]:
    """Return the hypotheses in fairseq-generate's output, with indices and scores."""
    return sorted(re.findall(r"^H-.*", output, re.MULTILINE))


def assert_same(found: list[str], expected: list[str]) -> None:
    """Check for equal indices and tokens; scores may differ by float32's summation order."""
    both = [[line.split("\t") for line in lines] for lines in (found, expected)]
    texts, theirs = ([(number, text) for number, _, text in lines] for lines in both)
    assert texts == theirs
    scores, theirs = ([float(score) for _, score, _ in lines] for lines in both)
    assert scores == pytest.approx(theirs, abs=1e-5)


def generate(fairseq, data, path, *flags: str) -> str:
    """Return the output of fairseq-generate for the validation set."""
    options = ["--path", path, "--gen-subset", "valid", "--batch-size", "16"]
    return fairseq("fairseq-generate", *data, *options, *flags)


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_fairseqs_models_train_and_translate(fairseq, data, tmp_path, name):
    fairseq(
        *("fairseq-train", *data, *MODELS[name], "--optimizer", "nag", "--lr", "0.05"),
        *("--max-tokens", "200", "--max-epoch", "1", "--update-freq", "3", "--save-dir", tmp_path),
        *("--eval-bleu", "--eval-bleu-args", '{"beam": 2, "max_len_b": 5}'),
    )
    path = tmp_path / "checkpoint_last.pt"
    ours = generate(fairseq, data, path, "--max-len-b", "12")
    assert len(generated(ours)) == VALID, "no sentence is lost"
    says = re.findall(r"(\w+): using fairseq's search, with --beam 4, --lenpen 0.6 \(", ours)
    assert len(says) == (name != "transformer")
    for flags in ([], ["--lenpen", "0.3", "--nbest", "2"], ["--prefix-size", "2"]):
        flags += ["--max-len-b", "12"]
        theirs = generate(fairseq, data, path, *STOCK, *flags)
        ours = generate(fairseq, data, path, "--length-penalty", "fairseq", *flags)
        assert generated(ours) == generated(theirs), "fairseq's search, with its defaults"
    with_attention = generate(fairseq, data, path, "--print-alignment", "--max-len-b", "5")
    assert len(re.findall(r"^A-", with_attention, re.MULTILINE)) == VALID


def test_a_task_without_a_dataclass_saves_its_checkpoints(fairseq, corpus, tmp_path):
    options = "--task translation_multi_simple_epoch --langs en,de --lang-pairs en-de".split()
    options += "--optimizer nag --lr 0.05 --max-tokens 500 --cpu --num-workers 0".split()
    options += "--max-update 2 --save-interval-updates 1 --no-epoch-checkpoints".split()
    fairseq("fairseq-train", corpus, *options, *MODELS["transformer"], "--save-dir", tmp_path)
    assert (tmp_path / "checkpoint_last.pt").is_file()


@pytest.mark.long
def test_fairseqs_searches_with_the_plugins_model(fairseq, data, tmp_path):
    fairseq("fairseq-train", *data, *PLUGINS, "--save-dir", tmp_path)
    path = tmp_path / "checkpoint_last.pt"
    for flags, number in [
        ("--sampling --nbest 5", 5),  # fairseq's beam is 5
        ("--sampling --sampling-topk 3 --temperature 2 --beam 2 --nbest 2", 2),
        ("--sampling --sampling-topp 0.2 --beam 2 --nbest 2", 2),
        ("--diversity-rate 0.5 --beam 6", 1),
        # With several batches fairseq's own fails: it confuses sentence index and row.
        (f"--diverse-beam-groups 2 --beam 4 --batch-size {VALID}", 1),
        ("--match-source-len", 1),
    ]:
        words = flags.split()
        ours = generate(fairseq, data, path, *words)
        assert len(generated(ours)) == number * VALID, flags
        assert f"{words[0]}: using fairseq's search, with --beam" in ours
        theirs = generate(fairseq, data, path, *words, *STOCK)
        assert_same(generated(ours), generated(theirs))


@pytest.mark.long
@pytest.mark.parametrize("data", ["mmap", "raw"], indirect=True)
def test_the_plugins_model_with_fairseqs_components(run, fairseq, data, tmp_path):
    """fairseq's task, its loss with alignments, and its scorer."""
    command = ["fairseq-train", *data, *PLUGINS, "--log-format", "simple"]
    fairseq(*command, "--task", "translation", "--save-dir", tmp_path / "theirs")
    path = tmp_path / "theirs" / "checkpoint_last.pt"
    found = generate(fairseq, data, path, "--max-len-b", "9")
    assert len(generated(found)) == VALID
    if "raw" not in data:
        log = fairseq(
            *(*command, "--load-alignments", "--save-dir", tmp_path / "aligned"),
            *("--criterion", "label_smoothed_cross_entropy_with_alignment"),
        )
        assert re.search(r"alignment_loss (?!0 )[\d.]+ ", log), "it reads the model's attention"
    for mark, name in (("H-\\S+\t\\S+", "sys"), ("T-\\S+", "ref")):
        lines = re.findall(rf"^{mark}\t(.*)", found, re.MULTILINE)
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    scored = run("fairseq-score", "--sys", tmp_path / "sys", "--ref", tmp_path / "ref").stdout
    assert "BLEU4 = " in scored


@pytest.mark.long
def test_sentences_too_long_for_a_model(fairseq, data, tmp_path):
    command = [
        *("fairseq-train", *data, *MODELS["fconv"], "--optimizer", "nag", "--lr", "0.05"),
        *("--max-tokens", "200", "--max-update", "2", "--max-target-positions", "5"),
        *("--save-dir", tmp_path),
    ]
    refused = fairseq(*command, status=1)
    skip = "--skip-invalid-size-inputs-valid-test"
    assert refused.strip().endswith(f"or skip these sentences with {skip}")
    fairseq(*command, skip)
    short = generated(generate(fairseq, data, tmp_path / "checkpoint_last.pt", skip))
    assert 0 < len(short) < VALID
