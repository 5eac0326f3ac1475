"""fairseq-generate --scoring paper_bleu."""

from aiayn_plugin.fairseq_plugin.scorer import PaperBleuConfig, PaperBleuScorer


def test_an_unknown_word_equals_no_unknown_word_of_a_hypothesis():
    scorer = PaperBleuScorer(PaperBleuConfig(paper_bleu_lang="de"))
    for _ in range(2):
        scorer.add_string("der <<unk>> sah den <<unk>> .", "der <unk> sah den <unk> .")
    assert scorer.score() == 0 and "unknown words: 4;" in scorer.result_string()
