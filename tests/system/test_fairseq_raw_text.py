"""Raw text in fairseq's own commands gives the translations of aiayn translate."""

import re
import shutil
from argparse import Namespace

import pytest
from commands import TRAIN
from fairseq.data import encoders
from models import load_hub

from aiayn_plugin.errors import InputError
from aiayn_plugin.text.generate_log import read_hypotheses
from aiayn_plugin.text.pipeline import TextPipeline

#: Sentences that the model memorises: with quotes, &, dashes, words of --protect-patterns and
#: rare words. Moses's detokeniser leaves spaces around <.
PAIRS = {
    '"Rock & Roll" isn\'t dead - at 15:05.': '"Rock & Roll" ist nicht tot - um 15:05.',
    "The quetzal's well-known – 80 km/h.": "Der bekannte Quetzal – er fliegt 80 km/h.",
    "Cats and/or dogs, they say, sleep.": "Katzen und/oder Hunde, sagt man, schlafen.",
    "A & B <tags> cost 5 | 6, don't they?": "A & B < tags > kosten 5 | 6, nicht wahr?",
}


@pytest.fixture(scope="module")
def learned(succeed, tmp_path_factory):
    """A run directory whose model translates PAIRS, and the log of its training."""
    folder = tmp_path_factory.mktemp("learned")
    for split, times in (("train", 40), ("valid", 1), ("test", 1)):
        for lang, side in (("en", PAIRS.keys()), ("de", PAIRS.values())):
            (folder / f"{split}.{lang}").write_text("".join(f"{x}\n" for x in [*side] * times))
    succeed(
        *("aiayn", "prepare", "-s", "en", "-t", "de", "--protect-patterns"),
        *("--merges", "60", "--destdir", folder / "data"),
        *(f"--{split}pref={folder / split}" for split in ("train", "valid", "test")),
    )
    log = succeed(
        *("fairseq-train", folder / "data", *TRAIN, "--d-model", "64", "--d-ff", "128"),
        *("--dropout", "0", "--warmup-updates", "80", "--max-tokens", "1000"),
        *("--tokens-per-update", "0", "--max-update", "150", "--validate-interval", "1000"),
        *("--eval-bleu", "--eval-bleu-print-samples", "--batch-size-valid", "1"),
        *("--save-dir", folder, "--save-interval-updates", "0", "--no-epoch-checkpoints"),
    )
    shutil.copy(folder / "checkpoint_last.pt", folder / "model.pt")
    return folder, log.stdout + log.stderr


def interactive(succeed, folder, data, lines, *flags):
    """Return the lines S-, H- and D- of fairseq-interactive, each as a list of texts."""
    (folder / "input").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    log = succeed(
        *("fairseq-interactive", data, "--user-dir", "aiayn_plugin", "--cpu"),
        *("--path", folder / "model.pt", "--input", folder / "input", *flags),
    )
    return [re.findall(rf"^{kind}-\d+\t(?:-.*\t)?(.*)$", log.stdout, re.M) for kind in "SHD"]


def samples(log):
    """Return the hypotheses that --eval-bleu-print-samples logged, by their references."""
    pairs = re.findall(r"example hypothesis: (.*)\n.*example reference: (.*)\n", log)
    return {reference: hypothesis for hypothesis, reference in pairs}


def test_all_ways_give_the_same_translation(succeed, learned):
    folder, training = learned
    lines = list(PAIRS)
    pipeline = TextPipeline.load(folder / "data")
    sources, hypotheses, texts = interactive(succeed, folder, folder / "data", lines)
    text = (folder / "input").read_bytes()
    ours = succeed("aiayn", "translate", folder, "--device", "cpu", input=text)
    assert texts == ours.stdout.splitlines()
    assert '"Rock & Roll" ' in texts[0] and texts[1].endswith(" km/h.") and ", sagt" in texts[2]
    assert sources == list(map(pipeline.encode, lines)) and "@@" in hypotheses[0]
    hub = load_hub(folder)
    assert hub.translate(lines) == texts
    assert samples(training) == dict(zip(PAIRS.values(), texts, strict=True))
    joined = interactive(succeed, folder, folder / "data", lines, "--remove-bpe")
    assert joined[1:] == [[line.replace("@@ ", "") for line in hypotheses], texts]


def test_the_time_a_run_takes_is_estimated_once(learned):
    estimates = re.findall(r"\| (\d+ updates took .*)", learned[1])
    times = r"20 updates took \d+ .*: the remaining 129 will take about \d+ (min|s)( \d+ s)?"
    assert len(estimates) == 1 and re.fullmatch(times, estimates[0])


def test_fairseqs_own_data_is_unaffected(succeed, learned, tmp_path):
    folder, _ = learned
    pipeline = TextPipeline.load(folder / "data")
    for lang, side in (("en", PAIRS.keys()), ("de", PAIRS.values())):
        lines = [pipeline.encode(line, lang) for line in side]
        (tmp_path / f"valid.{lang}").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    dictionaries = [f"--{side}dict={folder}/data/dict.en.txt" for side in ("src", "tgt")]
    succeed(
        *("fairseq-preprocess", "-s", "en", "-t", "de", *dictionaries),
        *("--validpref", tmp_path / "valid", "--destdir", tmp_path / "data"),
    )
    subwords = list(map(pipeline.encode, PAIRS))
    sources, hypotheses, texts = interactive(succeed, folder, tmp_path / "data", subwords)
    assert sources == subwords and texts == hypotheses and "@@" in texts[0]
    hub = load_hub(folder, tmp_path / "data")
    assert (hub.tokenizer, hub.bpe) == (None, None) and hub.translate(subwords) == texts
    log = succeed(
        *("fairseq-validate", tmp_path / "data", "--user-dir", "aiayn_plugin", "--cpu"),
        *("--path", folder / "model.pt", "--eval-bleu", "--eval-bleu-print-samples"),
        *("--batch-size", "1"),
    )
    targets = [pipeline.encode(line, "de") for line in PAIRS.values()]
    assert samples(log.stdout + log.stderr) == dict(zip(targets, texts, strict=True))


def test_user_options_override_the_defaults(succeed, learned):
    folder, _ = learned
    data, codes = folder / "data", folder / "data" / "codes.bpe"
    subword_nmt = ["--bpe", "subword_nmt", "--bpe-codes", codes]
    pipeline = TextPipeline.load(data)
    lines = list(PAIRS)
    # Without a tokeniser, fairseq joins subwords only.
    tokens = [" ".join(pipeline.tokenize(line)) for line in lines]
    sources, hypotheses, texts = interactive(succeed, folder, data, tokens, *subword_nmt)
    assert sources == list(map(pipeline.encode, lines))
    assert texts == [line.replace("@@ ", "") for line in hypotheses]
    # fairseq's Moses escapes characters; it needs the languages, which the data names.
    by_data = interactive(succeed, folder, data, lines, "--tokenizer", "moses", *subword_nmt)
    langs = ["-s", "en", "-t", "de", "--tokenizer", "moses"]
    assert by_data == interactive(succeed, folder, data, lines, *langs, *subword_nmt)
    assert "<unk>" in by_data[0][0]
    nothing = interactive(succeed, folder, data, sources, "--tokenizer", "space")
    assert nothing == [sources, hypotheses, hypotheses]
    hub = load_hub(folder, bpe="subword_nmt", bpe_codes=str(codes))
    assert hub.tokenizer is None and hub.translate(tokens) == texts
    assert hub.translate(tokens, 1) == hub.translate(tokens, beam=1)
    log = succeed(
        *("fairseq-validate", data, "--user-dir", "aiayn_plugin", "--path", folder / "model.pt"),
        *("--cpu", "--eval-bleu", "--eval-bleu-print-samples", "--batch-size", "1"),
        *("--eval-bleu-detok", "space"),
    )
    assert sorted(samples(log.stdout + log.stderr).values()) == sorted(hypotheses)


def test_generate_writes_raw_text_only_on_request(succeed, learned):
    folder, _ = learned
    pipeline = TextPipeline.load(folder / "data")
    logs = [
        succeed(
            *("fairseq-generate", folder / "data", "--user-dir", "aiayn_plugin", "--cpu"),
            *("--path", folder / "model.pt", *flags),
        ).stdout.splitlines()
        for flags in ([], ["--tokenizer", "aiayn", "--bpe", "aiayn"])
    ]
    subwords = read_hypotheses(logs[0])
    assert subwords == read_hypotheses(logs[1]) and "@@" in subwords[0]
    for log, expected in ((logs[0], subwords), (logs[1], list(map(pipeline.decode, subwords)))):
        texts = {line[2]: line.split("\t")[2] for line in log if line.startswith("D-")}
        assert [texts[str(number)] for number in range(len(PAIRS))] == expected


def test_no_checkpoint_names_the_files(learned):
    """--eval-bleu-detok-args are options of a tokenizer, and a checkpoint has them."""
    folder, _ = learned
    with pytest.raises(InputError, match="reads the data of a task"):
        encoders.build_tokenizer(Namespace(tokenizer="aiayn", data=str(folder / "data")))
