"""fairseq's models converted to the plugin's and back: whole commands, same hypotheses."""

import argparse
import json
import math
import re
import statistics

import pytest
import torch
from commands import STOCK_TRAINING, losses, stock_model

from aiayn_plugin.errors import InputError
from aiayn_plugin.fairseq_plugin.convert import convert
from aiayn_plugin.fairseq_plugin.model import AiaynTransformer


def hypotheses(log):
    """Return number, score and words of each hypothesis of fairseq-generate."""
    return sorted(re.findall(r"^H-(\d+)\t(\S+)\t(.*)$", log.stdout, re.MULTILINE))


@pytest.fixture(scope="module")
def stock(succeed, corpus, tmp_path_factory):
    """A fairseq model, barely trained, without the plugin."""
    folder = tmp_path_factory.mktemp("stock")
    succeed(
        *("fairseq-train", corpus, *stock_model(32, 64, 4), *STOCK_TRAINING, "--lr", "0.005"),
        *("--warmup-updates", "10", "--max-tokens", "2000", "--max-update", "40"),
        *("-s", "en", "-t", "de", "--save-dir", folder),
    )
    return folder / "checkpoint_last.pt"


def test_conversion_round_trip(succeed, corpus, stock, tmp_path):
    generate = [
        *("fairseq-generate", corpus, "--cpu", "--gen-subset", "valid", "--max-len-b", "8"),
        *("--batch-size", "100", "--required-batch-size-multiple", "1", "--beam", "4"),
    ]
    ours = ["--user-dir", "aiayn_plugin"]
    for source, target in ((stock, "ours.pt"), ("ours.pt", "theirs.pt")):
        succeed("aiayn", "convert", "--input", source, "--output", target, cwd=tmp_path)
    languages = {"source": "en", "target": "de"}
    for name in ("ours.pt", "theirs.pt"):
        assert torch.load(tmp_path / name)["task_state"]["languages"] == languages
    # fairseq's own commands cannot load a checkpoint of today's torch without the plugin's patches
    before, converted, after = (
        succeed(*generate, *ours, "--task", "translation", "--path", path, cwd=tmp_path)
        for path in (stock, "ours.pt", "theirs.pt")
    )
    assert len(hypotheses(before)) == 214
    flags = ("--cpu", "--path", "ours.pt", "--max-tokens", "2000")
    log = succeed(
        "fairseq-validate", corpus, *ours, *flags, "--valid-subset", "valid,test", cwd=tmp_path
    )
    output = log.stdout + log.stderr
    assert " bsz 214" in output  # fairseq's task drops 6 sentences
    assert "Traceback" not in output  # of the process that loaded the first subset
    assert hypotheses(after) == hypotheses(before)
    for (n, score, text), (m, same_score, same_text) in zip(
        hypotheses(before), hypotheses(converted), strict=True
    ):
        assert (n, text) == (m, same_text)
        assert float(score) == pytest.approx(float(same_score), abs=2e-4)


def old_form(state):
    """Return a checkpoint in an old format: a command line, joined projections, float16."""
    args = argparse.Namespace(**vars(state["cfg"]["model"]))
    newer = "layernorm_embedding activation_fn no_cross_attention base_layers"
    for name in f"{newer} max_source_positions max_target_positions _name".split():
        if hasattr(args, name):
            delattr(args, name)
    args.max_positions, args.source_lang, args.target_lang = 1024, "en", "de"
    args.encoder_embed_path = "/gone"
    weights = {name: weight.half() for name, weight in state["model"].items()}
    for name in [n for n in weights if n.endswith("q_proj.weight") or n.endswith("q_proj.bias")]:
        parts = [weights.pop(name.replace("q_proj", p)) for p in ("q_proj", "k_proj", "v_proj")]
        weights[name.replace("q_proj.", "in_proj_")] = torch.cat(parts)
    weights["encoder.version"] = weights["decoder.version"] = torch.tensor([3.0])
    weights["encoder.embed_positions._float_tensor"] = torch.zeros(1)
    # as fairseq 0.12.2 writes it: copies beside the weights of each layer of the encoder
    weights["encoder.layers.0.fc1_bias"] = weights["encoder.layers.0.fc1.bias"]
    return {"args": args, "model": weights, "optimizer_history": [{}], "extra_state": {}}


def test_old_checkpoints_are_converted(stock):
    state = torch.load(stock)
    today, _ = convert(state)
    old, _ = convert(old_form(torch.load(stock)))
    for name, value in vars(argparse.Namespace(**today["cfg"]["model"])).items():
        assert old["cfg"]["model"][name] == value, name
    assert old["model"].keys() == today["model"].keys()
    for name, weight in today["model"].items():
        torch.testing.assert_close(old["model"][name].float(), weight, rtol=1e-3, atol=1e-3)


def test_old_checkpoints_translate(corpus, stock, tmp_path):
    torch.save(convert(old_form(torch.load(stock)))[0], tmp_path / "old.pt")
    hub = AiaynTransformer.from_pretrained(str(tmp_path), "old.pt", str(corpus))
    assert len(hub.translate(["May", "June"])) == 2


@pytest.mark.parametrize(
    "spoil, message",
    [
        (lambda state: state.pop("cfg"), "no settings of its model"),
        (lambda state: state["model"].pop("decoder.layers.1.fc1.weight"), "weights do not fit"),
        (lambda state: state["model"].pop("encoder.embed_tokens.weight"), "weights do not fit"),
        (
            lambda state: setattr(state["cfg"]["model"], "_name", "lstm"),
            "architecture lstm belongs neither",
        ),
    ],
)
def test_broken_checkpoints_are_refused(stock, spoil, message):
    state = torch.load(stock)
    spoil(state)
    with pytest.raises(InputError, match=message):
        convert(state)


@pytest.mark.long
def test_losses_of_200_updates_equal_fairseqs(succeed, corpus, tmp_path):
    """From the same weights, on the same batches: this compares model, loss and Adam at once.

    At twice this learning rate fairseq's own losses with 1 and 2 threads differ by 0.002 bits.
    """
    train = [
        *("fairseq-train", corpus, "--user-dir", "aiayn_plugin", *STOCK_TRAINING),
        *("--max-tokens", "1000", "--required-batch-size-multiple", "1", "--dropout", "0"),
        *("--log-format", "simple", "--log-interval", "1"),
    ]
    stock = [*train, *stock_model(64, 256, 4), "--task", "aiayn_translation"]
    stock += ["--tokens-per-update", "0"]
    succeed(*stock, "--lr", "0", "--max-update", "1", "--save-dir", tmp_path / "init")
    start = {"fairseq": tmp_path / "init" / "checkpoint_last.pt", "ours": tmp_path / "ours.pt"}
    succeed("aiayn", "convert", "--input", start["fairseq"], "--output", start["ours"])
    ours = [
        *(*train, "--arch", "aiayn_tiny", "--d-model", "64", "--d-ff", "256"),
        *("--positions", "fairseq", "--attention-bias", "--tokens-per-update", "0"),
        *("--optimizer", "aiayn_adam", "--criterion", "aiayn_label_smoothed_cross_entropy"),
    ]
    lost = {}
    for name, command in (("fairseq", stock), ("ours", ours)):
        log = succeed(
            *(*command, "--lr", "5e-4", "--warmup-updates", "200", "--adam-eps", "1e-9"),
            *("--max-update", "200", "--finetune-from-model", start[name]),
            *("--save-dir", tmp_path / name),
        )
        lost[name] = losses(log)
    assert len(lost["ours"]) == 200
    assert statistics.fmean(lost["ours"][-20:]) < 0.8 * lost["ours"][0]
    assert lost["ours"] == pytest.approx(lost["fairseq"], abs=1e-3 / math.log(2))  # bits


@pytest.mark.long
def test_the_searches_are_compared_in_batches_and_one_by_one(run, succeed, corpus, stock, tmp_path):
    run("aiayn", "convert", "--input", stock, "--output", tmp_path / "ours.pt")
    out = tmp_path / "results.json"
    benchmark = [
        *("aiayn", "benchmark", "translate", corpus, "--fairseq-model", stock, "--cpu"),
        *("--plugin-model", tmp_path / "ours.pt", "--length", "7", "--output", out),
        *("--runs", "1"),
    ]
    log = succeed(*benchmark, "--batch-sizes", "100", "--ctranslate2", "float32")
    rows = {row["system"]: row for row in json.loads(out.read_text())}
    searches = ["plugin", "plugin, the paper's search"]
    assert [*rows] == ["fairseq", *(f"{name}, float32" for name in searches), "CTranslate2 float32"]
    ours = rows["plugin, float32"]
    assert ours["same"] == ours["sentences"] == 214
    assert re.search(r"^fairseq +batch +100 ", log.stdout, re.MULTILINE)
    precisions = ("--precisions", "int8", "bf16", "--ctranslate2", "int8")
    succeed(*benchmark, "--one-by-one", "4", *precisions)
    rows = json.loads(out.read_text())
    ours = [f"{name}, {precision}" for precision in ("int8", "bf16") for name in searches]
    assert [row["system"] for row in rows] == ["fairseq", *ours, "CTranslate2 int8"]
    assert all(
        len(row["seconds"]) == 4 and 0 < row["median"] <= row["percentile_95"] for row in rows
    )
    log = run(*benchmark, "--batch-sizes", "500", "--gen-subset", "train")
    assert log.returncode == 0 and "sacreBLEU" not in log.stdout  # it has no raw text
    log = run(*benchmark, "--one-by-one", "4", "--gen-subset", "nowhere")
    assert (log.returncode, log.stderr.count("\n")) == (1, 1)
    assert re.search("measuring .* failed: .*nowhere", log.stderr)
