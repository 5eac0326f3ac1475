"""§6.1: from the log of fairseq-generate to scores."""

import pytest
import sacrebleu

from aiayn_plugin.scoring import hypotheses, score

LOG = """2026-01-01 | INFO | fairseq_cli.generate | loading
S-1\tsource
T-1\tH-7\tno hypothesis
H-1\t-0.2\tbest of 1
D-1\t-0.2\tbest of 1
H-1\t-0.3\tsecond of 1
H-0\t-0.5\ta b@@ c
H-2\t-9.9\t
Generate test with beam=4: BLEU4 = 1
"""


def test_the_best_hypotheses_in_order():
    assert hypotheses(LOG.splitlines(keepends=True)) == ["a b@@ c", "best of 1", ""]


def test_a_lost_sentence_is_noticed():
    with pytest.raises(ValueError, match="no hypothesis for sentence 1"):
        hypotheses(line for line in LOG.splitlines() if not line.startswith("H-1"))


def test_scores():
    system = ["Der Hund läuft schnell weg.", "Ja."]
    references = ["Der Hund läuft sehr schnell weg.", "Ja."]
    found = score(system, references)
    assert found.bleu == pytest.approx(sacrebleu.corpus_bleu(system, [references]).score)
    assert (found.exact, found.sentences) == (0.5, 2)
    assert "tok:13a" in found.signature and "case:mixed" in found.signature
    with pytest.raises(ValueError, match="1 hypotheses, but 2 references"):
        score(system[:1], references)
