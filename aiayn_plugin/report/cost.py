"""§6.1: what a training costs in floating-point operations, by the paper's way and by counting."""

import re
from dataclasses import dataclass

from ..paper import ModelSettings, count_parameters
from .run import Run

#: Sustained single-precision TFLOPS of one device, as the paper estimates them.
RATES = {"K80": 2.8, "K40": 3.7, "M40": 6.0, "P100": 9.5}
FORMULA = (
    "forward pass of a pair of m source and n target tokens: 2 operations for each multiplication "
    "of a matrix product, which are N·[a(m, m) + 2·m·d_model·d_ff] in the encoder, "
    "N·[a(n, n) + a(n, m) + 2·n·d_model·d_ff] in the decoder and n·d_model·V in the projection; "
    "attention of q queries to k keys has a(q, k) = (q + k)·d_model·h·(d_k + d_v) + "
    "q·k·h·(d_k + d_v), and restricted to r positions q·r in place of q·k; the backward pass costs "
    "twice the forward pass"
)


def rate_of(device: str) -> float | None:
    """Return the paper's rate for a device by its name, None if the paper has none for it."""
    found = re.search(rf"\b({'|'.join(RATES)})(?!\d)", device)  # a Quadro P1000 is no P100
    return RATES[found[1]] if found else None


def papers_way(seconds: float, devices: int, tflops: float) -> float:
    """Return time × devices × sustained rate."""
    return seconds * devices * tflops * 1e12


def forward(s: ModelSettings, words: int, source: float, target: float) -> float:
    """Return the operations of a forward pass of one pair, as FORMULA has them.

    words: of the target vocabulary. source, target: tokens, each with its end symbol. Embeddings,
    norms, softmax and dropout are no matrix products, and are not counted.
    """
    d_k, d_v = s.head_widths()
    heads = s.h * (d_k + d_v)

    def attention(queries: float, keys: float, seen: float) -> float:
        # W^Q: queries · d_k, W^O: queries · d_v, W^K: keys · d_k, W^V: keys · d_v
        return (queries + keys) * s.d_model * heads + queries * seen * heads

    r = s.neighbourhood or float("inf")
    feed_forward = 2 * s.d_model * s.d_ff
    encoder = attention(source, source, min(source, r)) + source * feed_forward
    decoder = (
        attention(target, target, min(target, r))
        + attention(target, source, source)
        + target * feed_forward
    )
    return 2 * (s.N * (encoder + decoder) + target * s.d_model * words)


def counted(
    s: ModelSettings, words: int, updates: int, pairs: float, source: float, target: float
) -> float:
    """Return the operations of a training: 3 forward passes for each pair of each update.

    pairs, source, target: pairs and tokens of an update, without padding. The pairs are taken to be
    of the mean lengths; attention is a little dearer for the longer ones.
    """
    return 3 * updates * pairs * forward(s, words, source / pairs, target / pairs)


@dataclass(frozen=True)
class Cost:
    """What a run has cost so far; in the place of what is not known stands why."""

    parameters: int | None  #: as the log counts them
    formula_parameters: int | None
    seconds: float
    devices: int
    device: str | None
    tflops: float | None
    papers_way: float | str
    counted: float | str
    target_tokens: float | None  #: of an update, without padding
    source_tokens: float | None  #: None without the plan of --tokens-per-update
    pairs: float | None


def cost_of(run: Run, tflops: float | None = None) -> Cost:
    """Return a run's cost. tflops: the sustained rate of a device that the paper has none for."""
    device = run.log.facts.get("gpu") or run.log.facts.get("device")
    rate = tflops or rate_of(device or "")
    seconds, devices = run.log.hours * 3600, run.fact("devices") or 1
    papers: float | str = "the paper has no sustained rate for this device: give --tflops"
    if device is None and rate is None:
        papers = "the log does not name the device: give --tflops"
    elif run.log.unseen:
        papers = f"the first {run.log.unseen:,} updates are not in the log"
    elif not seconds:
        papers = "the log does not say how long the training took"
    elif rate:
        papers = papers_way(seconds, devices, rate)
    pairs, source, target = _sizes(run)
    source_words, target_words = run.fact("source_words"), run.fact("target_words")
    formula: int | None = None
    operations: float | str
    s = run.settings
    if s is None or target_words is None or source_words is None:
        operations = "the sizes of the model or of its vocabulary are not known"
    else:
        formula = count_parameters(s, source_words, target_words)
        operations = "the log does not say how large an update is"
        if pairs and target:
            operations = counted(s, target_words, run.log.update, pairs, source or target, target)
    return Cost(
        run.fact("parameters"),
        formula,
        seconds,
        devices,
        device,
        rate,
        papers,
        operations,
        target,
        source,
        pairs,
    )


def _sizes(run: Run) -> tuple[float | None, float | None, float | None]:
    """Return pairs, source tokens and target tokens of an update, in the mean.

    Without the plan of --tokens-per-update the source is not logged.
    """
    points = run.log.train or run.log.epochs
    pairs, target = (
        [point.values[name] for point in points if name in point.values] for name in ("bsz", "wpb")
    )
    mean_pairs = sum(pairs) / len(pairs) if pairs else None
    mean_target = sum(target) / len(target) if target else None
    count = r"(\d[\d,]{,14})"
    plan = re.search(f"of {count} target and {count} source", run.log.facts.get("batches", ""))
    if plan is None:
        return mean_pairs or None, None, mean_target
    planned, source = (float(number.replace(",", "")) for number in plan.groups())
    return mean_pairs or None, source, planned
