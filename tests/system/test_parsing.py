"""§6.3 From a treebank to F1, with the recipes and an artificial grammar learnt in seconds."""

import json
import logging
import random
import re

import pytest
from models import load_hub
from nltk import Tree

from aiayn_plugin.cli import main
from aiayn_plugin.errors import InputError
from aiayn_plugin.inference import Translator
from aiayn_plugin.inference.parser import Parser
from aiayn_plugin.parsing.scores import score_log

GRAMMAR = {
    "S": [["NP-SBJ", "VP", "."]],
    "NP": [["DT", "NN"], ["DT", "JJ", "NN"]],
    "PP": [["IN", "NP"]],
    "VP": [["VBZ", "NP"], ["VBZ"], ["VBZ", "PP"]],
}
WORDS = {
    "DT": ["the", "a"],
    "NN": ["dog", "cat", "house", "bird"],
    "JJ": ["old", "small"],
    "IN": ["in", "near"],
    "VBZ": ["sees", "likes", "finds"],
    ".": ["."],
}
#: Trees of a training section, and of the others, which are parsed with the paper's beam of 21.
TREES, TEST_TREES = 50, 15
#: A model that learns the grammar.
SMALL = (
    *("--arch", "aiayn_parser_tiny", "--N", "1", "--d-model", "64", "--d-ff", "128"),
    *("--dropout", "0", "--attention-dropout", "0", "--warmup-updates", "200"),
    *("--tokens-per-update", "800", "--max-update", "350", "--save-interval-updates", "30"),
    *("--disable-validation", "--cpu", "--num-workers", "0"),
)


def grow(rng, label):
    """Return the brackets of a random constituent."""
    symbol = label.partition("-")[0]
    if symbol in WORDS:
        return f"({label} {rng.choice(WORDS[symbol])})"
    return f"({label} {' '.join(grow(rng, part) for part in rng.choice(GRAMMAR[symbol]))})"


@pytest.fixture(scope="module")
def treebank(tmp_path_factory):
    """A directory like the LDC's, with sections 0 to 24 of the Wall Street Journal."""
    folder, rng = tmp_path_factory.mktemp("treebank"), random.Random(1)
    for section in range(25):
        wsj = folder / "LDC" / "parsed" / "mrg" / "wsj" / f"{section:02}"
        wsj.mkdir(parents=True)
        trees = (
            f"( {grow(rng, 'S')} )\n" for _ in range(TREES if 2 <= section <= 21 else TEST_TREES)
        )
        (wsj / f"wsj_{section:02}00.mrg").write_text("".join(trees))
    return folder


@pytest.fixture(scope="module")
def recipe(succeed, repo, treebank):
    """The run directory of the recipe of the paper's run, with a small model, and its output."""
    if not (repo / ".venv").is_dir():
        pytest.skip("needs .venv, which examples/setup.sh makes")
    env = {"RUN": str(treebank / "run"), "OMP_NUM_THREADS": "1"}
    done = succeed("bash", "examples/parsing_wsj.sh", treebank / "LDC", *SMALL, env=env)
    return treebank / "run", done.stdout


def f1(output):
    return float(re.search(r"^F1 +([\d.]+)", output, re.MULTILINE)[1])


def test_the_recipe_goes_from_the_treebank_to_f1(recipe):
    folder, output = recipe
    assert f1(output) > 60, output[-600:]
    assert output.endswith(
        "The paper (Table 4, WSJ only): F1 91.3, to compare with the F1 above.\n"
    )
    settings = " --dropout 0.2 --attention-dropout 0.2 --warmup-updates 16000 "
    assert settings in (folder / "arguments").read_text()
    assert "with beam=21" in (folder / "generate.log").read_text()
    trees = [Tree.fromstring(line) for line in (folder / "trees.txt").read_text().splitlines()]
    gold = (folder / "data" / "test.raw.en").read_text().splitlines()
    assert [" ".join(tree.leaves()) for tree in trees] == gold


def test_files_of_trees_get_the_same_score_as_the_log(recipe, run):
    folder, output = recipe
    done = run("aiayn", "score", "--trees", folder / "data/test.raw.tree", folder / "trees.txt")
    assert done.returncode == 0 and f1(done.stdout) == f1(output), done.stderr


def test_raw_and_tokenised_sentences_are_parsed(recipe, run):
    folder, _ = recipe
    text = "the old dog sees a (cat).\n\na cat likes the house .\n"
    done = run("aiayn", "parse", folder, input=text)
    first, empty, last = done.stdout.split("\n")[:3]
    assert (done.returncode, empty) == (0, "") and "INFO" not in done.stderr
    assert Tree.fromstring(first).leaves() == "the old dog sees a -LRB- cat -RRB- .".split()
    assert last == ("(S (NP (DT a) (NN cat)) (VP (VBZ likes) (NP (DT the) (NN house))) (. .))")
    tokenised = text.splitlines()[-1]
    done = run("aiayn", "parse", folder, "--tokenised", "--pretty", input=tokenised)
    assert Tree.fromstring(done.stdout) == Tree.fromstring(last) and "\n  (NP" in done.stdout


def test_repaired_trees_are_counted(recipe, run):
    lines = [" ".join(["near"] * 30), "a cat likes the house ."]
    repairs = [best.repairs for best, *_ in Parser.load(recipe[0]).parse_nbest(lines)]
    assert any(repairs)
    done = run("aiayn", "parse", recipe[0], input="\n".join(lines) + "\n")
    count = sum(map(bool, repairs))
    assert f"repaired {count} of 2 trees, with {sum(repairs)} repairs" in done.stderr


def test_the_best_trees_differ_and_come_best_first(recipe, run):
    # Two sequences that need repairs may become one tree; with --trees-only none need repairs.
    command = ("aiayn", "parse", recipe[0], "--nbest", "3")
    for options, at_least in ((["--trees-only"], 3), ([], 1)):
        done = run(*command, *options, input="a cat likes .")
        lines = [line.split(" ||| ") for line in done.stdout.splitlines()]
        assert at_least <= len(lines) <= 3 and {line[0] for line in lines} == {"1"}, done.stderr
        assert len({line[1] for line in lines}) == len(lines)
        scores = [float(line[2]) for line in lines]
        assert scores == sorted(scores, reverse=True)


def test_trees_only_finds_nothing_but_trees(recipe, run, succeed):
    folder, _ = recipe
    parser = Parser.load(folder, trees_only=True, beam=4, nbest=4)
    lines = ["dog dog dog dog", "sees", "the the house in . a", " ".join(["near"] * 30)]
    for line, parses in zip(lines, parser.parse_nbest(lines), strict=True):
        assert parses and all(parse.repairs == 0 for parse in parses)
        assert all(parse.tree.leaves() == line.split() for parse in parses)
    done = succeed(
        *("fairseq-generate", folder / "data", "--user-dir", "aiayn_plugin"),
        *("--path", folder / "model.pt", "--trees-only", "--beam", "4", "--cpu"),
    )
    assert "with beam=4" in done.stdout
    log = folder / "only.log"
    log.write_text(done.stdout)
    done = run("aiayn", "score", log, "--data", folder / "data")
    assert f"repaired     0 of {TEST_TREES} trees" in done.stdout, done.stdout
    parser = Parser.load(
        folder, trees_only=True, length_penalty="fairseq", max_len_a=0, max_len_b=4
    )
    with pytest.raises(InputError, match="raise --max-len-b"):
        parser.parse(["a cat likes the house ."])


def test_unknown_words_are_counted_too(recipe):
    parser = Parser.load(recipe[0], trees_only=True, beam=4)
    lines = ["Zürich likes a dog .", "cat日本 sees 日本", "dogcat catdogs"]
    for line, [parse] in zip(lines, parser.parse_nbest(lines), strict=True):
        assert parse.repairs == 0 and parse.tree.leaves() == line.split()


def test_the_hub_and_the_parser_search_trees_with_the_papers_beam(recipe, caplog):
    """The hub's log has all hypotheses."""
    parser = Parser.load(recipe[0], nbest=30)
    [hypotheses] = parser.search([parser.token_ids(parser.pipeline.encode(["a", "cat"]))])
    assert len(hypotheses) == 21
    hub = load_hub(recipe[0])
    with caplog.at_level(logging.INFO, "fairseq.hub_utils"):
        hub.translate(["a cat likes the house ."], verbose=True, nbest=30)
    assert sum(record.getMessage().startswith("H\t") for record in caplog.records) == 21


def test_the_log_of_a_different_split_is_an_error(recipe):
    folder, _ = recipe
    with pytest.raises(InputError, match="sentence 1 of .*: give the parsed split with --split"):
        score_log(folder / "generate.log", folder / "data", "valid")


def test_a_sentence_that_is_too_long_gets_a_tree_without_constituents(recipe, caplog):
    parser = Parser.load(recipe[0], beam=2)
    long = "dog " * 5000
    tree, none, short = parser.parse([long, "", "a cat likes the house ."])
    assert none is None and tree.label() == "TOP" and len(tree) == 5000 and short.label() == "S"
    assert "line 1 has 5000 tokens, more than the limit of 4095" in caplog.text


def test_bundles_and_other_directories(recipe, tmp_path):
    folder, _ = recipe
    main(["bundle", str(folder), "--output", str(tmp_path / "small")])
    assert "`aiayn parse` (en to tree)" in (tmp_path / "small" / "README.txt").read_text()
    line = "a cat likes the house ."
    assert Parser.load(tmp_path / "small").parse([line]) == Parser.load(folder).parse([line])
    with pytest.raises(InputError, match="use aiayn parse"):
        Translator.load(folder)
    (tmp_path / "other").mkdir()
    message = r"model\.pt is missing: .* aiayn average --inputs .*other/checkpoints "
    with pytest.raises(InputError, match=message):
        Parser.load(tmp_path / "other")


def test_the_report_says_why_a_run_is_not_in_table_4(recipe):
    folder, output = recipe
    main(["report", str(folder)])
    report = (folder / "report.md").read_text()
    assert f"| test set | F1 {f1(output):.2f}" in report
    assert "is not known to be all of section 23" in report
    assert "Table 4:" not in report and "Table 2" not in report
    found = json.loads((folder / "report.json").read_text())["runs"][0]["trees"]["test"]
    assert 100 * found["all"]["f1"] == pytest.approx(f1(output), abs=0.01)


def test_a_dry_run_prints_commands_without_running_them(dry_run, treebank, tmp_path):
    """With extra trees; the fixture `recipe` runs the recipe without them."""
    more = f"{treebank}/more.mrg"
    arguments = (f"{treebank}/LDC", more, more, "--", "--seed", "5")
    output = dry_run("parsing_semi", *arguments, RUN=str(tmp_path), PRECISION="--bf16")
    for part in (
        f"aiayn prepare-trees --wsj {treebank}/LDC --extra 1 {more} {more} --destdir",
        "--arch aiayn_parser --max-tokens ",
        " --bf16 ",
        "--log-interval 100 --seed 5",
        "aiayn average ",
        "fairseq-generate ",
        "aiayn score ",
        "(Table 4, semi-supervised): F1 92.7",
    ):
        assert part in output, output
    assert not list(tmp_path.iterdir())


def test_the_free_treebanks_are_checked(run, succeed, repo, tmp_path):
    shared = repo.parent / "shared" / "data"
    if not (shared / "gum").is_dir():
        pytest.skip(f"needs the treebanks in {shared}")
    command, places = ("bash", "examples/corpora.sh", "treebanks", shared), {"RUN": str(tmp_path)}
    succeed(*command, env=places)
    assert len(list((tmp_path / "raw" / "gum").iterdir())) == 237
    (tmp_path / "raw" / "gum" / "GUM_bio_byron.ptb").write_text("(S (NN other))")
    done = run(*command, env=places)
    assert done.returncode == 1 and "have the wrong checksum" in done.stderr
