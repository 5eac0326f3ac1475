"""fairseq-generate --scoring paper_bleu."""

from aiayn_plugin.fairseq_plugin.scorer import PaperBleuConfig, PaperBleuScorer


def test_unknown_words_never_match():
    scorer = PaperBleuScorer(PaperBleuConfig(paper_bleu_lang="de"))
    for _ in range(2):
        scorer.add_string("der <<unk>> sah den <<unk>> .", "der <unk> sah den <unk> .")
    result = scorer.result_string()
    assert scorer.score() == 0 and "unknown words: 4;" in result and "aiayn score" in result
