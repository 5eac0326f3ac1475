"""The text path: raw lines to subwords and back, and the settings beside the data."""

import json
import random
import sys
from collections import Counter

import pytest
from fairseq.tokenizer import tokenize_line
from sacremoses import MosesPunctNormalizer, MosesTokenizer

from aiayn_plugin.errors import InputError
from aiayn_plugin.text.lines import clean_line, read_lines
from aiayn_plugin.text.pipeline import TextPipeline
from aiayn_plugin.text.settings import TextSettings, file_sha256
from aiayn_plugin.text.subwords import Bpe, WordPieces
from aiayn_plugin.text.tokenizer import PROTECTED, Tokenizer

CODES = "#version: 0.2\nh e\nhe l</w>\nl o</w>\n"


@pytest.fixture
def data_dir(tmp_path):
    (tmp_path / "codes.bpe").write_text(CODES)
    digest = file_sha256(tmp_path / "codes.bpe")
    TextSettings("en", "de", 3, codes_sha256=digest).save(tmp_path / "text.json")
    return tmp_path


def test_clean_line_leaves_no_character_that_ends_a_line():
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    cleaned = clean_line(every)
    assert len(cleaned) == len(every) and len(cleaned.splitlines()) == 1
    changed = {old for old, new in zip(every, cleaned, strict=True) if old != new}
    assert set(clean_line("".join(changed))) == {" "}
    assert {"\0", "\r", "\f", "\x85", "\u2028", "\u2029"} <= changed
    assert not changed & set("é ß漢\u00a0\u200b\u200d\ufeff")


@pytest.mark.parametrize("lang", ["en", "de"])
def test_tokens_survive_the_way_fairseq_reads_them(lang):
    tokenizer = Tokenizer(lang)
    odd = [chr(code) for code in (*range(0x250), *range(0x2000, 0x2070), 0x3000, 0xFEFF)]
    for text in ["".join(odd), "a".join(odd), " . ".join(odd)]:
        tokens = tokenizer.tokenize(text)
        assert tokenize_line(" ".join(tokens)) == tokens


WORDS = """Mr Nr No pp Art z.B e.g U.S don't l'homme a A 5 1,000 3.5 's km/h 15:05 v .. ... . , ' --
a$ °C 1939–1945 – aé- wort ''a a''b 1:22/333 a/bb–cc DOTMULTI""".split()
ENDS = ["", "", "", ".", ",", "'", ".'", ")", "...", ":", '"', "., "]
CHARACTERS = "abzéßAÉ059.,'-`\"()/:;!?&$²°–%  \xa0…„“’«»漢ªºⅫ\u0301"


def odd_line(rng):
    """A line of characters or words that Moses's rules are about."""
    if rng.random() < 0.5:
        return "".join(rng.choices(CHARACTERS, k=rng.randint(0, 25)))
    starts = ["", "", "(", "'"]
    return " ".join("".join(map(rng.choice, (starts, WORDS, ENDS))) for _ in range(6))


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("lang", ["en", "de", "fr"])
def test_tokens_are_those_of_sacremoses_on_the_whole_line(lang, normalise):
    rng = random.Random(f"{lang}{normalise}")
    ours, moses = Tokenizer(lang, normalise), MosesTokenizer(lang)
    normalise = MosesPunctNormalizer(lang).normalize if normalise else str
    for _ in range(800):
        line = odd_line(rng)
        wanted = moses.tokenize(normalise(line), escape=False, protected_patterns=PROTECTED)
        assert ours.tokenize(line) == wanted, line


def test_special_symbols_typed_in_the_text_are_taken_apart():
    tokens = Tokenizer("en").tokenize("<s> <pad></s> <unk> #fairseq:overwrite x@@ &amp;")
    assert tokens[:3] == ["<", "s", ">"]
    assert not {"<s>", "<pad>", "</s>", "<unk>", "#fairseq:overwrite", "x@@"} & set(tokens)
    assert tokens[-3:] == ["&", "amp", ";"]


def test_tokenize_and_detokenize_are_inverse_on_plain_text():
    for lang, text in [
        ("en", "It's 5,300 (well-known) dogs, isn't it?"),
        ("de", "„Ja“, sagt sie."),
    ]:
        tokenizer = Tokenizer(lang)
        tokens = tokenizer.tokenize(text)
        assert len(tokens) > len(text.split())
        assert tokenizer.tokenize(tokenizer.detokenize(tokens)) == tokens
    assert Tokenizer("en").detokenize(["a", "&", "amp", ";", "dog", "."]) == "a & amp; dog."


def test_punctuation_is_normalised_only_on_request():
    assert Tokenizer("en").tokenize("“yes”") == ["“", "yes", "”"]
    assert Tokenizer("en", normalize_punctuation=True).tokenize("“yes”") == ['"', "yes", '"']


def test_bpe_splits_and_joins(data_dir):
    bpe = Bpe(data_dir / "codes.bpe")
    assert bpe.encode(["hel", "hello", "@", "@", "lo"]) == "hel he@@ l@@ lo @ @ lo"
    assert bpe.decode("hel he@@ l@@ lo @ @ lo") == ["hel", "hello", "@", "@", "lo"]
    assert bpe.decode("he@@ l@@") == ["hel"]  # a sentence cut short
    assert bpe.encode([]) == "" and bpe.decode("") == []


@pytest.mark.parametrize(
    ("content", "message"),
    [("", "not a file of BPE"), ("#version: 0.2\n", "not a file of BPE"),
     ("a b\n", "not a file of BPE"), ("#version: 0.2\na b\na\n", "line 3")],
)  # fmt: skip
def test_broken_codes_are_reported(tmp_path, content, message):
    (tmp_path / "codes").write_text(content)
    with pytest.raises(InputError, match=message):
        Bpe(tmp_path / "codes")


def test_read_lines_ends_lines_at_newlines_only(tmp_path):
    path = tmp_path / "text"
    path.write_bytes("\ufeffa\r\nb\u2028c\x85d\re\f\n\n\ufefflast".encode())
    assert list(read_lines(path)) == ["a", "b\u2028c\x85d\re\f", "", "\ufefflast"]


def test_read_lines_reports_file_and_line_of_invalid_utf8(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"good\nab\xe9 bad\n")
    with pytest.raises(InputError, match=rf"{path}, line 2: .*0xe9 at position 3"):
        list(read_lines(path))


def test_settings_come_back_as_saved(tmp_path):
    settings = TextSettings("en", "de", 8, cleaning={"max_ratio": 9.0}, inputs={"train.en": "00"})
    settings.save(tmp_path / "text.json")
    assert TextSettings.load(tmp_path / "text.json") == settings


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "format 1"),
        ({"surplus": 1}, "surplus"),
        ({"merges": "8"}, "merges is not of type int"),
        ({"inputs": []}, "inputs is not of type dict"),
    ],
)
def test_unknown_or_broken_settings_are_reported(data_dir, change, message):
    path = data_dir / "text.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError, match=message):
        TextSettings.load(path)
    path.write_text("{")
    with pytest.raises(InputError, match="not valid JSON"):
        TextSettings.load(path)


def test_pipeline_goes_from_raw_text_to_subwords_and_back(data_dir):
    pipeline = TextPipeline.load(data_dir)
    assert pipeline.encode("hello,\u2028hel!") == "he@@ l@@ lo , hel !"
    assert pipeline.encode("it's", "en").endswith("'@@ s")
    assert pipeline.encode("it's", "de").endswith("' s")
    assert pipeline.decode("he@@ l@@ lo , hel !") == "hello, hel!"
    with pytest.raises(InputError, match="'fr'.* en and de"):
        pipeline.encode("hello", "fr")


def test_pipeline_refuses_other_codes_and_unknown_models(data_dir):
    (data_dir / "codes.bpe").write_text(CODES + "a b\n")
    with pytest.raises(InputError, match="not the codes"):
        TextPipeline.load(data_dir)
    TextSettings("en", "de", 3, subword="syllable").save(data_dir / "text.json")
    with pytest.raises(InputError, match="syllable"):
        TextPipeline.load(data_dir)


@pytest.mark.parametrize(
    "line",
    ["Um 15:05:30 Uhr", "120 km/h, 7 km² und A$5", "von 1939–1945 (Paris–Dakar), 7.–10. Mai"],
)
def test_what_moses_would_tear_apart_comes_back(line):
    tokenizer = Tokenizer("de")
    tokens = tokenizer.tokenize(line)
    assert tokenizer.detokenize(tokens) == line
    assert ")" not in "".join(token for token in tokens if len(token) > 2)


def test_a_line_with_more_protected_tokens_than_sacremoses_takes():
    tokens = Tokenizer("en").tokenize(" ".join(["1:2"] * 1500))
    assert "".join(tokens) == "1:2" * 1500


def wordpieces(path, words, size):
    from corpus.subwords import learn_wordpieces

    learn_wordpieces(Counter(words), size, path)
    return path / "wordpieces.model"


def test_word_pieces_split_and_join(tmp_path):
    words = {"hello": 5, "world": 4, "help": 3, "höher": 2, "漢字": 1, '"': 3, "x-y": 2}
    model = wordpieces(tmp_path, words, 60)
    pieces = WordPieces(model)
    for tokens in (["hello", '"', "höher", "help", "x-y"], ["world"], [], ["unseen", "字漢", "."]):
        assert pieces.decode(pieces.encode(tokens)) == tokens
    assert pieces.encode(["hello", "hello"]) == "▁hello ▁hello"
    assert pieces.decode("▁he l") == ["hel"]  # a sentence cut short
    assert pieces.decode("hello world") == ["hello", "world"]  # joined before
    dictionary = (tmp_path / "dict.txt").read_text("utf-8").splitlines()
    assert "▁hello 1" in dictionary and not any(line.startswith("<") for line in dictionary)
    assert wordpieces(tmp_path, words, 60).read_bytes() == model.read_bytes()
    with pytest.raises(InputError, match="no 10 word-pieces"):
        wordpieces(tmp_path, words, 10)
    model.write_bytes(b"x")
    with pytest.raises(InputError, match="not a model of sentencepiece"):
        WordPieces(model)
