"""The scores of runs on their test and validation sets, with bootstrap intervals."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from ..text.lines import same_words
from ..text.scores import MAX_RESAMPLED, resample
from .document import Block, ExampleOutputs, Table
from .formatting import format_integer, format_number
from .run import SCORE_FILES, Run

#: The number of example outputs in a report.
EXAMPLES = 4


def compare_by_bootstrap(runs: Sequence[Run]) -> None:
    """Add p to each BLEU, from a paired test against the first run of the split.

    Leaves out runs with different references, and sets too large to resample.
    """
    for split in SCORE_FILES:
        scored = [run.translations[split] for run in runs if split in run.translations]
        texts = [(scores["references"], scores["target_lang"]) for scores in scored]
        same = [scores for scores, text in zip(scored, texts, strict=True) if text == texts[0]]
        if len(same) < 2 or not 0 < len(texts[0][0]) <= MAX_RESAMPLED:
            continue
        for name, results in resample([scores["system"] for scores in same], *texts[0]).items():
            for scores, result in zip(same, results, strict=True):
                scores["bootstrap"][name] = result._asdict()


def score_blocks(runs: Sequence[Run]) -> list[Block]:
    """Return the scores of all sets, with the interval of each BLEU and, for several runs, p."""
    several = len(runs) > 1
    translations, trees = {}, {}
    for split in SCORE_FILES:
        for run in runs:
            label = f"{run.name}, {split}" if several else split
            if split in run.translations:
                translations[label] = run.translations[split]
            if split in run.trees:
                trees[label] = run.trees[split]
    blocks = _translation_scores(translations, several) if translations else []
    blocks += _tree_scores(trees) if trees else []
    how = f"aiayn score GENERATE.LOG --data DATA --json RUN/{SCORE_FILES['test']}"
    return blocks or [f"No scores yet: {how} computes those of the test set."]


def _translation_scores(scored: dict[str, dict], several: bool) -> list[Block]:
    rows: list[list[Any]] = []
    for label, scores in scored.items():
        row: list[Any] = [label]
        for name, key in (("paper BLEU", "paper_bleu"), ("sacreBLEU", "bleu")):
            bootstrap = scores["bootstrap"].get(name) or {}
            row += [
                format_number(scores[key]),
                _interval(bootstrap),
                *[format_number(bootstrap.get("p"), ".3f")] * several,
            ]
        row += [
            format_number(scores["chrf"]),
            f"{scores['exact']:.1%}",
            format_integer(scores["sentences"]),
        ]
        rows.append(row)
    methods = {"paper BLEU": "words", "sacreBLEU": "signature", "chrF": "chrf_signature"}
    used = [f"{name}: {scores[key]}" for scores in scored.values() for name, key in methods.items()]
    bootstrap_head = ["95% interval", *["p"] * several]
    head = ["set", "paper BLEU", *bootstrap_head, "sacreBLEU", *bootstrap_head]
    head += ["chrF", "exact matches", "sentences"]
    note = (
        "The interval is centred on the mean of 1,000 bootstrap samples of the sentences and as "
        "wide as the range that holds 95% of them, with sacrebleu's seed."
    )
    if several:
        note += (
            " p is from sacrebleu's paired bootstrap test against the first run of the set, for "
            "runs with the same references: the probability of a difference this large by the "
            "choice of sentences alone. It does not account for variation between seeds."
        )
    return [Table("Scores of the translations", head, rows), note, list(dict.fromkeys(used))]


def _interval(bootstrap: dict[str, float]) -> str | None:
    if not bootstrap:
        return None
    mean, half = bootstrap["mean"], bootstrap["half_width"]
    return f"{max(0, mean - half):.2f} to {min(100, mean + half):.2f}"


def _tree_scores(scored: dict[str, dict]) -> list[Block]:
    records = []
    for label, scores in scored.items():
        counts = scores["all"]
        records.append(
            {
                "set": label,
                "F1": format_number(100 * counts["f1"]),
                "precision": format_number(100 * counts["precision"]),
                "recall": format_number(100 * counts["recall"]),
                "F1, up to 40 words": format_number(100 * scores["short"]["f1"]),
                "exact matches": f"{exact_share(counts):.1%}",
                "correct tags": f"{counts['tags'] / max(1, counts['words']):.1%}",
                "trees repaired": format_integer(scores["repaired"]),
                "sentences": format_integer(counts["sentences"]),
                "skipped": format_integer(counts["skipped"]),
                "F1 of all": format_number(100 * scores["by_gold_punctuation"]["f1"]),
            }
        )
    note = (
        "Labelled brackets are counted as EVALB does with COLLINS.prm: TOP and punctuation do not "
        "count, ADVP equals PRT, and sentences whose words differ, punctuation aside, are skipped; "
        "F1 of all covers every sentence: the gold tree's tags decide what is punctuation."
    )
    return [Table.from_records("Scores of the trees", records), note]


def exact_share(counts: dict[str, int]) -> float:
    """Return the fraction of a parser's trees that equal the gold trees, without skipped ones."""
    return counts["exact"] / max(1, counts["sentences"] - counts["skipped"])


def examples(run: Run) -> list[Block]:
    """Return outputs from across the set, half of them equal to their references if possible."""
    scores = run.translations | run.trees
    texts = scores.get("test") or scores.get("valid")
    if not texts or not texts["references"]:
        return []
    sides = (texts["sources"], texts["system"], texts["references"])
    rows = [*zip_longest(*sides, fillvalue="")]
    equal = [row for row in rows if same_words(row[1], row[2])]
    different = [row for row in rows if not same_words(row[1], row[2])]
    half = EXAMPLES // 2
    chosen = _spread(equal, EXAMPLES - min(half, len(different)))
    chosen += _spread(different, EXAMPLES - len(chosen))
    what = (
        "Trees equal to their reference in brackets, tags and punctuation"
        if run.trees
        else "Translations equal to their reference"
    )
    note = f"{what}: {len(equal):,} of {len(rows):,}."
    return [note, ExampleOutputs(chosen)]


def _spread(items: list[Any], n: int) -> list[Any]:
    """Return at most n evenly spaced items."""
    return items[:: max(1, len(items) // n)][:n] if n else []
