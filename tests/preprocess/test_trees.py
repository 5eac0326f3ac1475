"""`aiayn prepare-trees` as users run it."""

import pytest
from fairseq.data import Dictionary, data_utils

from aiayn_plugin.text.manifest import read_manifest
from aiayn_plugin.text.settings import TextSettings

NOUNS = ["dog", "cat", "horse", "mouse", "snail", "whale"]


def sentence(noun, number=1):
    """Return a tree in the format of the Penn Treebank, with functions, indices and a trace."""
    adverbs = " ".join(f"(ADVP-TMP (RB now{i}))" for i in range(number))
    return f"""( (S (NP-SBJ-1 (DT the) (NN {noun}))
    (VP (VBZ sleeps) {adverbs} (S (NP-SBJ (-NONE- *-1))) (-LRB- -LRB-)) (. .)) )"""


def write(path, nouns, number=1):
    """Write a tree for each noun to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(sentence(noun, number) for noun in nouns))
    return path


@pytest.fixture(scope="module")
def make(succeed):
    """`make(destdir, *arguments)` runs the command; returns what it prints on standard error."""

    def make(destdir, *arguments, vocabulary=("--vocabulary", 40)):
        command = ["aiayn", "prepare-trees", "--destdir", destdir, *vocabulary]
        done = succeed(*command, "--workers", 1, *arguments)
        return done.stderr

    return make


def lines(data, split, side):
    """Return the lines of a split, as fairseq reads them."""
    words = Dictionary.load(str(data / f"dict.{side}.txt"))
    found = data_utils.load_indexed_dataset(str(data / f"{split}.en-tree.{side}"), words)
    return [words.string(line) for line in found]


@pytest.fixture(scope="module")
def data(make, tmp_path_factory):
    """The data of files of trees."""
    folder = tmp_path_factory.mktemp("trees")
    one, two = write(folder / "a.mrg", NOUNS[:4]), write(folder / "b.mrg", NOUNS[4:])
    extra = write(folder / "extra.mrg", ["ant", "bee", "fox"], 2)
    with extra.open("a") as file:
        file.write(f"(S {1001 * '(NN yak) '})")
    make(
        *(folder / "data", "--train", one, two, "--valid", one, "--test", two, "--weight", 2),
        *("--extra", 0.5, extra),
    )
    return folder / "data"


def test_source_and_target_are_words_and_brackets(data):
    source, target = lines(data, "test", "en"), lines(data, "test", "tree")
    assert [line.replace("@@ ", "") for line in source] == [
        "the snail sleeps now0 ( .",
        "the whale sleeps now0 ( .",
    ]
    assert target == ["(S (NP DT NN )NP (VP VBZ (ADVP RB )ADVP -LRB- )VP . )S"] * 2
    raw = (data / "test.raw.tree").read_text().splitlines()
    assert raw[0] == (
        "(S (NP (DT the) (NN snail)) (VP (VBZ sleeps) (ADVP (RB now0)) (-LRB- -LRB-)) (. .))"
    )
    assert (data / "test.raw.en").read_text().splitlines()[0] == "the snail sleeps now0 ( ."


def test_only_sentences_are_split_into_subwords(data):
    assert "@@" not in (data / "dict.tree.txt").read_text()
    assert "@@" in (data / "dict.en.txt").read_text()
    symbols = {line.split()[0] for line in (data / "dict.tree.txt").read_text().splitlines()}
    assert symbols >= {"(S", ")S", "(ADVP", "VBZ", "-LRB-"} and "-NONE-" not in symbols


def test_weight_is_the_number_of_copies_of_a_tree(data):
    sources = [line.replace("@@ ", "") for line in lines(data, "train", "en")]
    assert sum("dog" in line for line in sources) == 2
    # 0.5: every second tree; the fourth tree has more than 1,000 tokens, so it is dropped
    assert [line.split()[1] for line in sources if "now1" in line] == ["bee"]
    assert len(sources) == 13


def test_splits_have_held_out_recombined_and_extra_trees(make, tmp_path):
    gold = write(tmp_path / "a.mrg", NOUNS[:4]), write(tmp_path / "b.mrg", NOUNS[4:])
    extra = tmp_path / "extra.mrg"
    extra.write_text("( (HEADING (NP (NML (NN gene) (HYPH -) (NN scale)))) )")
    log = make(
        *(tmp_path / "data", "--train", *gold, "--hold-out", 1, 2, "--weight", 2),
        *("--recombine", 10, "--extra", 1, extra, "--wsj-labels"),
        vocabulary=(),
    )
    assert "learning 32,000 bpe subwords" in log, "as in the paper with further trees"
    sources = [line.replace("@@ ", "") for line in lines(tmp_path / "data", "train", "en")]
    assert len(sources) == 2 * 3 + 10 * 3 + 1 and sources[-1] == "gene - scale"
    nouns = [source.split()[1] for source in sources[:-1]]
    assert nouns[:6] == ["dog", "dog", "cat", "cat", "horse", "horse"]
    assert {*nouns[6:]} == {*NOUNS[:3]} and nouns[6:] != 10 * NOUNS[:3]
    assert lines(tmp_path / "data", "train", "tree")[-1] == "(NP NN : NN )NP"
    for change in ("brackets NML removed", "brackets HEADING removed", "tags HYPH mapped to :"):
        assert f"train.extra1: 1 {change}" in log
    for split, expected in (("valid", NOUNS[3:4]), ("test", NOUNS[4:])):
        raw = (tmp_path / "data" / f"{split}.raw.en").read_text().splitlines()
        assert [line.split()[1] for line in raw] == expected
        for line in lines(tmp_path / "data", split, "en"):  # the search counts words
            assert sum(not subword.endswith("@@") for subword in line.split()) == 6


def test_settings_and_checksums_describe_the_data(data):
    settings = TextSettings.load(data / "text.json")
    assert settings.holds_trees and settings.vocabulary == 40
    assert settings.inputs.keys() == {"train", "train.extra1", "valid", "test"}
    assert {"text.json", "dict.tree.txt", "test.raw.tree"} <= read_manifest(data).keys()


def test_same_command_is_up_to_date_and_different_weights_are_refused(make, data, error):
    folder = data.parent
    command = [
        *("--train", folder / "a.mrg", folder / "b.mrg", "--valid", folder / "a.mrg"),
        *("--test", folder / "b.mrg", "--extra", 0.5, folder / "extra.mrg"),
    ]
    assert make(data, *command, "--weight", 2) == ""
    options = ("--destdir", data, "--vocabulary", 40, *command, "--weight", 3)
    message = error("prepare-trees", *options)
    assert "has different settings: input train; choose another --destdir" in message


def test_sections_of_the_wall_street_journal_become_splits(make, tmp_path, error):
    wsj = tmp_path / "LDC" / "parsed" / "MRG" / "wsj"
    for section in range(25):
        write(wsj / f"{section:02}" / f"WSJ_{section:02}00.MRG", [NOUNS[section % 6]], section + 1)
    write(wsj / "22" / "wsj_2201.mrg", ["second"])
    nested = tmp_path / "nested"
    nested.write_text(f"@{nested}\n")
    assert error("prepare-trees", f"@{nested}").startswith(f"@{nested}: a list of arguments cannot")
    (tmp_path / "options").write_text(f"--wsj\n{tmp_path / 'LDC'}\n")
    log = make(tmp_path / "data", f"@{tmp_path / 'options'}", vocabulary=())
    assert "learning 16,000 bpe subwords" in log, "as in the paper"
    assert "warning: 20 train trees; the Penn Treebank has 39,832\n" in log
    raw = {
        split: (tmp_path / "data" / f"{split}.raw.en").read_text().splitlines()
        for split in ("valid", "test")
    }
    assert [len(line.split()) for line in raw["valid"]] == [3 + 23 + 2, 3 + 1 + 2]
    assert [len(line.split()) for line in raw["test"]] == [3 + 24 + 2]
    train = [line.replace("@@ ", "") for line in lines(tmp_path / "data", "train", "en")]
    assert [line.count("now") for line in train] == list(range(3, 23)), "sections 2 to 21"
    write(wsj / "extra" / "wsj_2201.mrg", ["third"])
    options = ("--destdir", tmp_path / "other", "--wsj", tmp_path)
    assert "have the same name" in error("prepare-trees", *options)


BAD = {
    "(S (NN a)": "bad.mrg, line 1: the tree that begins here is not closed",
    "( (S (-NONE- *)) )": "train: found 0 trees in 1 files",
}


@pytest.mark.parametrize("text", BAD)
def test_malformed_trees_are_reported_in_one_line(error, tmp_path, text):
    good, bad = write(tmp_path / "good.mrg", NOUNS), tmp_path / "bad.mrg"
    bad.write_text(text)
    command = ("prepare-trees", "--destdir", tmp_path / "data", "--train", bad, "--valid", good)
    assert BAD[text] in error(*command)
    assert not list(tmp_path.glob("data*")), "leftovers"


WRONG = {
    ("--wsj", ".", "--train", "x"): "--wsj sets all splits",
    ("--train", "x"): "give --wsj, or --train with --valid",
    (): "give --wsj, or --train with --valid",
    ("--train", "x", "--hold-out", "1", "0"): "--hold-out needs --train, two numbers of at least 1",
    ("--train", "x", "--valid", "y", "--hold-out", "1", "1"): "--hold-out needs --train",
    ("--train", "x", "--valid", "y", "--extra", "2"): "--extra 2: give a number, and then files",
    ("--train", "x", "--valid", "y", "--extra", "f", "g"): "--extra f: first give how often",
    ("--train", "x", "--valid", "y", "--extra", "nan", "g"): "cannot use trees nan times",
    ("--train", "x", "--valid", "y", "--recombine", "-1"): "--recombine -1 must not be negative",
    ("--train", "x", "--valid", "y", "--weight", "0"): "cannot use trees 0 times",
    ("--train", "x", "--valid", "y"): "no file x: see --train",
    ("--wsj", "nowhere"): "nowhere has no files of section 02",
}


@pytest.mark.parametrize("arguments", WRONG)
def test_invalid_options_are_reported_in_one_line(tmp_path, arguments, error):
    assert WRONG[arguments] in error("prepare-trees", "--destdir", tmp_path / "data", *arguments)


def test_a_weight_that_leaves_no_tree_is_an_error(error, tmp_path):
    gold = write(tmp_path / "a.mrg", NOUNS)
    options = ("--train", gold, "--valid", gold, "--extra", 0.05, gold)
    message = error("prepare-trees", "--destdir", tmp_path / "data", *options)
    assert "a weight of 0.05 leaves none: raise it" in message


@pytest.mark.long
@pytest.mark.parametrize("corpus, least", [("ptb_sample/*.mrg", 3_914), ("gum/const/*", 13_263)])
def test_real_treebanks(make, tmp_path, repo, corpus, least):
    files = sorted((repo.parent / "shared" / "data").glob(corpus))
    if not files:
        pytest.skip(f"{corpus} is absent")
    make(tmp_path / "data", "--train", *files, "--hold-out", 300, 300, "--vocabulary", 2000)
    assert len(lines(tmp_path / "data", "train", "tree")) == least - 600
