"""tokenizer.json: the tokens of subword-nmt and our dictionary, by Hugging Face's tokenizers."""

import json
import random
from collections import Counter

import pytest

from aiayn_plugin.corpus.subwords import learn_bpe
from aiayn_plugin.errors import InputError
from aiayn_plugin.text.dictionary import Vocabulary
from aiayn_plugin.text.fast_tokenizer import build_fast_tokenizer
from aiayn_plugin.text.settings import TOKENIZERS
from aiayn_plugin.text.subwords import Bpe
from aiayn_plugin.text.tokenizer import Tokenizer

#: Unknown letters, the mark of BPE, escapes, special symbols, and words that Moses protects.
HARD = [
    "",
    "@@ x@@ @@@@ a@@b @",
    "&apos;s &amp; &quot;a&quot; <unk> </s> <s><pad> x</w>y </w>",
    "漢字 αβγ 😀👩‍👩‍👧 e\u0301a\u0300 \u00adzero\u200bwidth",
    "km/h 15:05 km² 10 °C A$ 1939–1945 3.5 % http://a.b/c?d=e&f",
]


@pytest.fixture
def encode():
    """`encode(bpe, vocabulary, tokens)` returns the IDs by tokenizer.json, model_ids replaced."""
    tokenizers = pytest.importorskip("tokenizers", reason="needs transformers: pip install it")
    built = {}

    def by_tokenizers(bpe, vocabulary, tokens):
        if bpe not in built:
            content, model_ids = build_fast_tokenizer(bpe.merges, vocabulary)
            tokenizer = tokenizers.Tokenizer.from_str(json.dumps(content))
            tokenizer.encode_special_tokens = True
            built[bpe] = tokenizer, [*range(len(vocabulary)), *model_ids]
        tokenizer, ids = built[bpe]
        return [ids[i] for i in tokenizer.encode(" ".join(tokens)).ids]

    return by_tokenizers


def test_real_text_is_split_as_by_subword_nmt(repo, tmp_path, encode):
    data = repo.parent / "shared" / "data" / "newstest"
    if not data.is_dir():
        pytest.skip(f"needs the text of newstest in {data}")
    lines = [
        (line, language)
        for language in ("de", "en")
        for line in (data / f"newstest2013.{language}").read_text("utf-8").split("\n")[::3]
    ]
    splitters = {
        (kind, language): Tokenizer(language, True, kind)
        for kind in TOKENIZERS
        for language in ("de", "en")
    }
    moses = [splitters["moses", language].tokenize(line) for line, language in lines]
    learn_bpe(Counter(t for tokens in moses[::2] for t in tokens), 2000, False, tmp_path / "codes")
    bpe = Bpe(tmp_path / "codes")
    symbols = Counter(s for tokens in moses[::2] for s in bpe.encode(tokens).split(" "))
    words = [symbol for symbol, _ in symbols.most_common() if symbol][: -len(symbols) // 20]
    vocabulary = Vocabulary(words)

    rng = random.Random(1)
    texts = moses + [
        ["".join(rng.choices("abeßr@&;</w>-漢.’'", k=9)) for _ in range(5)] for _ in lines
    ]
    texts += [t.tokenize(line) for t in splitters.values() for line in HARD]
    texts += [line.split() for line in HARD]
    expected = [vocabulary.encode(filter(None, bpe.encode(tokens).split(" "))) for tokens in texts]
    assert [encode(bpe, vocabulary, tokens) for tokens in texts] == expected
    assert sum(Vocabulary.unk in ids for ids in expected[: len(moses)]) > 100


def test_a_word_that_ends_like_a_subword_has_its_id(tmp_path, encode):
    """`he@@` is a word-internal subword and also a whole word, which the merges produce."""
    (tmp_path / "codes").write_text("#version: 0.2\nh e\nhe @\nhe@ @</w>\nl o</w>\n")
    bpe, vocabulary = Bpe(tmp_path / "codes"), Vocabulary(["lo", "he@@"])
    assert bpe.encode(["helo", "he@@"]) == "he@@ lo he@@"
    assert encode(bpe, vocabulary, ["helo", "he@@"]) == [5, 4, 5, 2]


@pytest.mark.parametrize("words", [["a", "b", "a"], ["a", "<s>@@"]])
def test_ambiguous_dictionaries_are_refused(words):
    with pytest.raises(InputError, match="a duplicate entry or a special symbol"):
        build_fast_tokenizer([("a", "b")], Vocabulary(words))
