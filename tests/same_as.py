#!/usr/bin/env python3
"""Run the same commands at another commit and in this tree, and compare their results.

    python tests/same_as.py COMMIT [--work DIR [--only REGEX]]

For a change that must not change behaviour. Each side prepares its own data, trains its own models
and translates with them, in the Python environment of this process. Files, trained weights and
texts must be equal to the last bit; scores may differ in their last digits. Prints one line per
check, shows the first differences, and exits with status 1 if there are any.
"""

import argparse
import base64
import contextlib
import difflib
import hashlib
import json
import math
import os
import random
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from string import Template

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
import mirror  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared" / "data"
# fairseq stores its command line, and --eval-bleu arrays.
torch.serialization.add_safe_globals(
    [
        argparse.Namespace,
        np.ndarray,
        np.dtype,
        type(np.dtype("int64")),
        type(np.dtype("float64")),
        np.zeros(1).__reduce__()[0],
        np.float64(0).__reduce__()[0],
    ]
)

#: Intended differences: check, pattern of the text to leave out of each line, reason.
INTENDED: list[tuple[str, str, str]] = [
    ("options of aiayn_plugin.cli score", "^--json$", "reports read scores from JSON files"),
    (
        "options of aiayn_plugin.cli benchmark translate",
        "^--ctranslate2 {.*",
        "the help lists the choices",
    ),
    ("score a", "the same on characters.*?(?= \\()|character n-gram.*?(?= \\()", "wording"),
    ("score a log of trees", "mended|repaired|by|mends.*|with|repairs", "wording"),
    ("bundle", "^(README.txt|checksums.json) .*", "wording of the README, and its checksum"),
]

#: A small training of 20 updates, and its variants.
TRAIN = (
    "fairseq_cli.train $data --user-dir aiayn_plugin --cpu --num-workers 0 --log-format json "
    "--log-interval 1 --max-update 20 --save-interval-updates 10 --warmup-updates 10 "
    "--max-tokens 400 --tokens-per-update 700"
)
TINY = "--arch aiayn_tiny --d-model 32 --d-ff 64"
STOCK = (
    "--task aiayn_translation --arch transformer --share-all-embeddings "
    "--encoder-layers 2 --encoder-embed-dim 32 --encoder-ffn-embed-dim 64 "
    "--encoder-attention-heads 4 --decoder-layers 2 --decoder-embed-dim 32 "
    "--decoder-ffn-embed-dim 64 --decoder-attention-heads 4"
)
STOCK_TRAINING = (
    "--optimizer adam --adam-betas '(0.9,0.98)' --lr-scheduler inverse_sqrt --lr 0.001 "
    "--criterion label_smoothed_cross_entropy --label-smoothing 0.1"
)
TRAININGS = {
    "float32": TINY,
    "bf16": f"{TINY} --bf16",
    "activation checkpointing": f"{TINY} --checkpoint-activations",
    "restricted": f"{TINY} --neighbourhood 5",
    "learned, untied, biases": f"{TINY} --positions learned --tie-embeddings none "
    "--attention-bias --d-k 4",
    "fairseq's positions": f"{TINY} --positions fairseq",
    "fairseq's option names": f"{TINY} --encoder-layers 1 --decoder-layers 1 --label-smoothing 0 "
    "--dropout 0.2",
    "fairseq's optimizer": f"{TINY} {STOCK_TRAINING}",
    "fairseq's batches": f"{TINY} --tokens-per-update 0 --update-freq 2 --clip-norm 0.5",
    "fairseq's model": f"{STOCK} {STOCK_TRAINING}",
    "moving average": f"{TINY} --store-ema --ema-decay 0.9",
    "eval-bleu": f'{TINY} --eval-bleu --eval-bleu-args \'{{"beam": 2, "max_len_b": 8}}\' '
    "--eval-bleu-remove-bpe",
    "two shards": f"{TINY} --max-epoch 3 --max-update 200 --validate-interval 1",
    "two processes": TINY,
    # 7 batches, 4 and 3 to an update: the last one of the second process is empty.
    "two processes, an empty batch": f"{TINY} --dropout 0 --tokens-per-update 0 --update-freq 2 "
    "--batch-size 215 --max-tokens 100000",
    # Long enough for its hypotheses to differ: the searches below use this model.
    "longer": "--arch aiayn_tiny --d-model 128 --d-ff 256 --dropout 0 --max-update 400 "
    "--warmup-updates 150 --max-tokens 1500 --tokens-per-update 1500 --save-interval-updates 200",
}
TREES = (
    "--arch aiayn_parser_tiny --N 1 --d-model 64 --d-ff 128 --dropout 0 --max-update 150 "
    "--warmup-updates 50 --save-interval-updates 150"
)
GENERATE = (
    "fairseq_cli.generate $data --user-dir aiayn_plugin --cpu --gen-subset test --batch-size 20"
)
MODEL = "--path $work/longer/checkpoint_last.pt"
SEARCHES = {
    "the paper's": MODEL,
    "fairseq's rules": f"{MODEL} --length-penalty fairseq --lenpen 0.5 --nbest 3",
    "length penalty": f"{MODEL} --lenpen 1 --beam 6 --nbest 2 --max-len-a 1 --max-len-b 5",
    "given prefixes": f"{MODEL} --prefix-size 2",
    "alignments, --unkpen, --min-len": f"{MODEL} --print-alignment --nbest 2 --unkpen -1 "
    "--min-len 4",
    "ensemble": "--path $work/longer/checkpoint_16_200.pt:$work/longer/checkpoint_last.pt",
    "sampling": f"{MODEL} --sampling --sampling-topk 5 --seed 3 --beam 2 --nbest 2",
    # With several batches fairseq fails: it takes a sentence's number for its row.
    "diverse beams": f"{MODEL} --diverse-beam-groups 2 --beam 4 --nbest 2 --batch-size 60",
    "one beam": f"{MODEL} --beam 1",
    "no repeated n-grams": f"{MODEL} --no-repeat-ngram-size 2",
    "given references": f"{MODEL} --score-reference",
    "fairseq's task": f"{MODEL} --task translation --required-batch-size-multiple 1 --max-len-b 20",
    "int8": f"{MODEL} --int8",
    "bf16": f"{MODEL} --bf16",
    "scores": f"{MODEL} --remove-bpe --scoring paper_bleu",
    "restricted": "--path $work/restricted/checkpoint_last.pt --max-len-b 20",
    "moving average": "--path '$work/moving average/checkpoint_last.pt' --max-len-b 20",
    "fairseq's model": '--path "$work/fairseq\'s model/checkpoint_last.pt" --max-len-b 20',
    "fairseq's model and task": '--path "$work/fairseq\'s model/checkpoint_last.pt" '
    "--task translation --max-len-b 20",
}
SENTENCES = "Monday, May 1, 2023\n5 hours and 3 minutes\n\nMarch 3\nMarch 3\n"
SUBWORDS = "Monday , May 1 , 2023\n5 hours and 3 minutes\nMar@@ ch 3\n"
WORDS = "the old dog sees a (cat).\n\nhe likes the house .\n"
#: Commands that read raw text and write lines of text. The run directories are made by bundle().
RAW_TEXT = {
    "translate": ("translate $work/run", SENTENCES),
    "translate, several": ("translate $work/run --nbest 2 --lenpen 1 --max-tokens 20", SENTENCES),
    "translate, a bundle": ("translate $work/bundle --beam 2 --line-by-line", SENTENCES),
    "translate, int8": ("translate $work/run --precision int8", SENTENCES),
    "translate, bfloat16": ("translate $work/run --precision bfloat16", SENTENCES),
    "parse": ("parse $work/parser", WORDS),
    "parse, trees only": ("parse $work/parser --trees-only --nbest 3 --beam 5", WORDS),
    "parse, pretty": ("parse $work/parser --tokenised --pretty --beam 4", WORDS),
    "score a log": ("score $work/generate.log --data $data --examples 3", ""),
    "score a text": ("score $data/test.raw.en --reference $data/test.raw.de -t de", ""),
    "score a log of trees": (
        "score $work/trees.log --data $work/trees --output $work/parsed.txt",
        "",
    ),
    "score trees": ("score --trees $work/trees/test.raw.tree $work/parsed.txt", ""),
}
HELP = [
    f"fairseq_cli.{command} x --user-dir aiayn_plugin"
    for command in ("train", "train --arch aiayn_base", "generate", "interactive", "validate")
]
HELP += [
    f"aiayn_plugin.cli {command}"
    for command in (
        "",
        "architectures",
        "attention",
        "average",
        "benchmark",
        "benchmark attention",
        "benchmark train",
        "benchmark translate",
        "bundle",
        "configs",
        "convert",
        "export",
        "parse",
        "report",
        "score",
        "serve",
        "translate",
    )
]
HELP += [f"preprocess/{name}.py" for name in ("benchmark", "cldr", "prepare", "trees", "wmt14")]
NUMBER = r"-?\d+\.\d+(?:e-?\d+)?"
#: What a log measures of the machine.
TIMES = {"wps", "ups", "wall", "train_wall", "gb_free", "cuda_gb_allocated"}


class Side:
    """One of the two trees: its commands run in it and write to its own directory."""

    def __init__(self, tree: Path, work: Path) -> None:
        self.tree, self.work = tree, work
        work.mkdir(parents=True, exist_ok=True)

    def words(self, command: str) -> list[str]:
        """Return the argument list of `MODULE ...` or `SCRIPT.py ...`."""
        places = {"tree": self.tree, "work": self.work, "data": self.work / "data"}
        filled = Template(command).substitute(places)
        first, *words = shlex.split(filled)
        return [sys.executable, *([first] if first.endswith(".py") else ["-m", first]), *words]

    def environment(self) -> dict[str, str]:
        """Return an environment in which this side's tree is imported, and one thread computes."""
        return {
            **os.environ,
            "PYTHONPATH": str(self.tree),
            "PYTHONWARNINGS": "ignore",
            "OMP_NUM_THREADS": "1",
            "COLUMNS": "100",
        }

    def run(self, command: str, stdin: str = "", status: int = 0) -> tuple[str, str]:
        """Return what a command writes to standard output, and to standard error."""
        done = subprocess.run(
            self.words(command),
            input=stdin,
            cwd=self.tree,
            capture_output=True,
            text=True,
            env=self.environment(),
        )
        if done.returncode != status:
            raise RuntimeError(
                f"{self.tree}: {command} failed:\n{done.stdout}{done.stderr}"[-3000:]
            )
        return done.stdout, done.stderr


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def weights(path: Path) -> list[str]:
    """Return a digest of each float tensor of a checkpoint, by its name.

    Integer buffers are left out: they are settings, not weights.
    """
    state = torch.load(path, weights_only=True)
    parts = {"model": state["model"], "ema": state.get("extra_state", {}).get("ema") or {}}
    return [
        f"{part} {name} {tuple(tensor.shape)} {digest(tensor.contiguous().numpy().tobytes())}"
        for part, tensors in parts.items()
        for name, tensor in sorted(tensors.items())
        if tensor.is_floating_point()
    ]


def files(folder: Path) -> list[str]:
    """Return a digest of each file of a directory, except checkpoints."""
    return [
        f"{path.relative_to(folder)} {digest(path.read_bytes())}"
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".pt"
    ]


def lines(output: str, pattern: str) -> list[str]:
    """Return the lines that begin with a pattern."""
    return [line for line in output.splitlines() if re.match(pattern, line)]


def metrics(log: str) -> list[str]:
    """Return the metrics of a JSON log that do not depend on the machine's speed."""
    found = []
    for stage, text in re.findall(r"\| (train_inner|train|valid|\w+) \| (\{.*\})$", log, re.M):
        values = json.loads(text).items()
        found += [
            f"{stage} {name} {value}"
            for name, value in values
            if name.removeprefix("train_").removeprefix("valid_") not in TIMES
        ]
    return found


def option_strings(help_text: str) -> list[str]:
    """Return the options of a help text, with their choices; not the plugin's list at its end."""
    found = set()
    for line in help_text.partition(" of aiayn_plugin")[0].splitlines():
        if re.match(r" {2,4}-", line):
            option = re.split(r" {2,}", line.strip())[0]
            found |= set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", option))
            found |= {f"{option.split()[0]} {choices}" for choices in re.findall(r"{.*}", option)}
    return sorted(found)


# --- Data


def cldr_data(side: Side) -> list[str]:
    side.run("preprocess/cldr.py --train 1500 --valid 100 --test 60 --dest $work/raw")
    splits = " ".join(f"--{split}pref $work/raw/{split}" for split in ("train", "valid", "test"))
    shutil.rmtree(side.work / "data", ignore_errors=True)
    side.run(f"preprocess/prepare.py -s en -t de --merges 400 --destdir $data {splits}")
    side.run("preprocess/prepare.py --check $data")
    return files(side.work / "raw") + files(side.work / "data")


def real_text(side: Side) -> list[str]:
    """Prepare 3,000 pairs of real text by two workers, with every option."""
    if not (SHARED / "multi30k").is_dir():
        return ["no real text"]
    for split, name in (("train", "train"), ("valid", "val"), ("test", "test_2016_flickr")):
        for lang in ("en", "de"):
            text = (SHARED / "multi30k" / f"{name}.{lang}").read_text("utf-8").splitlines()
            (side.work / f"multi30k.{split}.{lang}").write_text("\n".join(text[:3000]) + "\n")
    splits = " ".join(f"--{name}pref $work/multi30k.{name}" for name in ("train", "valid", "test"))
    shutil.rmtree(side.work / "multi30k", ignore_errors=True)
    side.run(
        f"preprocess/prepare.py -s en -t de --merges 1500 --destdir $work/multi30k {splits} "
        "--workers 2 --normalize-punctuation --protect-patterns --min-tokens 3 --max-tokens 25 "
        "--max-ratio 1.5"
    )
    return files(side.work / "multi30k")


def grow(rng: random.Random, label: str, depth: int = 0) -> str:
    """Return the brackets of a random constituent of a small grammar."""
    words = {
        **{"DT": "the a", "NN": "dog cat house", "JJ": "old small", "VBZ": "sees likes"},
        **{"IN": "in near", "PRP": "he she", "RB": "often", "CC": "and", ".": "."},
    }
    rules = {
        "S": ["NP-SBJ VP ."],
        "NP": ["DT NN", "PRP", "DT JJ NN", "NP PP", "NP CC NP"],
        "VP": ["VBZ NP", "VBZ", "VBZ SBAR", "ADVP VBZ NP"],
        "PP": ["IN NP"],
        "ADVP": ["RB"],
        "SBAR": ["IN NP VP"],
    }
    symbol = label.partition("-")[0]
    if symbol in words:
        return f"({label} {rng.choice(words[symbol].split())})"
    rule = rng.choice(rules[symbol][: 2 if depth > 1 else None])
    return f"({label} {' '.join(grow(rng, part, depth + 1) for part in rule.split())})"


def tree_data(side: Side) -> list[str]:
    rng = random.Random(1)
    for name, number in (("trees", 700), ("more", 50)):
        text = "".join(f"( {grow(rng, 'S')} )\n" for _ in range(number))
        (side.work / f"{name}.mrg").write_text(text)
    shutil.rmtree(side.work / "trees", ignore_errors=True)
    side.run(
        "preprocess/trees.py --train $work/trees.mrg --hold-out 30 30 --extra 2 $work/more.mrg "
        "--vocabulary 60 --destdir $work/trees"
    )
    side.run("preprocess/trees.py --check $work/trees")
    return files(side.work / "trees")


def real_trees(side: Side) -> list[str]:
    if not (SHARED / "ptb_sample").is_dir():
        return ["no treebanks"]
    gum = " ".join(map(str, sorted((SHARED / "gum" / "const").glob("GUM_bio_*.ptb"))))
    shutil.rmtree(side.work / "treebanks", ignore_errors=True)
    side.run(
        f"preprocess/trees.py --train {SHARED}/ptb_sample/wsj_sample.mrg --hold-out 200 200 "
        f"--weight 2 --extra 1 {gum} --vocabulary 2000 --destdir $work/treebanks"
    )
    return files(side.work / "treebanks")


def wmt14(side: Side, pair: str, options: str) -> list[str]:
    """Download a miniature of WMT 2014 from a server on this machine, and prepare it."""
    dest = side.work / f"wmt14 {pair}"
    shutil.rmtree(dest, ignore_errors=True)
    with mirror.serve(pairs=60) as server:
        table = server.table(side.work / "table.yaml")
        command = f"preprocess/wmt14.py {pair} --table {table} --vocabulary 400 {options} --dest "
        side.run(f"{command} '{dest}'")
    return files(dest / "data")


# --- Training


def train(side: Side, name: str) -> list[str]:
    """Train from the beginning."""
    folder = side.work / name
    shutil.rmtree(folder, ignore_errors=True)
    command = TRAIN
    if name == "two shards":
        command = command.replace("$data", "$data:$work/shard")
        make_shard(side)
    if name.startswith("two processes"):
        launcher = f"torch.distributed.run --nproc_per_node 2 --master-port {free_port()}"
        command = f"{launcher} -m {command}"
    output = "".join(side.run(f"{command} {TRAININGS[name]} --save-dir {shlex.quote(str(folder))}"))
    measured = metrics(output)
    if len(measured) < 20:
        raise RuntimeError(f"no metrics in the log of {name}:\n{output[-2000:]}")
    return measured + weights(folder / "checkpoint_last.pt")


def make_shard(side: Side) -> None:
    """Make a second shard: the validation set becomes its training set."""
    shard = side.work / "shard"
    shutil.rmtree(shard, ignore_errors=True)
    side.run(
        "preprocess/prepare.py -s en -t de --merges 400 --destdir $work/shard "
        "--trainpref $work/raw/train --validpref $work/raw/valid --testpref $work/raw/test"
    )
    (shard / "checksums.json").unlink()
    for path in shard.glob("valid.en-de.*"):
        shutil.copy(path, shard / path.name.replace("valid", "train"))


def resume(side: Side) -> list[str]:
    """Stop after 10 updates, in the middle of an epoch, and continue to 20."""
    shutil.rmtree(side.work / "resumed", ignore_errors=True)
    outputs = [
        "".join(side.run(f"{TRAIN} {TINY} --max-update {updates} --save-dir $work/resumed"))
        for updates in (10, 20)
    ]
    return metrics(outputs[1]) + weights(side.work / "resumed" / "checkpoint_last.pt")


def train_trees(side: Side) -> list[str]:
    shutil.rmtree(side.work / "tree model", ignore_errors=True)
    command = TRAIN.replace("$data", "$work/trees")
    output = "".join(side.run(f"{command} {TREES} --save-dir '$work/tree model'"))
    return metrics(output) + weights(side.work / "tree model" / "checkpoint_last.pt")


def hydra(side: Side) -> list[str]:
    configs = side.run("aiayn_plugin.cli configs")[0].strip()
    shutil.rmtree(side.work / "hydra", ignore_errors=True)
    side.run(
        f"fairseq_cli.hydra_train --config-dir {configs} --config-name aiayn_base "
        "common.user_dir=$tree/aiayn_plugin task.data=$data common.cpu=true "
        "model.N=1 model.d_model=32 model.d_ff=64 task.tokens_per_update=500 "
        "optimization.max_update=3 checkpoint.save_dir=$work/hydra hydra.run.dir=$work/hydra_log"
    )
    names = sorted(path.name for path in Path(configs).iterdir())
    return names + weights(side.work / "hydra" / "checkpoint_last.pt")


# --- Translating


def generate(side: Side, more: str, log: str = "") -> list[str]:
    stdout, stderr = side.run(f"{GENERATE} {more}")
    if log:
        (side.work / log).write_text(stdout)
    found = lines(stdout, r"[HDAPT]-\d|Generate")
    if not lines(stdout, r"H-\d"):
        raise RuntimeError(f"no hypotheses: {stdout}{stderr}"[-2000:])
    return found


def generate_trees(side: Side, more: str, log: str = "") -> list[str]:
    command = "--path '$work/tree model/checkpoint_last.pt'"
    stdout, _ = side.run(f"{GENERATE.replace('$data', '$work/trees')} {command} {more}")
    if log:
        (side.work / log).write_text(stdout)
    return lines(stdout, r"[HDP]-\d|Generate")


def interactive(side: Side, more: str) -> list[str]:
    command = "fairseq_cli.interactive $data --user-dir aiayn_plugin --cpu"
    return lines(side.run(f"{command} {MODEL} {more}", SUBWORDS)[0], "[HDP]-")


def validate(side: Side) -> list[str]:
    command = "fairseq_cli.validate $data --user-dir aiayn_plugin --cpu --max-tokens 2000"
    return metrics("".join(side.run(f"{command} {MODEL} --log-format json")))


# --- The commands of aiayn


def aiayn(side: Side, command: str, stdin: str = "") -> str:
    return side.run(f"aiayn_plugin.cli {command}", stdin)[0]


def convert(side: Side) -> list[str]:
    """Average, convert to fairseq's model and back; convert fairseq's own model and use it."""
    run = partial(aiayn, side)
    inputs = '--inputs "$work/fairseq\'s positions"'
    run(f"average --num-update-checkpoints 2 {inputs} --output $work/a.pt")
    longer = "$work/longer/checkpoint_16_200.pt $work/longer/checkpoint_last.pt"
    run(f"average --output $work/b.pt --inputs {longer}")
    run("convert --input $work/a.pt --output $work/fairseqs.pt")
    run("convert --input $work/fairseqs.pt --output $work/back.pt")
    run('convert --input "$work/fairseq\'s model/checkpoint_last.pt" --output $work/converted.pt')
    names = ("a", "b", "fairseqs", "back", "converted")
    digests = [f"{name} {line}" for name in names for line in weights(side.work / f"{name}.pt")]
    options = "--path $work/fairseqs.pt --task translation --max-len-b 20"
    return digests + generate(side, options) + generate(side, "--path $work/converted.pt")


def bundle(side: Side) -> list[str]:
    """Make run directories, bundle and export them."""
    for name, data, model in (("run", "data", "longer"), ("parser", "trees", "tree model")):
        folder = side.work / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / "data").symlink_to(side.work / data)
        (folder / "model.pt").symlink_to(side.work / model / "checkpoint_last.pt")
    for name in ("bundle", "export", "exported8"):
        shutil.rmtree(side.work / name, ignore_errors=True)
    aiayn(side, "bundle $work/run --output $work/bundle")
    aiayn(side, "export $work/bundle --output $work/export")
    aiayn(side, "export $work/run --quantization int8 --output $work/exported8")
    digests = [line for name in ("export", "exported8") for line in files(side.work / name)]
    return files(side.work / "export") + digests


def attention(side: Side, options: str, stdin: str = "") -> list[str]:
    """Compare the sizes and the means of the weights in the page's base64 strings."""
    aiayn(side, f"attention $work/run {options} --output $work/attention.html", stdin)
    page = (side.work / "attention.html").read_text("utf-8")
    decoded = map(base64.b64decode, re.findall(r'"([A-Za-z0-9+/]{40,}=*)"', page))
    found = [
        f"{len(weights)} weights, mean {sum(weights) / len(weights):.3f}" for weights in decoded
    ]
    if not found:
        raise RuntimeError("no attention weights in the page")
    return sorted(found)


def free_port() -> int:
    """Return a TCP port that no process listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@contextlib.contextmanager
def served(side: Side) -> Iterator[str]:
    """Serve the run directory, and yield the address."""
    address = f"http://127.0.0.1:{(port := free_port())}"
    command = side.words(f"aiayn_plugin.cli serve $work/run --port {port}")
    with subprocess.Popen(
        command, cwd=side.tree, env=side.environment(), stderr=subprocess.DEVNULL
    ) as server:
        try:
            for _ in range(600):
                with contextlib.suppress(OSError):
                    urllib.request.urlopen(f"{address}/health", timeout=5).close()
                    break
                time.sleep(0.1)
            yield address
        finally:
            server.terminate()


def serve(side: Side) -> list[str]:
    texts = SENTENCES.splitlines()
    requests: list[dict] = [{"text": texts[0]}, {"text": texts, "nbest": 2}]
    answers = []
    with served(side) as address:
        for request in requests:
            body = urllib.request.Request(f"{address}/translate", json.dumps(request).encode())
            body.add_header("Content-Type", "application/json")
            with urllib.request.urlopen(body, timeout=60) as answer:
                answers.append(json.dumps(json.load(answer), sort_keys=True, indent=0))
    return "\n".join(answers).splitlines()


def options(side: Side, command: str) -> list[str]:
    found = option_strings(side.run(f"{command} --help")[0])
    if not found:
        raise RuntimeError(f"no options in the help of {command}")
    return found


#: All checks, in this order: later ones use files of earlier ones.
CHECKS: dict[str, Callable[[Side], Sequence[str]]] = {
    "architectures": lambda side: aiayn(side, "architectures").splitlines(),
    "data, CLDR": cldr_data,
    "data, real text": real_text,
    "data, trees": tree_data,
    "data, real trees": real_trees,
    "data, WMT en-de": partial(wmt14, pair="en-de", options="--workers 2"),
    "data, WMT en-fr": partial(wmt14, pair="en-fr", options="--protect-patterns"),
    **{f"train, {name}": partial(train, name=name) for name in TRAININGS},
    "train, resumed": resume,
    "train, trees": train_trees,
    "train, hydra": hydra,
    **{
        f"generate, {name}": partial(
            generate, more=more, log="generate.log" if name == "the paper's" else ""
        )
        for name, more in SEARCHES.items()
    },
    "generate, trees": partial(generate_trees, more="", log="trees.log"),
    "generate, trees only": partial(generate_trees, more="--trees-only --nbest 2"),
    "interactive": partial(interactive, more=""),
    "interactive, nbest": partial(interactive, more="--nbest 2 --beam 3 --buffer-size 2"),
    "validate": validate,
    "average and convert": convert,
    "bundle and export": bundle,
    **{
        name: lambda side, command=command, stdin=stdin: aiayn(side, command, stdin).splitlines()
        for name, (command, stdin) in RAW_TEXT.items()
    },
    "attention": partial(attention, options="", stdin=SENTENCES.replace("\n\n", "\n")),
    "attention, references": partial(
        attention, options="--split test --numbers 0 3 --reference --layers 1"
    ),
    "serve": serve,
    **{f"options of {command}": partial(options, command=command) for command in HELP},
}


def result(side: Side, name: str) -> list[str]:
    """Return the lines of a check, without paths and intended differences."""
    lines = []
    for line in CHECKS[name](side):
        line = line.replace(str(side.work), "$work").replace(str(side.tree), "$tree")
        for check, pattern, _ in INTENDED:
            if re.match(check, name):
                line = re.sub(pattern, "", line)
        lines.append(" ".join(line.split()))
    return [line for line in lines if line]


def same(one: str, other: str) -> bool:
    """Return whether two lines are equal, except for the last digits of numbers with a point.

    A different order of multiplication and division may change the last bits of a score.
    """
    if one == other:
        return True
    texts = [re.sub(NUMBER, "#", line) for line in (one, other)]
    numbers = (map(float, re.findall(NUMBER, line)) for line in (one, other))
    return texts[0] == texts[1] and all(
        math.isclose(a, b, rel_tol=1e-5, abs_tol=2e-4) for a, b in zip(*numbers, strict=True)
    )


def differences(before: list[str], now: list[str]) -> list[str]:
    """Return the lines that differ, `-` before those of the other commit and `+` before ours."""
    if len(before) == len(now) and all(map(same, before, now)):
        return []
    return [line for line in difflib.ndiff(before, now) if line[0] in "-+"]


def main() -> None:
    """Compare as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("commit")
    parser.add_argument("--work", type=Path, help="keep the results in this directory")
    parser.add_argument(
        "--only", default="", help="run only checks that match, on the results kept in --work"
    )
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = (args.work or Path(temporary)).resolve()
        tree = work / "tree"
        shutil.rmtree(tree, ignore_errors=True)
        tree.mkdir(parents=True)
        archive = subprocess.run(
            ["git", "archive", args.commit], cwd=ROOT, check=True, capture_output=True
        ).stdout
        subprocess.run(["tar", "-x", "-C", str(tree)], input=archive, check=True)
        sides = Side(tree, work / "before"), Side(ROOT, work / "now")
        different = 0
        with ThreadPoolExecutor(len(sides)) as pool:
            for name in filter(re.compile(args.only).match, CHECKS):
                began = time.monotonic()
                futures = [pool.submit(result, side, name) for side in sides]
                try:
                    found = differences(*(future.result() for future in futures))
                except Exception as error:  # a difference like any other
                    found = [str(error)[-600:]]
                different += bool(found)
                verdict = "DIFFERENT" if found else "same"
                print(f"{verdict:<10} {name} ({time.monotonic() - began:.0f} s)", flush=True)
                for line in found[:10]:
                    print(f"    {line}", flush=True)
    sys.exit(different > 0)


if __name__ == "__main__":
    main()
