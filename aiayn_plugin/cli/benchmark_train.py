"""`aiayn benchmark train`: the plugin's training beside fairseq's own, on the same batches."""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq import options, tasks, utils
from fairseq.data import Dictionary, indexed_dataset
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.trainer import Trainer

from ..architectures import settings
from .measure import device_name, peak_memory, profiled, timed, write_json

#: Of each size: the plugin's architecture, and fairseq's own.
SIZES = {"base": ("aiayn_base", "transformer_wmt_en_de"),
         "big": ("aiayn_big", "transformer_vaswani_wmt_en_de_big")}
PRECISIONS = ("float32", "fp16", "amp", "memory-efficient-fp16", "bf16")
#: What fairseq needs to be told of the paper's training.
FAIRSEQ = [
    "--task", "translation", "--share-all-embeddings", "--optimizer", "adam", "--adam-betas",
    "(0.9, 0.98)", "--adam-eps", "1e-9", "--lr-scheduler", "inverse_sqrt", "--lr", "7e-4",
    "--warmup-updates", "4000", "--criterion", "label_smoothed_cross_entropy", "--label-smoothing",
    "0.1",
]  # fmt: skip
#: Random sentences, where no data is given: lengths as in WMT's English-German, about.
VOCABULARY, SENTENCES, MEAN_LENGTH, SPREAD = 37_000, 20_000, 28, 0.6


def add_parser(kinds: Any) -> None:
    """Add `train` to the commands of `aiayn benchmark`."""
    parser = kinds.add_parser(
        "train",
        help="training against fairseq's own Transformer",
        description="Target tokens per second and peak memory of the plugin's model and of "
        "fairseq's of the same size, alternating, on the same batches, each side in the best of "
        "its precisions. Without data: random words of a vocabulary of "
        f"{VOCABULARY:,}, lengths log-normal with mean {MEAN_LENGTH} and σ {SPREAD} of the "
        "logarithm, the target within a fifth of the source.",
    )
    parser.add_argument("data", type=Path, nargs="?", metavar="DATA",
                        help="a fairseq data directory")
    parser.add_argument("--size", choices=sorted(SIZES), default="base")
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=["float32"],
                        help="of the plugin (default: float32)")
    parser.add_argument("--stock-precisions", nargs="+", choices=PRECISIONS, default=["float32"],
                        help="of fairseq (default: float32)")
    parser.add_argument("--max-tokens", type=int, nargs="+", default=[2500], metavar="N",
                        help="source or target tokens of a batch, with padding; the best of these "
                        "for each side (default: 2500)")
    parser.add_argument("--memory-tokens", type=int, default=2500, metavar="N",
                        help="tokens of the batch whose forward and backward pass is measured for "
                        "memory (default: 2500 source and 2500 target tokens)")
    parser.add_argument("--checkpoint-activations", action="store_true",
                        help="in the plugin: less memory, slower")
    parser.add_argument("--runs", type=int, default=5, help="medians of so many (default: 5)")
    parser.add_argument("--updates", type=int, default=2, help="of each run (default: 2)")
    parser.add_argument("--profile", action="store_true",
                        help="print where the time of one of the plugin's updates goes")
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--output", type=Path, metavar="FILE.json")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Measure and print. Raises ValueError where a training cannot run."""
    with tempfile.TemporaryDirectory() as directory:
        data = args.data or write_random_data(Path(directory))
        ways = {"plugin": args.precisions, "fairseq": args.stock_precisions}
        best = {way: _best(args, data, way, precisions) for way, precisions in ways.items()}
        rows: dict[str, list[dict]] = {way: [] for way in ways}
        for _ in range(args.runs):
            for way, (side, max_tokens) in best.items():
                rows[way].append(side.ask("train", max_tokens, args.updates))
        if args.profile:
            side, max_tokens = best["plugin"]
            print(side.ask("profile", max_tokens, 1)["table"])
        rates = {way: side.ask("product")["flops"] for way, (side, _) in best.items()}
        memory = {way: side.ask("memory", args.memory_tokens, 1)["bytes"]
                  for way, (side, _) in best.items()}
        for side, _ in best.values():
            side.close()
    report(args, best, rows, memory, rates)


def report(args, best: dict[str, tuple["Side", int]], rows, memory, rates) -> None:
    """Print the table, and write it as JSON."""
    arch, _ = SIZES[args.size]
    paper = settings(arch)
    print(f"\n{args.size}, {args.data or 'random sentences'}, "
          f"{device_name('cpu' if args.cpu or not torch.cuda.is_available() else 'cuda')}; "
          f"medians of {args.runs} runs of {args.updates} updates, alternating; "
          "the rate is that of a large matrix product")
    found = []
    for way, (side, max_tokens) in best.items():
        speeds = [row["tokens"] / row["seconds"] for row in rows[way]]
        flops = [row["flops"] / row["seconds"] for row in rows[way]]
        speed = statistics.median(speeds)
        hours = paper["max_update"] * paper["tokens_per_update"] / speed / 3600
        found.append({
            "way": way, "precision": side.precision, "max_tokens": max_tokens,
            "tokens_per_s": speeds, "matrix_flops": rates[way],
            "of_matrix_rate": statistics.median(flops) / rates[way],
            "peak_bytes": memory[way], "paper_hours": hours,
            "padding": rows[way][0]["padding"],
        })  # fmt: skip
        print(f"{way:<8} {side.precision:<22} batches of {max_tokens:>6,}"
              f"{speed:>10,.0f} target tokens/s ({min(speeds):,.0f} to {max(speeds):,.0f})"
              f"{found[-1]['of_matrix_rate']:>7.1%} of {rates[way] / 1e12:.3g} TFLOP/s"
              f"{memory[way] / 1e9:>7.2f} GB{hours:>9,.1f} h for the paper's run")
    ours, theirs = found
    ratios = [a / b for a, b in zip(ours["tokens_per_s"], theirs["tokens_per_s"], strict=True)]
    print(f"plugin / fairseq: speed {statistics.median(ratios):.2f} ({min(ratios):.2f} to "
          f"{max(ratios):.2f}), peak memory {ours['peak_bytes'] / theirs['peak_bytes']:.2f} at "
          f"{args.memory_tokens:,} tokens; padding {ours['padding']:.1%}")
    if args.output:
        write_json(found, args.output)


class Side:
    """One training in a process of its own, which waits between measurements."""

    def __init__(self, args: argparse.Namespace, data: Path, way: str, precision: str) -> None:
        self.precision = precision
        arch = SIZES[args.size][way == "fairseq"]
        self.command = [
            str(data), "--arch", arch, "--num-workers", "0",
            "--max-tokens", str(max(*args.max_tokens, args.memory_tokens)),
            "--required-batch-size-multiple", "1", "--disable-validation", "--no-save",
            *(FAIRSEQ if way == "fairseq" else ["--tokens-per-update", "0"]),
            *(["--checkpoint-activations"]
              if way == "plugin" and args.checkpoint_activations else []),
            *(["--cpu"] if args.cpu else []),
            *([f"--{precision}"] if precision != "float32" else []),
        ]  # fmt: skip
        self.errors = tempfile.TemporaryFile(mode="w+")  # a pipe that nobody reads would fill up
        self.process = subprocess.Popen(
            [sys.executable, "-m", __name__, *self.command],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
        )  # fmt: skip

    def ask(self, what: str, max_tokens: int = 0, count: int = 0) -> dict:
        """What the process says about so many batches of max_tokens. Raises ValueError where it
        ends instead."""
        print(json.dumps([what, max_tokens, count]), file=self.process.stdin, flush=True)
        for line in self.process.stdout or []:
            if line.startswith(ANSWER):
                return json.loads(line[len(ANSWER) :])
        self.process.wait()
        self.errors.seek(0)
        raise ValueError(f"{self.command} failed: {self.errors.read()[-1000:].strip()}")

    def close(self) -> None:
        self.process.communicate("")


ANSWER = "answer: "


def _best(
    args: argparse.Namespace, data: Path, way: str, precisions: list[str]
) -> tuple[Side, int]:
    """The fastest of a side's precisions and batch sizes."""
    best: tuple[float, Side, int] | None = None
    for precision in precisions:
        side, speeds = Side(args, data, way, precision), {}
        for max_tokens in args.max_tokens:
            row = side.ask("train", max_tokens, args.updates)
            speeds[max_tokens] = row["tokens"] / row["seconds"]
            print(f"{way:<8} {precision:<22} batches of {max_tokens:>6,}"
                  f"{speeds[max_tokens]:>10,.0f} target tokens/s", flush=True)
        fastest = max(speeds, key=speeds.__getitem__)
        if best is not None and speeds[fastest] <= best[0]:
            side.close()
            continue
        if best is not None:
            best[1].close()
        best = speeds[fastest], side, fastest
    assert best is not None
    return best[1:]


def serve(argv: list[str]) -> None:
    """Train as argv says, as far as each line of standard input asks."""
    # the plugin that runs here, which need not be the one that started this process
    argv = [*argv, "--user-dir", str(Path(__file__).resolve().parent.parent)]
    cfg = convert_namespace_to_omegaconf(
        options.parse_args_and_arch(options.get_training_parser(), argv)
    )
    common = cfg.common
    half = torch.float16 if common.fp16 or common.amp else torch.float32
    products = torch.bfloat16 if common.bf16 else half  # before the task has taken it over
    utils.set_torch_seed(common.seed)
    task = tasks.setup_task(cfg.task)
    model, criterion = task.build_model(cfg.model), task.build_criterion(cfg.criterion)
    task.load_dataset("train")
    trainer = Trainer(cfg, task, model, criterion)
    trainer.begin_epoch(1)
    device = trainer.device
    samples: dict[int, list[dict]] = {}  # by max_tokens
    for line in sys.stdin:
        what, max_tokens, count = json.loads(line)
        if what == "product":
            answer: dict[str, Any] = {"flops": _matrix_rate(device, products)}
        else:
            if len(samples.get(max_tokens, ())) < count:
                samples[max_tokens] = _batches(trainer, max_tokens, count)
            updates = partial(_updates, trainer, samples[max_tokens][:count])
            if what == "memory":
                trainer.zero_grad()
                sample, _ = trainer._prepare_sample(samples[max_tokens][0])
                once = partial(task.train_step, sample, trainer.model, trainer.criterion,
                               trainer.optimizer, 0)
                answer = {"bytes": peak_memory(once, device)}
            elif what == "profile":
                answer = {"table": profiled(updates, device)}
            else:
                _, seconds = timed(updates, device)
                words = len(task.target_dictionary)
                sizes = _sizes(samples[max_tokens][:count], cfg.model._name, words)
                answer = {"seconds": seconds, **sizes}
        print(ANSWER + json.dumps(answer), flush=True)


def _batches(trainer: Trainer, max_tokens: int, count: int) -> list[dict]:
    """The first batches of an epoch, and one more if there is; an update with the last has paid for
    what later ones find ready."""
    trainer.cfg.dataset.max_tokens = max_tokens
    epoch = trainer.get_train_iterator(1, load_dataset=False, disable_iterator_cache=True)
    samples = list(islice(epoch.next_epoch_itr(shuffle=True), count + 1))
    trainer.train_step(samples[-1:])
    return samples


def _updates(trainer: Trainer, samples: list[dict]) -> None:
    for sample in samples:
        trainer.train_step([sample])


def _sizes(samples: list[dict], arch: str, vocabulary: int) -> dict[str, float]:
    """Target tokens, floating-point operations of forward and backward, and padding."""
    sizes = settings("aiayn_big" if "big" in arch else "aiayn_base")
    d, d_ff, layers = sizes["d_model"], sizes["d_ff"], sizes["N"]
    flops, real, padded = 0.0, 0, 0
    for sample in samples:
        source, target = sample["net_input"]["src_tokens"], sample["target"]
        s, t = (x.ne(1).sum(dim=1).double() for x in (source, target))
        encoder = s * (4 * d * d + 2 * d * d_ff) + 2 * s * s * d
        decoder = t * (6 * d * d + 2 * d * d_ff) + 2 * s * d * d + t * t * d + 2 * s * t * d
        # a multiplication and an addition each; and the backward pass takes twice the forward's
        flops += 6 * float((layers * (encoder + decoder) + t * d * vocabulary).sum())
        real += int(s.sum() + t.sum())
        padded += source.numel() + target.numel()
    return {"tokens": sum(sample["ntokens"] for sample in samples), "flops": flops,
            "padding": 1 - real / padded}


def _matrix_rate(device: torch.device, kind: torch.dtype) -> float:
    """Operations per second of a large product of matrices in the precision of the training."""
    n = 8192 if device.type == "cuda" else 2048
    a, b = (torch.randn(n, n, device=device, dtype=kind) for _ in range(2))
    torch.mm(a, b)
    return 2 * n**3 / statistics.median(timed(lambda: torch.mm(a, b), device)[1] for _ in range(5))


def write_random_data(directory: Path) -> Path:
    """A fairseq data directory of random sentences."""
    generator = np.random.default_rng(1)
    words = Dictionary()
    for number in range(VOCABULARY - len(words)):
        words.add_symbol(f"w{number}")
    middle = np.log(MEAN_LENGTH) - SPREAD**2 / 2
    source = np.clip(generator.lognormal(middle, SPREAD, SENTENCES).round(), 1, 250).astype(int)
    target = np.maximum(1, source * generator.uniform(0.8, 1.2, SENTENCES)).astype(int)
    for lang, lengths in (("en", source), ("de", target)):
        words.save(str(directory / f"dict.{lang}.txt"))
        prefix = str(directory / f"train.en-de.{lang}")
        builder = indexed_dataset.make_builder(f"{prefix}.bin", "mmap", vocab_size=VOCABULARY)
        for length in lengths:
            tokens = generator.integers(words.nspecial, VOCABULARY, length + 1)
            tokens[-1] = words.eos()
            builder.add_item(torch.from_numpy(tokens))
        builder.finalize(f"{prefix}.idx")
    return directory


if __name__ == "__main__":
    serve(sys.argv[1:])
