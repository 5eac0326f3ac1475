"""Every option of fairseq-train with the plugin's model works, or ends with one line."""

import subprocess
from argparse import SUPPRESS
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import PLUGIN, SMALL
from fairseq import options
from models import parse

#: A training run of two updates and one batch of validation.
BASE = ["--max-tokens", "1000", "--max-update", "2", "--max-valid-steps", "1"]
STOCK = [
    *("--task", "translation", "--arch", "transformer_tiny", "--optimizer", "adam"),
    *("--lr", "0.001", "--cpu", "--num-workers", "0"),
    *("--criterion", "label_smoothed_cross_entropy"),
]
#: Values to give an option instead of its default, with the options that it needs. {last} is a
#: checkpoint of the model, and {ema} one with an average of the weights.
VALUES = {
    "--log-interval": "1",
    "--log-file": "log.txt",
    "--aim-repo": "aim",
    "--aim-run-hash": "x",
    "--tensorboard-logdir": "logs",
    "--wandb-project": "x",
    "--seed": "7",
    "--fp16-init-scale": "4",
    "--fp16-scale-window": "4",
    "--threshold-loss-scale": "1",
    "--amp-scale-window": "4",
    "--user-dir": str(PLUGIN),
    "--empty-cache-freq": "1",
    "--quantization-config-path": "absent.yaml",
    "--num-workers": "2",
    "--max-tokens": "900",
    "--batch-size": "16",
    "--required-batch-size-multiple": "8",
    "--required-seq-len-multiple": "8",
    "--ignore-unused-valid-subsets": "",
    "--validate-interval-updates": "1",
    "--validate-after-updates": "1",
    "--fixed-validation-seed": "3",
    "--max-tokens-valid": "2000",
    "--batch-size-valid": "16",
    "--max-valid-steps": "2",
    "--curriculum": "1",
    "--num-shards": "1",
    "--update-epoch-batch-itr": "True",
    "--distributed-world-size": "2",
    "--distributed-init-method": "file://{folder}/rendezvous --distributed-world-size 1",
    "--slowmo-momentum": "0.5",
    "--pipeline-balance": "[1]",
    "--pipeline-devices": "[0]",
    "--pipeline-encoder-balance": "[1]",
    "--pipeline-encoder-devices": "[0]",
    "--pipeline-decoder-balance": "[1]",
    "--pipeline-decoder-devices": "[0]",
    "--max-epoch": "1",
    "--max-update": "1",
    "--stop-time-hours": "1",
    "--clip-norm": "1.0",
    "--update-freq": "2",
    "--lr": ("0.1", "0.1 --lr-scheduler fixed"),
    "--stop-min-lr": "1e-9",
    "--save-dir": "elsewhere",
    "--restore-file": "{last}",
    "--continue-once": "{last}",
    "--finetune-from-model": "{last}",
    "--optimizer-overrides": '{"lr":0.1}',
    "--save-interval": "2",
    "--save-interval-updates": "1",
    "--keep-interval-updates": "1",
    "--keep-interval-updates-pattern": "2",
    "--keep-last-epochs": "1",
    "--keep-best-checkpoints": "1",
    "--best-checkpoint-metric": "nll_loss",
    "--patience": "1",
    "--checkpoint-suffix": "_x",
    "--ema-decay": "0.9 --store-ema",
    "--ema-fp32": "--store-ema",
    "--ema-start-update": "1 --store-ema",
    "--ema-seed-model": "{ema} --store-ema",
    "--ema-update-freq": "2 --store-ema",
    "--d-k": "4",
    "--d-v": "4",
    "--neighbourhood": "2",
    "--encoder-layers": "1 --decoder-layers 1",
    "--decoder-layers": "1",
    "--encoder-embed-dim": "16 --decoder-embed-dim 16",
    "--decoder-embed-dim": "16",
    "--encoder-ffn-embed-dim": "16 --decoder-ffn-embed-dim 16",
    "--decoder-ffn-embed-dim": "16",
    "--encoder-attention-heads": "2 --decoder-attention-heads 2",
    "--decoder-attention-heads": "2",
    "--encoder-learned-pos": "--decoder-learned-pos",
    "--source-lang": "en",
    "--target-lang": "de",
    "--left-pad-target": "--eval-bleu --eval-bleu-args {short}",
    "--max-source-positions": "500",
    "--max-target-positions": ("500", "5", "5 --skip-invalid-size-inputs-valid-test"),
    "--num-batch-buckets": "2",
    "--eval-bleu": "--eval-bleu-args {short}",
    "--eval-bleu-args": ("{short} --eval-bleu", "{sampling} --eval-bleu"),
    "--eval-bleu-detok": "moses --eval-bleu --eval-bleu-args {short}",
    "--eval-tokenized-bleu": "--eval-bleu --eval-bleu-args {short}",
    "--eval-bleu-remove-bpe": "--eval-bleu --eval-bleu-args {short}",
    "--eval-bleu-print-samples": "--eval-bleu --eval-bleu-args {short}",
    "--tokens-per-update": "3000",
    "--ignore-prefix-size": "1",
    "--bf16": ("", "--fp16-no-flatten-grads"),
    "--fp16": ("", "--fp16-no-flatten-grads"),
    "--memory-efficient-fp16": "",
    "--tpu": ("", "--bf16"),
    "--help": "",
    "--adam-betas": "(0.9,0.98)",
    # names in fairseq's registries: those for translation, with the options that they need
    "--criterion": (
        "cross_entropy",
        "label_smoothed_cross_entropy",
        "label_smoothed_cross_entropy_with_alignment",
        "label_smoothed_cross_entropy_with_rdrop",
        "aiayn_label_smoothed_cross_entropy",
        "adaptive_loss --ddp-backend legacy_ddp",
        "vocab_parallel_cross_entropy",
    ),
    "--lr-scheduler": (
        "cosine",
        "fixed",
        "inverse_sqrt",
        "manual",
        "pass_through",
        "polynomial_decay --total-num-update 10",
        "reduce_lr_on_plateau",
        "step",
        "tri_stage --warmup-steps 1 --hold-steps 1 --decay-steps 1",
        "triangular --lr 0.001 --max-lr 0.1",
        "aiayn_inverse_sqrt",
    ),
    "--tokenizer": ("moses", "nltk", "space"),
    "--task": "translation",
    "--arch": (
        "aiayn_base --N 1 --d-model 32 --d-ff 64",
        "transformer_tiny --optimizer adam",
        "aiayn_transformer --optimizer adam",
    ),
}
WORDS = {"{short}": '{"beam": 1, "max_len_b": 5}', "{sampling}": '{"sampling": true}'}


def option_words(data: Path) -> Iterator[list[str]]:
    """Yield the words on the command line for each option and each of its values."""
    parser = options.get_training_parser()
    args = parse("--arch", "aiayn_tiny", parser=lambda: parser, data=data)
    for action in parser._actions:
        if not action.option_strings:
            continue
        flag = action.option_strings[-1] if "-a" not in action.option_strings else "--arch"
        flag = next((name for name in action.option_strings if name in VALUES), flag)
        values = VALUES.get(flag, action.choices)
        if values is None:
            # The defaults of the model's options are filled in after parsing.
            suppressed = action.default is SUPPRESS
            default = getattr(args, action.dest, None) if suppressed else action.default
            values = str(default) if action.nargs != 0 and default is not None else ""
        for value in [values] if isinstance(values, str) else values:
            separate = [value] if value == "" and action.nargs is None else value.split()
            yield [flag, *separate]


def verdict(run, folder: Path, *command: str | Path) -> str:
    """Run a command and return how it ended, in one line."""
    try:
        log = run(*command, cwd=folder, timeout=120)
    except subprocess.TimeoutExpired:
        return "HANGS"
    if log.returncode == 0:
        return "works"
    if log.returncode < 0:
        return f"CRASHES with signal {-log.returncode}"
    lines = (log.stdout + log.stderr).strip().splitlines() or [""]
    return f"{'TRACE' if 'Traceback' in log.stderr else 'one line'}: {lines[-1]}"


@pytest.mark.long
def test_every_option_works_or_ends_with_one_line(run, corpus, tmp_path, capfd):
    ours = ["fairseq-train", corpus, "--user-dir", "aiayn_plugin", *SMALL, *BASE]
    stock = ["fairseq-train", corpus, *STOCK, *BASE]
    made = {"{folder}": str(tmp_path), **WORDS}
    faults = ("TRACE", "HANGS", "CRASHES")
    rows, bad = [], []
    for name, flags in (("last", []), ("ema", ["--store-ema"])):
        made[f"{{{name}}}"] = str(tmp_path / name / "checkpoint_last.pt")
        assert verdict(run, tmp_path, *ours, "--save-dir", tmp_path / name, *flags) == "works"
    for option in option_words(corpus):
        words = [made.get(word, word).replace("{folder}", str(tmp_path)) for word in option]
        result = verdict(run, tmp_path, *ours, *words)
        if result.startswith(faults):
            theirs = verdict(run, tmp_path, *stock, *words)
            if theirs.startswith(faults):
                result = f"fairseq's: {result}"
            else:
                bad.append(f"{' '.join(option)}: {result}; fairseq's own model: {theirs}")
        rows.append(f"{' '.join(option)[:60]:60} {result[:300]}")
    with capfd.disabled():
        print("", *rows, sep="\n")
    assert not bad, "\n".join(bad)
