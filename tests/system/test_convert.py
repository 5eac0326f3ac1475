"""fairseq's own models in the plugin's, and back: whole commands, and the same hypotheses."""

import argparse
import math
import re

import pytest
import torch
from fairseq import options

from aiayn_plugin.boundary.convert import convert, settings_from_fairseq

MODEL = ["--encoder-layers", "2", "--decoder-layers", "2", "--share-all-embeddings"]
TRAINING = [
    "--task", "translation", "--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--cpu",
    "--lr-scheduler", "inverse_sqrt", "--criterion", "label_smoothed_cross_entropy",
    "--label-smoothing", "0.1", "--no-epoch-checkpoints", "--disable-validation",
    "--num-workers", "0",
]  # fmt: skip


def sizes(d_model, d_ff, heads):
    pairs = {"embed-dim": d_model, "ffn-embed-dim": d_ff, "attention-heads": heads}
    return [
        word
        for name, value in pairs.items()
        for stack in ("encoder", "decoder")
        for word in (f"--{stack}-{name}", str(value))
    ]


def hypotheses(log):
    return sorted(re.findall(r"^H-(\d+)\t(\S+)\t(.*)$", log.stdout, re.MULTILINE))


@pytest.fixture(scope="module")
def stock(run, corpus, tmp_path_factory):
    """A model of fairseq's own, hardly trained, without the plugin."""
    folder = tmp_path_factory.mktemp("stock")
    log = run("fairseq-train", corpus, "--arch", "transformer", *MODEL, *sizes(32, 64, 4),
              *TRAINING, "--lr", "0.005", "--warmup-updates", "10", "--max-tokens", "2000",
              "--max-update", "40", "--save-dir", folder)  # fmt: skip
    assert log.returncode == 0, log.stderr
    return folder / "checkpoint_last.pt"


def test_there_and_back_again(run, corpus, stock, tmp_path):
    generate = ["fairseq-generate", corpus, "--cpu", "--gen-subset", "valid", "--max-len-b", "8",
                "--batch-size", "100", "--required-batch-size-multiple", "1", "--beam", "4"]
    ours = ["--user-dir", "aiayn_plugin"]
    for source, target in ((stock, "ours.pt"), ("ours.pt", "theirs.pt")):
        made = run("aiayn", "convert", "--input", source, "--output", target, cwd=tmp_path)
        assert made.returncode == 0, made.stderr
    # fairseq's own commands cannot load a checkpoint of today's torch without the plugin's mends
    before, converted, after = (
        run(*generate, *ours, "--task", "translation", "--path", path, cwd=tmp_path)
        for path in (stock, "ours.pt", "theirs.pt")
    )
    for log in (before, converted, after):
        assert log.returncode == 0, log.stderr
    assert len(hypotheses(before)) == 1014
    assert hypotheses(after) == hypotheses(before)
    for (n, score, text), (m, same_score, same_text) in zip(
        hypotheses(before), hypotheses(converted), strict=True
    ):
        assert (n, text) == (m, same_text)
        assert float(score) == pytest.approx(float(same_score), abs=2e-4)


@pytest.mark.parametrize("flags, message", [
    (["--encoder-normalize-before"], "encoder_normalize_before"),
    (["--decoder-layers", "1"], "encoder and decoder differ in layers"),
    (["--activation-fn", "gelu"], "activation_fn"),
])  # fmt: skip
def test_what_the_papers_model_is_not_is_refused(flags, message):
    parser = options.get_training_parser("translation")
    args = options.parse_args_and_arch(
        parser, ["data", "--task", "translation", "--arch", "transformer", *MODEL, *flags]
    )
    with pytest.raises(ValueError, match=message):
        settings_from_fairseq(args)


def test_what_fairseq_has_not_is_refused(run, corpus, tmp_path):
    log = run("fairseq-train", corpus, "--user-dir", "aiayn_plugin", "--arch", "aiayn_tiny",
              "--N", "1", "--d-model", "16", "--cpu", "--max-update", "1", "--disable-validation",
              "--num-workers", "0", "--save-dir", tmp_path)  # fmt: skip
    assert log.returncode == 0, log.stderr
    bad = run("aiayn", "convert", "--input", tmp_path / "checkpoint_last.pt",
              "--output", tmp_path / "out.pt")  # fmt: skip
    assert (bad.returncode, bad.stderr.count("\n")) == (1, 1)
    assert "--positions fairseq or learned" in bad.stderr
    assert not (tmp_path / "out.pt").exists()


def old_form(state):
    """A checkpoint as fairseq wrote it years ago: the command line, joined projections, float16."""
    args = argparse.Namespace(**vars(state["cfg"]["model"]))
    for name in ("layernorm_embedding", "activation_fn", "no_cross_attention", "base_layers",
                 "max_source_positions", "max_target_positions", "_name"):
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
    return {"args": args, "model": weights, "optimizer_history": [{}], "extra_state": {}}


def test_checkpoints_of_old_are_converted(stock):
    state = torch.load(stock)
    today, _ = convert(state)
    old, _ = convert(old_form(torch.load(stock)))
    for name, value in vars(argparse.Namespace(**today["cfg"]["model"])).items():
        assert old["cfg"]["model"][name] == value, name
    assert old["model"].keys() == today["model"].keys()
    for name, weight in today["model"].items():
        torch.testing.assert_close(old["model"][name].float(), weight, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("break_it, message", [
    (lambda state: state.pop("cfg"), "no settings of its model"),
    (lambda state: state["model"].pop("decoder.layers.1.fc1.weight"), "weights are not those"),
    (lambda state: state["model"].pop("encoder.embed_tokens.weight"), "weights are not those"),
    (lambda state: setattr(state["cfg"]["model"], "_name", "lstm"), "architecture lstm is not"),
])  # fmt: skip
def test_broken_checkpoints_are_refused(stock, break_it, message):
    state = torch.load(stock)
    break_it(state)
    with pytest.raises(ValueError, match=message):
        convert(state)


@pytest.mark.long
def test_two_hundred_updates_lose_as_fairseqs_model_does(run, corpus, tmp_path):
    """The same initial weights, batches, schedule and optimiser: model, loss and Adam in one.

    With twice the rate fairseq's own losses, on one thread and on two, are 0.002 bits apart.
    """
    train = ["fairseq-train", corpus, "--user-dir", "aiayn_plugin", *TRAINING[2:], "--max-tokens",
             "1000", "--required-batch-size-multiple", "1", "--dropout", "0", "--log-format",
             "simple", "--log-interval", "1"]
    stock = [*train, "--task", "translation", "--arch", "transformer", *MODEL, *sizes(64, 256, 4)]
    init = run(*stock, "--lr", "0", "--max-update", "1", "--save-dir", tmp_path / "init")
    assert init.returncode == 0, init.stderr
    start = {"fairseq": tmp_path / "init" / "checkpoint_last.pt", "ours": tmp_path / "ours.pt"}
    made = run("aiayn", "convert", "--input", start["fairseq"], "--output", start["ours"])
    assert made.returncode == 0, made.stderr
    ours = [*train, "--arch", "aiayn_tiny", "--d-model", "64", "--d-ff", "256", "--positions",
            "fairseq", "--attention-bias", "--tokens-per-update", "0", "--optimizer", "aiayn_adam",
            "--criterion", "aiayn_label_smoothed_cross_entropy"]
    losses = {}
    for name, command in (("fairseq", stock), ("ours", ours)):
        log = run(*command, "--lr", "5e-4", "--warmup-updates", "200", "--adam-eps", "1e-9",
                  "--max-update", "200", "--finetune-from-model", start[name],
                  "--save-dir", tmp_path / name)  # fmt: skip
        assert log.returncode == 0, log.stderr[-2000:]
        losses[name] = [float(x) for x in re.findall(r"train_inner .* loss=([\d.]+),",
                                                     log.stdout + log.stderr)]
    assert len(losses["ours"]) == 200
    assert losses["ours"][-1] < 0.7 * losses["ours"][0]
    assert losses["ours"] == pytest.approx(losses["fairseq"], abs=1e-3 / math.log(2))  # bits
