"""Tables of corpora: malformed ones give one line, and no files are written."""

import pytest
import yaml

from aiayn_plugin.corpus.table import WMT14, load_pair


def table(change):
    """Return the text of a small table with one archive after `change(archive, pair)`."""
    archive = {"urls": ["http://x/a.tgz"], "size": 3, "sha256": "ab"}
    corpora = {
        split: [{"name": split, "archive": "a.tgz", "en": "e", "de": "d"}]
        for split in ("train", "valid", "test")
    }
    pair = {"subword": "bpe", "vocabulary": 9, **corpora}
    change(archive, pair)
    return yaml.safe_dump({"archives": {"a.tgz": archive}, "pairs": {"en-de": pair}})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            table(lambda _, pair: pair["valid"][0].update(name="train")),
            "duplicate corpus names",
        ),
        (table(lambda _, pair: pair.update(subword="x")), "subword is 'x'"),
        (table(lambda _, pair: pair.update(vocabulary="9")), "vocabulary is '9'"),
        (
            table(lambda archive, _: archive.update(urls="http://x")),
            "must be a list of http, https",
        ),
        (table(lambda archive, _: archive.update(size="9")), "size of a.tgz is '9'"),
        (table(lambda archive, _: archive.pop("sha256")), "a.tgz has no checksum: give its sha256"),
        (table(lambda archive, _: archive.update(md5="AB")), "'AB', which is not lower-case hex"),
        (table(lambda archive, _: archive.update(urls=[5])), "en-de or its archives: "),
        (table(lambda _, pair: pair.update(subword=["bpe"])), "en-de or its archives: "),
        ("pairs: 5\narchives: {}", "not a table of corpora"),
        ("pairs: {5: {}}\narchives: {}", "has no pair 'en-de'; pairs: 5"),
        ("[" * 2000, "not a table of corpora"),
        ("pairs:\narchives:", "has no pair"),
        ("a: [", "not a table of corpora"),
        ("a: 1", "not a table of corpora: 'pairs'"),
        ("pairs: {en-de: {train: []}}\narchives: {}", "en-de or its archives lack 'valid'"),
        ("pairs: {en-de: {}}\narchives: {../x: {urls: []}}", "'../x' is not a file name"),
        ("pairs: {en-de: {}}\narchives: {'': {urls: []}}", "'' is not a file name"),
    ],
)
def test_malformed_tables_are_refused(tmp_path, error, text, message):
    path, dest = tmp_path / "table.yaml", tmp_path / "dest"
    path.write_text(text)
    assert message in error("wmt14", "en-de", "--dest", dest, "--table", path)
    assert not dest.exists()


@pytest.mark.parametrize("name", ["en-pt-BR", "en", "en-en", "en-x.y"])
def test_names_of_pairs_are_those_that_fairseq_reads(tmp_path, error, name):
    path = tmp_path / "table.yaml"
    path.write_text(table(lambda *_: None).replace("en-de", name))
    message = error("wmt14", name, "--dest", tmp_path / "dest", "--table", path)
    assert f"{name}: name a pair by two different language codes" in message


@pytest.mark.parametrize(
    ("pair", "subword", "vocabulary", "more"),
    [("en-de", "bpe", 37_000, []), ("en-fr", "wordpiece", 32_000, ["un", "giga"])],
)
def test_corpora_and_subwords_are_the_papers(pair, subword, vocabulary, more):
    """§5.1: all training data of WMT 2014."""
    loaded = load_pair(WMT14, pair)
    assert (loaded.subword, loaded.vocabulary) == (subword, vocabulary)
    names = {split: [corpus.name for corpus in loaded.splits[split]] for split in loaded.splits}
    train = ["europarl-v7", "commoncrawl", "news-commentary-v9", *more]
    assert names == {"train": train, "valid": ["newstest2013"], "test": ["newstest2014"]}
