"""§6.1: the floating-point operations of training, estimated as in the paper and counted."""

import re
from dataclasses import dataclass
from statistics import fmean

from ..paper import ModelSettings, count_parameters
from .training_record import TrainingRecord

#: The paper's estimates of the sustained single-precision TFLOPS of one device.
RATES = {"K80": 2.8, "K40": 3.7, "M40": 6.0, "P100": 9.5}
TIME_NOTE = "Training time includes start-up, validation and saving checkpoints."
FORMULA = (
    "a forward pass of m source and n target tokens takes 2 operations per multiply-add: "
    "N·[a(m, m) + 2·m·d_model·d_ff] in the encoder, "
    "N·[a(n, n) + a(n, m) + 2·n·d_model·d_ff] in the decoder and n·d_model·V in the projection; "
    "attention of q queries to k keys takes a(q, k) = (q + k)·d_model·h·(d_k + d_v) + "
    "q·k·h·(d_k + d_v), or q·r instead of q·k if it is restricted to r positions; the backward "
    "pass takes twice as many"
)


def device_rate(device: str) -> float | None:
    """Return the paper's sustained TFLOPS of a device, None if the paper has no estimate."""
    found = re.search(rf"\b({'|'.join(RATES)})(?!\d)", device)  # a Quadro P1000 is not a P100
    return RATES[found[1]] if found else None


def estimated_flops(seconds: float, devices: int, tflops: float) -> float:
    """Return time × devices × sustained rate, the paper's estimate."""
    return seconds * devices * tflops * 1e12


def forward_flops(s: ModelSettings, vocabulary: int, source: float, target: float) -> float:
    """Return the operations of a forward pass of one sentence pair, as FORMULA counts them.

    vocabulary: the target's. source, target: numbers of tokens, with the end symbol. Embeddings,
    norms, softmax and dropout are left out.
    """
    d_k, d_v = s.head_widths()
    heads = s.h * (d_k + d_v)

    def attention(queries: float, keys: float, visible: float) -> float:
        # W^Q: queries · d_k, W^O: queries · d_v, W^K: keys · d_k, W^V: keys · d_v
        return (queries + keys) * s.d_model * heads + queries * visible * heads

    r = s.neighbourhood or float("inf")
    feed_forward = 2 * s.d_model * s.d_ff
    encoder = attention(source, source, min(source, r)) + source * feed_forward
    decoder = (
        attention(target, target, min(target, r))
        + attention(target, source, source)
        + target * feed_forward
    )
    return 2 * (s.N * (encoder + decoder) + target * s.d_model * vocabulary)


def counted_flops(
    s: ModelSettings, vocabulary: int, updates: int, pairs: float, source: float, target: float
) -> float:
    """Return the operations of training: 3 forward passes for each pair of each update.

    pairs, source, target: pairs and tokens of an update, without padding. All pairs are assumed
    to have the mean lengths; attention costs slightly more for the longer ones.
    """
    return 3 * updates * pairs * forward_flops(s, vocabulary, source / pairs, target / pairs)


@dataclass(frozen=True)
class Cost:
    """The cost of a run so far. Unknown FLOPs are strings that state the reason."""

    parameters: int | None  #: recorded, or else computed by the formula
    formula_parameters: int | None
    seconds: float  #: including start-up, validation and saving checkpoints
    devices: int
    tflops: float | None
    estimated: float | str
    counted: float | str
    pairs: float | None  #: mean per update
    source_tokens: float | None  #: without padding; None without --tokens-per-update
    target_tokens: float | None


def compute_cost(record: TrainingRecord, s: ModelSettings | None, tflops: float | None) -> Cost:
    """Return a run's cost. tflops: the device's sustained rate; None: the paper's."""
    facts = record.facts
    seconds, devices = record.hours * 3600, facts["devices"] or 1
    rate = tflops or device_rate(facts["device"] or "")
    # fairseq logs pairs and target tokens; only the plan of --tokens-per-update has source tokens.
    logged = [point.values for point in record.train or record.epochs]
    pairs, target = (
        fmean(known) if (known := [values[name] for values in logged if name in values]) else None
        for name in ("bsz", "wpb")
    )
    source = facts["batches"].get("source_tokens")
    target = facts["batches"].get("target_tokens") or target
    words = facts["dictionaries"]
    counted: float | str
    formula, counted = None, "the sizes of the model or of its vocabulary are unknown"
    if s and words["source"] and words["target"]:
        formula = count_parameters(s, words["source"], words["target"])
        counted = "the size of an update is not recorded"
        if pairs and pairs >= 1 and target:
            sizes = pairs, source or target, target
            counted = counted_flops(s, words["target"], record.update, *sizes)
    return Cost(
        parameters=facts["parameters"] or formula,
        formula_parameters=formula,
        seconds=seconds,
        devices=devices,
        tflops=rate,
        estimated=_estimate(record, rate),
        counted=counted,
        pairs=pairs,
        source_tokens=source,
        target_tokens=target,
    )


def _estimate(record: TrainingRecord, tflops: float | None) -> float | str:
    """Return the paper's estimate of the FLOPs so far, or the reason why it is unknown."""
    if tflops is None:
        if record.facts["device"]:
            return "the paper has no sustained rate for this device: give --tflops"
        return "the device is not recorded: give --tflops"
    if record.unrecorded_updates:
        return f"the first {record.unrecorded_updates:,} updates are not recorded"
    if record.changed_devices:
        return "the devices changed during the run"
    seconds, devices = record.hours * 3600, record.facts["devices"] or 1
    return estimated_flops(seconds, devices, tflops) or "no time is recorded"
