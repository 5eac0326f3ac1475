"""The tokens equal those of sacremoses on the whole line, and detokenise to raw text."""

import random
import re

import pytest
from fairseq.tokenizer import tokenize_line
from sacremoses import MosesPunctNormalizer, MosesTokenizer

from aiayn_plugin.errors import InputError
from aiayn_plugin.text.settings import MOSES, SACREMOSES
from aiayn_plugin.text.tokenizer import Tokenizer

WORDS = """Mr Nr No pp Art z.B e.g U.S don't l'homme a A 5 1,000 3.5 's km/h 15:05 v .. ... . , ' --
a$ °C 1939–1945 – aé- wort ''a a''b 1:22/333 a/bb–cc DOTMULTI""".split()
ENDS = ["", "", "", ".", ",", "'", ".'", ")", "...", ":", '"', "., "]
#: The protected patterns in their simple form, which takes quadratic time.
PROTECTED = (
    r"\d+(?::\d+)+",
    r"\w+(?:/\w+)+",
    r"\w+[²³]",
    r"[A-Z]+[$¥]",
    r"°[CF]",
    r"[\w:]+\.?–[\w:]+",
)
CHARACTERS = "abzéßAÉ059.,'-`\"()/:;!?&$²°–%  \xa0…„“’«»漢ªºⅫ\u0301"


def odd_line(rng):
    """Return a line of characters or words to which Moses's rules apply."""
    if rng.random() < 0.5:
        return "".join(rng.choices(CHARACTERS, k=rng.randint(0, 25)))
    starts = ["", "", "(", "'"]
    return " ".join("".join(map(rng.choice, (starts, WORDS, ENDS))) for _ in range(6))


@pytest.mark.parametrize("lang", ["en", "de"])
def test_fairseq_splits_tokens_at_the_same_places(lang):
    tokenizer = Tokenizer(lang)
    odd = [chr(code) for code in (*range(0x250), *range(0x2000, 0x2070), 0x3000, 0xFEFF)]
    for text in ["".join(odd), "a".join(odd), " . ".join(odd)]:
        tokens = tokenizer.tokenize(text)
        assert tokenize_line(" ".join(tokens)) == tokens


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("lang", ["en", "de", "fr"])
def test_tokens_are_those_of_sacremoses_on_the_whole_line(lang, normalise):
    rng = random.Random(f"{lang}{normalise}")
    protecting, ours = (Tokenizer(lang, normalise, kind) for kind in (SACREMOSES, MOSES))
    moses = MosesTokenizer(lang)
    text, script = (MosesPunctNormalizer(lang, perl_parity=parity) for parity in (False, True))
    for _ in range(800):
        line = odd_line(rng)
        raw = text.normalize(line) if normalise else line
        expected = moses.tokenize(raw, escape=False, protected_patterns=PROTECTED)
        assert protecting.tokenize(line) == expected, line
        line = line.replace("漢", "")  # missing in sacremoses' lists
        raw = script.normalize(f"{line}\n") if normalise else line
        assert ours.tokenize(line) == moses.tokenize(raw, escape=False), line


def test_special_symbols_in_raw_text_are_split():
    tokens = Tokenizer("en").tokenize("<s> <pad></s> <unk> #fairseq:overwrite x@@ &amp;")
    assert tokens[:3] == ["<", "s", ">"]
    assert not {"<s>", "<pad>", "</s>", "<unk>", "#fairseq:overwrite", "x@@"} & set(tokens)
    assert tokens[-3:] == ["&", "amp", ";"]


def test_tokenize_and_detokenize_are_inverse_on_plain_text():
    for lang, text in [
        ("en", "It's 5,300 (well-known) dogs, isn't it?"),
        ("de", "„Ja“, sagt sie."),
        ("hi", "क्या यह हिन्दी है, या ज़मीन?"),
        ("cs", "V roce 2010 jich bylo 5."),
        ("fa", "می‌خواهم, نمی‌دانم."),
        ("th", "น้ำ, มาก?"),
        ("es", "Un cafe\u0301, por favor."),
        ("zh_CN", "今天天气很好，我们去公园！"),
        ("zh", "“你好，”他说，“再见……”"),
        ("ja", "彼は“はい”と言った——ジョン・スミス"),
        ("ko_KR", "나는 학교에 갑니다."),
        ("eng", "It's 5,300 (well-known) dogs, isn't it?"),
    ]:
        tokenizer = Tokenizer(lang)
        tokens = tokenizer.tokenize(text)
        assert len(tokens) > len(text.split())
        assert tokenizer.tokenize(tokenizer.detokenize(tokens)) == tokens
        assert tokenizer.detokenize(tokens) == text
    assert Tokenizer("en").detokenize(["a", "&", "amp", ";", "dog", "."]) == "a & amp; dog."


def test_control_characters_are_handled_as_by_moses_or_become_spaces():
    assert Tokenizer("en").tokenize("a\0b\x96c\x85d") == ["ab", "\x96", "c", "d"]
    assert Tokenizer("en", kind=SACREMOSES).tokenize("a\0b\x96c\x85d") == ["a", "b", "c", "d"]


def test_punctuation_is_normalised_only_on_request():
    assert Tokenizer("en").tokenize("“yes”") == ["“", "yes", "”"]
    assert Tokenizer("en", normalize_punctuation=True).tokenize("“yes”") == ['"', "yes", '"']
    for kind, quote in ((MOSES, '"'), (SACREMOSES, "'")):
        tokenizer = Tokenizer("de", normalize_punctuation=True, kind=kind)
        assert tokenizer.tokenize("‘ja’ geht’s") == [quote, "ja", quote, "geht", "'", "s"]


@pytest.mark.parametrize(
    "line",
    ["Um 15:05:30 Uhr", "120 km/h, 7 km² und A$5", "von 1939–1945 (Paris–Dakar), 7.–10. Mai"],
)
def test_protected_words_are_restored(line):
    tokenizer = Tokenizer("de", kind=SACREMOSES)
    tokens = tokenizer.tokenize(line)
    assert tokenizer.detokenize(tokens) == line
    assert len(Tokenizer("de").tokenize(line)) > len(tokens)
    assert ")" not in "".join(token for token in tokens if len(token) > 2)


def test_line_with_more_protected_words_than_sacremoses_supports():
    tokens = Tokenizer("en", kind=SACREMOSES).tokenize(" ".join(["1:2"] * 1500))
    assert "".join(tokens) == "1:2" * 1500


@pytest.mark.parametrize(
    ("owner", "name", "rules"),
    [
        (MosesTokenizer, "PAD_NOT_ISALNUM", (re.compile(r"([^\w])"), r" \1 ")),
        (MosesTokenizer, "MULTIDOT_MARKER", re.compile("DOTMULTI")),
        (MosesPunctNormalizer, "DE_ES_FR_QUOTATION_FOLLOWED_BY_COMMA", []),
        (MosesPunctNormalizer, "NORMALIZE_UNICODE", [("’", "'")] * 12),
    ],
)
def test_changed_rules_of_sacremoses_are_refused(monkeypatch, owner, name, rules):
    monkeypatch.setattr(owner, name, rules)
    with pytest.raises(InputError, match="this version of sacremoses"):
        Tokenizer("de", normalize_punctuation=True)
