"""The sections of a report on one run."""

from collections.abc import Iterator, Sequence
from typing import Any

from ..paper import ARCHITECTURES, SCALED_DOWN, get_settings
from ..text.scores import Chance
from . import parses
from .cost import FORMULA, Cost
from .curves import curves
from .document import Code, Figure, Items, Section, Table, Text
from .formatting import duration, fixed, power, whole
from .run import GENERATED, Run
from .tables import not_newstest, papers_row, published, table_2, table_3

#: For each split and run, what chance has to do with each BLEU; nothing if its references differ.
Chances = dict[str, dict[str, dict[str, Chance]]]

EXAMPLES = 6
NOT_RECORDED = "not recorded"


def summary(run: Run, cost: Cost) -> Section:
    """Return what came out, and what of the run is missing."""
    log = run.log
    restarts = log.restarts()
    most = f" of {run.settings.max_update:,}" if run.settings else ""
    rows: list[list[Any]] = [
        ["training", log.state if log.last_time or log.train else None],
        ["updates", f"{log.update:,}{most}"],
        ["time", duration(cost.seconds) + (f", in {len(restarts) + 1} starts" if restarts else "")],
        ["parameters", whole(cost.parameters or cost.formula_parameters)],
    ]
    if log.valid:
        last = log.valid[-1]
        known = [
            f"{name} {last.values[key]:.{places}f}"
            for key, name, places in (("ppl", "perplexity", 2), ("loss", "loss", 3))
            if key in last.values
        ]
        losses = [point.values["loss"] for point in log.valid if "loss" in point.values]
        rows.append(
            [
                "validation",
                f"{', '.join(known) or 'no number'} after {last.update:,} "
                "updates" + (f"; least loss {min(losses):.3f}" if losses else ""),
            ]
        )
    for split, found in run.evaluations.items():
        rows.append(
            [
                f"{split} set",
                f"paper BLEU {found.scores.paper_bleu:.2f}, sacreBLEU "
                f"{found.scores.bleu:.2f}, chrF {found.scores.chrf:.2f}",
            ]
        )
    for split, trees in run.trees.items():
        rows.append([f"{split} set", f"F1 {100 * trees.all.f1:.2f}"])
    blocks: list = [Table("What came out", ("", ""), rows)]
    if run.faults:
        blocks += [Text("What could not be read:"), Items(run.faults)]
    if run.missing:
        blocks.append(Text(f"Not there: {', '.join(run.missing)}."))
    return Section("Result", blocks)


def training(run: Run) -> Section:
    """Return the curves. Raises InputError without matplotlib."""
    schedules = {}
    ours = any(row.name == "lr_scheduler" and row.run == "aiayn_inverse_sqrt" for row in run.rows)
    if ours and (s := run.settings) and s.warmup_updates > 0:
        schedules["equation (3) with this run's d_model and warm-up"] = s.d_model, s.warmup_updates
        arch = run.architecture or "aiayn_base"
        arch = papers_row(run) or SCALED_DOWN.get(arch, arch)
        paper = get_settings(arch if arch in ARCHITECTURES else "aiayn_base")
        schedules["equation (3) of the paper's model"] = paper.d_model, paper.warmup_updates
    if len(set(schedules.values())) == 1:
        schedules.popitem()
    figures: Sequence[Figure | Text] = list(curves({run.name: run.log}, schedules))
    note = Text(
        "Hours and minutes are those of training as fairseq counts them: neither the "
        "pauses between two starts nor the updates that a restart took again are in them. "
        "Perplexity is 2 to the power of the loss without label smoothing, per "
        "piece."
    )
    return Section("Training", [*figures, note] if figures else [Text("The log has no numbers.")])


def settings(run: Run) -> Section:
    """Return each setting beside the paper's."""
    if not run.rows:
        return Section("Settings", [Text("Neither the log nor a checkpoint says them.")])
    arch = run.architecture or "an architecture without a name"
    caption = f"Settings of {arch}, beside the paper's"
    if arch in SCALED_DOWN:
        caption += f" (which has none of this name: those of {SCALED_DOWN[arch]})"
    changed = frozenset(n for n, row in enumerate(run.rows) if row.paper != row.run)
    rows: list[list[Any]] = [
        [row.name, row.paper, row.run, "changed" if n in changed else ""]
        for n, row in enumerate(run.rows)
    ]
    head = ("setting", "paper", "this run", "")
    return Section("Settings", [Table(caption, head, rows, changed)])


def data(run: Run, cost: Cost) -> Section:
    """Return what it was trained on."""
    log, text = run.log, run.text
    words = [run.fact("source_words"), run.fact("target_words")]
    rows: list[list[Any]] = [
        ["training pairs", whole(run.fact("train_pairs"))],
        ["kept and dropped", run.pairs or NOT_RECORDED],
        ["validation pairs", whole(run.fact("valid_pairs"))],
        [
            "vocabulary",
            " source, ".join(filter(None, map(whole, words))) + " target"
            if None not in words
            else NOT_RECORDED,
        ],
        ["target tokens of an update", whole(cost.target_tokens)],
        ["source tokens of an update", whole(cost.source_tokens) or NOT_RECORDED],
        ["batches", log.facts.get("batches")],
    ]
    if text is not None:
        size = f"{text.vocabulary:,} pieces" if text.vocabulary else f"{text.merges:,} merges"
        rows += [
            ["languages", f"{text.source_lang} to {text.target_lang}"],
            ["subwords", f"{text.subword}, {size}; tokens of {text.tokenizer}"],
        ]
    return Section("Data", [Table("Data", ("", ""), [row for row in rows if row[1]])])


def costs(run: Run, cost: Cost) -> Section:
    """Return the exact parameters, and the operations of the training both ways."""
    papers = cost.papers_way
    if not isinstance(papers, str):
        papers = (
            f"{power(papers)}: {cost.seconds:,.0f} s × {cost.devices} devices × "
            f"{cost.tflops} TFLOPS"
        )
    operations = cost.counted if isinstance(cost.counted, str) else power(cost.counted)
    rows: list[list[Any]] = [
        ["parameters, as the log counts them", whole(cost.parameters) or NOT_RECORDED],
        ["parameters, by the formula", whole(cost.formula_parameters)],
        ["FLOPs, the paper's way (time × devices × sustained rate)", papers],
        ["FLOPs, counted", operations],
    ]
    note = Text(
        f"Counted: {FORMULA}. Pairs are taken to be of the mean lengths, over "
        f"{run.log.update:,} updates; those that a restart took again are left out."
        + (
            ""
            if cost.source_tokens
            else " The tokens of the source are not recorded, and "
            "are taken to be as many as the target's."
        )
    )
    return Section("Parameters and cost", [Table("Cost", ("", ""), rows), note])


def scores(runs: Sequence[Run], chances: Chances) -> Section:
    """Return the scores of all sets, with the interval of each BLEU and, of several runs, p."""
    trees = parses.scores(runs)
    several = len(runs) > 1
    rows: list[list[Any]] = []
    hows: dict[str, None] = {}
    for split in GENERATED:
        for run in (run for run in runs if split in run.evaluations):
            values, by_name = run.evaluations[split].scores, chances.get(split, {}).get(run.name)
            row: list[Any] = [f"{run.name}, {split}" if several else split]
            for name, value in (("paper BLEU", values.paper_bleu), ("sacreBLEU", values.bleu)):
                chance = (by_name or {}).get(name)
                interval = f"{chance.mean:.2f} ± {chance.half_width:.2f}" if chance else None
                row += [fixed(value), "other sentences" if by_name == {} else interval]
                row += [fixed(chance.p, 3) if chance else None] * several
            rows.append([*row, fixed(values.chrf), f"{values.exact:.1%}", whole(values.sentences)])
            hows |= dict.fromkeys(
                (
                    f"paper BLEU: {values.words}",
                    f"sacreBLEU: {values.signature}",
                    f"chrF: {values.chrf_signature}",
                )
            )
    if not rows and trees:
        return Section("Scores", trees)
    if not rows:
        return Section(
            "Scores",
            [
                Text(
                    f"There are no translations: {GENERATED['test']} is what "
                    "fairseq-generate prints of the test set."
                )
            ],
        )
    chance_of = ["95 % interval", *["p"] * several]
    head = [
        "set",
        "paper BLEU",
        *chance_of,
        "sacreBLEU",
        *chance_of,
        "chrF",
        "exact matches",
        "sentences",
    ]
    note = (
        "The interval is the mean of 1,000 bootstrap samples of the sentences ± half the width "
        "of the range that 95 % of them are in, with sacrebleu's seed."
    )
    if several:
        note += (
            " p is that of sacrebleu's paired bootstrap test with the first run of the set: "
            "how likely so large a difference is by chance of the sentences alone. Chance of "
            "the training (another seed) is not in it."
        )
    return Section(
        "Scores",
        [Table("Scores of the translations", head, rows), Text(note), Items(list(hows)), *trees],
    )


def beside_the_paper(run: Run, cost: Cost) -> Section:
    """Return Table 2 and the row of Table 3, as published, with the run's own; or Table 4."""
    if run.text is not None and run.text.holds_trees:
        return Section("Beside the paper", parses.table_4([run]))
    none = Text(f"{run.architecture or 'This model'} with these settings is no row of Table 3.")
    return Section(
        "Beside the paper",
        [
            *table_2(run, cost),
            table_3([run], [cost]),
            published([run]) or none,
            *not_newstest([run]),
        ],
    )


def examples(run: Run) -> Section | None:
    """Return some translations or trees, from all over the set."""
    if run.trees:
        return parses.examples(run)
    found = run.evaluations.get("test") or run.evaluations.get("valid")
    if found is None:
        return None
    text = found.text
    step = max(1, len(text.system) // EXAMPLES)
    rows: list[list[Any]] = [
        [
            f"{n + 1}",
            *(
                side[n][:500] if n < len(side) else None
                for side in (text.sources, text.references, text.system)
            ),
        ]
        for n in range(0, len(text.system), step)[:EXAMPLES]
    ]
    head = ("sentence", "source", "reference", "translation")
    return Section("Translations", [Table("Some translations", head, rows)])


def again(run: Run) -> Section:
    """Return versions, device, and the command of the training."""
    facts = run.log.facts
    rows: list[list[Any]] = [
        ["training with", facts.get("versions", NOT_RECORDED)],
        [
            "on",
            f"{facts.get('devices', '?')} × {facts['gpu']}"
            if "gpu" in facts
            else facts.get("device", NOT_RECORDED),
        ],
        ["seed", facts.get("seed", NOT_RECORDED)],
    ]
    if run.text is not None:
        rows.append(["data with", ", ".join(f"{k} {v}" for k, v in run.text.versions.items())])
        rows += [[f"SHA-256 of {name}", digest[:200]] for name, digest in run.text.inputs.items()]
    command = (
        Code(facts["command"])
        if "command" in facts
        else Text("The log does not record the command of the training.")
    )
    rest = Text(
        "Not recorded: the commands that prepared the data, averaged checkpoints and translated."
    )
    return Section("Made with", [Table("Versions and input", ("", ""), rows), command, rest])


def sections(run: Run, cost: Cost, chances: Chances) -> Iterator[Section]:
    """Yield the whole report on one run."""
    yield summary(run, cost)
    yield training(run)
    yield beside_the_paper(run, cost)
    yield scores([run], chances)
    if found := examples(run):
        yield found
    yield settings(run)
    yield data(run, cost)
    yield costs(run, cost)
    yield again(run)
