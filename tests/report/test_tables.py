"""Runs next to the paper's Tables 2, 3 and 4: every number in its cell."""

from dataclasses import asdict, replace

import pytest
from training_runs import (
    TEXT,
    Record,
    markdown_of,
    numbers_of,
    report_on,
    rows_of,
    translation_scores,
    tree_scores,
    write_scores,
)

from aiayn_plugin.report.formatting import format_power
from aiayn_plugin.report.run import read_run
from aiayn_plugin.text.settings import PENN

pytestmark = pytest.mark.usefixtures("quiet")


def text(**changes):
    """Return the description of the data in a record."""
    return asdict(replace(TEXT, **changes))


@pytest.mark.parametrize(
    ("target", "sentences", "name", "cells", "compared"),
    [
        ("de", 3003, "test.newstest2014", ("12.34", None, "6.8 · 10¹⁶", None), "−15.0"),
        ("fr", 3003, "test.newstest2014", (None, "12.34", None, "6.8 · 10¹⁶"), "−25.8"),
        ("de", 3002, "test.newstest2014", None, "90.0%"),
        ("de", 3003, "test.other", None, "90.0%"),
        ("cs", 3003, "test.newstest2014", None, "90.0%"),
    ],
)
def test_only_newstest2014_is_in_table_2_in_its_language(
    tmp_path, target, sentences, name, cells, compared
):
    record = Record(device="Tesla P100", text=text(target_lang=target, inputs={name: "x"}))
    run = record.start().train(10, 3600).write(tmp_path / "run")
    scores = translation_scores(paper_bleu=12.34, bleu=56.78, exact=0.9)
    write_scores(run, test={**scores, "sentences": sentences})
    found = report_on(run)
    assert [value for value, _, _ in numbers_of(found)] == ["12.34", compared, "1 h"]
    assert ("The run has no result in Table 2" in markdown_of(run)) == (cells is None)
    if cells is None:
        assert "GNMT" not in markdown_of(run)
        return
    table = rows_of(found, "Table 2")
    columns = ("BLEU EN-DE", "BLEU EN-FR", "FLOPs EN-DE", "FLOPs EN-FR")
    assert tuple(table["run"][column] for column in columns) == cells
    assert table["Transformer (big)"] == {
        "BLEU EN-DE": "28.4",
        "BLEU EN-FR": "41.8",
        "FLOPs EN-DE": "2.3 · 10¹⁹",
        "FLOPs EN-FR": "2.3 · 10¹⁹",
        "source": "paper",
    }
    assert table["Deep-Att + PosUnk"]["BLEU EN-FR"] == "39.2"
    assert table["Deep-Att + PosUnk"]["BLEU EN-DE"] is None


def test_one_run_as_in_table_3(tmp_path):
    """The perplexity is the last one, not the best; BLEU is that of the validation set."""
    record = Record("--arch", "aiayn_c_n2", device="P100").start().train(10, 60)
    record.valid(10, ppl=5.0).valid(20, ppl=4.0).valid(30, ppl=4.5)
    run = record.write(tmp_path / "some")
    write_scores(
        run, test=translation_scores(paper_bleu=99.0), valid=translation_scores(paper_bleu=12.34)
    )
    found = report_on(run)
    own = rows_of(found, "This run, as in Table 3")["some"]
    assert own == {
        **{"N": 2, "d_model": 512, "d_ff": 2048, "h": 8, "d_k": 64, "d_v": 64},
        **{"P_drop": 0.1, "ε_ls": 0.1, "positions": "sinusoids", "steps": "100,000"},
        **{"PPL": "4.50", "BLEU": "12.34", "params ×10⁶": "0.00"},
    }
    published = rows_of(found, "Table 3 as published")
    assert published.keys() == {"aiayn_base", "aiayn_c_n2"}
    base, row = published.values()
    assert (base["PPL"], base["BLEU"], base["params ×10⁶"]) == ("4.92", "25.8", 65)
    assert (row["PPL"], row["BLEU"], row["params ×10⁶"]) == ("6.11", "23.7", 36)
    assert (row["Δ PPL"], row["Δ BLEU"], row["run"]) == ("+1.19", "−2.1", "some")
    assert (row["N"], row["d_model"]) == (2, None), "an empty cell is base's"
    assert "is not known to be newstest2013" in markdown_of(run)


@pytest.mark.parametrize(
    ("flags", "facts", "row"),
    [
        (("--arch", "aiayn_base"), {}, "aiayn_base"),
        (("--arch", "aiayn_base", "--dropout", "0.2"), {}, "aiayn_d_dropout02"),
        (("--arch", "aiayn_e_learned"), {}, "aiayn_e_learned"),
        (("--arch", "aiayn_base", "--d-ff", "99"), {}, None),
        (("--arch", "aiayn_base"), {"architecture": "talking_heads"}, None),
    ],
)
def test_a_run_belongs_to_the_row_with_its_columns(tmp_path, flags, facts, row):
    """A run of a user-defined architecture belongs to no row."""
    run = Record(*flags, **facts).start().train(1, 1).write(tmp_path / "run.jsonl")
    found = report_on(run)
    assert found.data["runs"][0]["row_of_table_3"] == row
    if row:
        assert rows_of(found, "Table 3 as published")[row]["run"] == "run.jsonl"
    else:
        assert "Table 3 has no row with these settings" in markdown_of(run)


def test_several_runs_are_compared_with_the_first(tmp_path):
    runs = []
    for name, n, ppl, bleu in (("base", "2", 3.5, 30.0), ("c_n2", "1", 4.75, 28.5)):
        record = Record("--N", n, parameters=12_345_678, device="P100").start().train(50, 3600)
        record.valid(50, 3600, ppl=ppl)
        runs.append(record.write(tmp_path / name))
        write_scores(runs[-1], valid=translation_scores(paper_bleu=bleu))
    found = report_on(*runs)
    first, second = rows_of(found, "The runs, in the layout of Table 3").values()
    assert (first["N"], first["PPL"], first["BLEU"], first["Δ PPL"]) == (2, "3.50", "30.00", None)
    assert (second["N"], second["PPL"], second["BLEU"]) == (1, "4.75", "28.50")
    assert (second["Δ PPL"], second["Δ BLEU"]) == ("+1.25", "−1.50")
    assert (second["d_model"], second["params ×10⁶"]) == (None, "12.35")
    published = rows_of(found, "Table 3 as published")
    assert published["aiayn_base"]["run"] == "base" and published["aiayn_c_n2"]["run"] == "c_n2"
    cost = rows_of(found, "Cost")["c_n2"]
    counted = format_power(found.data["runs"][1]["cost"]["counted"])
    assert (cost["updates"], cost["time"], cost["parameters"]) == ("50", "1 h", "12,345,678")
    assert (cost["FLOPs, estimated"], cost["FLOPs, counted"]) == ("6.8 · 10¹⁶", counted)


def test_other_differences_between_runs_are_listed(tmp_path):
    changes = {
        "first": {"flags": ("--curriculum", "5")},
        "seed": {"seed": 8},
        "warmup": {"flags": ("--warmup-updates", "77", "--clip-norm", "1.5")},
        "rate": {"flags": ("--curriculum", "5", "--lr-scheduler", "fixed", "--lr", "0.25")},
        "own": {"architecture": "talking_heads"},
        "tuned": {"flags": ("--curriculum", "5", "--finetune-from-model", "x.pt")},
        "text": {"text": text(inputs={"train.en": "x"})},
        "reverse": {"text": text(source_lang="de", target_lang="en")},
        "subwords": {"text": text(merges=7)},
        "unknown": {"text": None, "settings": []},
        "later": {"updates": 20},
    }
    runs = []
    for name, facts in changes.items():
        flags, updates = facts.pop("flags", ("--curriculum", "5")), facts.pop("updates", 10)
        runs.append(Record(*flags, **facts).start().train(updates, 60).write(tmp_path / name))
    table = rows_of(report_on(*runs), "The runs, in the layout of Table 3")
    assert {name: row["other differences"] for name, row in table.items()} == {
        "first": "",
        "seed": "seed 8",
        "warmup": "maximum gradient norm: 1.5; warm-up updates: 77; epochs without shuffling: -",
        "rate": "learning-rate schedule: fixed; warm-up updates: 0; peak learning rate: 0.25",
        "own": "architecture talking_heads",
        "tuned": "initial weights: x.pt",
        "text": "DIFFERENT TEXT: not comparable",
        "reverse": "DIFFERENT LANGUAGES: not comparable",
        "subwords": "DIFFERENT SUBWORDS: perplexity not comparable",
        "unknown": "text unknown",
        "later": "20 updates so far",
    }
    assert table["unknown"]["N"] == "?" and table["seed"]["N"] is None


def test_runs_that_differ_only_in_the_seed_have_a_range(tmp_path):
    runs = []
    batches = {"e": ["--update-freq", "4"]} | dict.fromkeys("dfg", ["--update-freq", "2"])
    for name, seed, ppl, bleu in (
        *(("a", 1, 3.5, 30.0), ("b", 2, 3.25, 31.0), ("c", 1, 9.0, 9.0)),
        *(("d", 1, 3.0, 32.0), ("e", 2, 2.5, 33.0), ("f", 3, 2.5, 33.0), ("g", 3, 2.5, 33.0)),
    ):
        flags = batches.get(name, ["--N", "1"] * (name == "c"))
        facts = {"devices": 2 if name == "f" else 1, "precision": "bf16" if name == "g" else "fp16"}
        record = Record(*flags, seed=seed, **facts).start().valid(50, ppl=ppl)
        runs.append(record.write(tmp_path / name))
        write_scores(runs[-1], valid=translation_scores(paper_bleu=bleu))
    expected = "a, b differ only in the seed: PPL 3.25 to 3.50, BLEU 30.00 to 31.00"
    found = markdown_of(*runs)
    assert f"- {expected}\n" in found and found.count("differ only in the seed") == 1
    assert "Training time includes start-up" in found
    assert "only in the seed" not in markdown_of(runs[0], runs[2])
    languages = text(source_lang="de", target_lang="en")
    reverse = Record(seed=2, text=languages, devices=1, precision="fp16").start().valid(50, ppl=3.0)
    assert "only in the seed" not in markdown_of(runs[0], reverse.write(tmp_path / "reverse"))


def test_devices_are_compared_only_where_known(tmp_path):
    runs = [
        Record("--update-freq", "2", devices=1).start().write(tmp_path / "fixed"),
        Record(settings=[], devices=1).start().train(1, 1).write(tmp_path / "fairseq"),
        write_scores(tmp_path / "scores", valid=translation_scores()),
    ]
    table = rows_of(report_on(*runs), "The runs, in the layout of Table 3")
    assert not any("device" in row["other differences"] for row in table.values())


def test_without_label_smoothing_epsilon_is_0(tmp_path):
    record = Record("--criterion", "cross_entropy").start().train(10, 60)
    run = read_run(record.write(tmp_path / "run.jsonl"))
    assert run.settings.label_smoothing == 0


@pytest.mark.parametrize(
    ("name", "sentences", "f1"),
    [("test.wsj", 2416, "61.54"), ("test.wsj", 2415, None), ("test", 2416, None)],
)
def test_only_section_23_is_in_table_4(tmp_path, name, sentences, f1):
    inputs = {name: "x", "train.extra1": "x"}
    parser = text(tokenizer=PENN, target_lang="tree", inputs=inputs)
    run = Record(text=parser).start().train(10, 60).write(tmp_path / "mine")
    write_scores(run, test=tree_scores(sentences=sentences))
    found = report_on(run)
    assert numbers_of(found)[0][2] == (
        "labelled brackets; 1 sentence skipped, as in EVALB; F1 of all 50.00"
    )
    assert numbers_of(found)[1][0] == ("−31.2" if f1 else "0.0%")
    assert ("is not known to be all of section 23" in markdown_of(run)) == (f1 is None)
    if f1 is None:
        assert "Luong" not in markdown_of(run)
        return
    table = rows_of(found, "Table 4")
    source = "this run; 1 sentence skipped, as in EVALB; F1 of all 50.00"
    own = {"training": "gold and extra trees", "F1 on WSJ 23": f1, "source": source}
    assert table["mine"] == own
    assert table["Luong et al. (2015)"]["F1 on WSJ 23"] == "93.0"
    assert table["Transformer (4 layers)"]["F1 on WSJ 23"] == "92.7"


def test_the_scores_of_translations(tmp_path):
    scores = translation_scores(paper_bleu=1.25, bleu=2.5, chrf=3.75, exact=0.9)
    scores["bootstrap"] = {
        "paper BLEU": {"mean": 1.5, "half_width": 0.25},
        "sacreBLEU": {"mean": 2.75, "half_width": 3.5},
    }
    found = report_on(write_scores(tmp_path / "run", test=scores))
    [blocks] = [blocks for title, blocks in found.sections if title.startswith("Scores")]
    assert blocks[0].rows == [
        ["test", "1.25", "1.25 to 1.75", "2.50", "0.00 to 6.25", "3.75", "90.0%", "20"]
    ]
    assert blocks[0].head[1:4] == ["paper BLEU", "95% interval", "sacreBLEU"]
    assert "paper BLEU: Moses tokens, German compounds split" in blocks[2]
    assert rows_of(found, "Outcome")["test set"][""] == "paper BLEU 1.25, sacreBLEU 2.50, chrF 3.75"


def test_several_runs_have_a_paired_test_where_references_are_the_same(tmp_path):
    other = translation_scores(sentences=19)
    wrong = {"first": 1, "worse": 15, "same": 1}
    runs = [write_scores(tmp_path / name, test=translation_scores(n)) for name, n in wrong.items()]
    runs.append(write_scores(tmp_path / "other", test=other))
    found = report_on(*runs)
    bootstraps = {
        run["name"]: run["translations"]["test"]["bootstrap"]["sacreBLEU"]
        for run in found.data["runs"]
    }
    assert bootstraps["first"]["p"] is None and "p" not in bootstraps["other"]
    assert bootstraps["worse"]["p"] < 0.05 and bootstraps["same"]["p"] == 1
    interval = bootstraps["other"]
    low, high = (interval["mean"] + sign * interval["half_width"] for sign in (-1, 1))
    assert f"| {low:.2f} to {min(100, high):.2f} |" in markdown_of(*runs)


def test_the_scores_of_trees(tmp_path):
    """8 of 10 brackets are right, and 8 of the 16 gold ones are found."""
    table = rows_of(report_on(write_scores(tmp_path / "run", test=tree_scores())), "Scores of the")
    assert table["test"] == {
        "F1": "61.54",
        "precision": "80.00",
        "recall": "50.00",
        "F1, up to 40 words": "75.00",
        "exact matches": "25.0%",
        "correct tags": "90.0%",
        "trees repaired": "3",
        "sentences": "5",
        "skipped": "1",
        "F1 of all": "50.00",
    }


def test_a_run_may_have_scores_of_both_kinds(tmp_path):
    run = write_scores(tmp_path / "run", test=translation_scores(), valid=tree_scores())
    assert numbers_of(report_on(run))[1] == (
        "90.0%",
        "exact match of the translations",
        "20 sentences",
    )
    assert "F1 61.54" in markdown_of(run)
