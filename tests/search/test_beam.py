"""§6.1: beam search against a slow and obvious one, and in any batch the same."""

import pytest
import torch
from models import EOS, PAD
from searches import VARIANTS, WORDS, assert_same, batch, ending_model, sample, search

import aiayn_plugin.model.embedding
import aiayn_plugin.search.decoder_step
from aiayn_plugin.errors import InputError
from aiayn_plugin.search.beam import closed_up
from aiayn_plugin.search.rules import FairseqRules, PaperRules


def obvious_search(model, source, alpha, a, b, beam):
    """Return [(score, tokens)], best first, of a search of one sentence to its limit."""
    source = source[source.ne(PAD)][None]
    limit = int(a * (source.size(1) - 1) + b)
    open_, finished = [(0.0, [])], []
    for step in range(limit + 1):
        candidates = []
        for total, tokens in open_:
            target = torch.tensor([[EOS, *tokens]])
            log_p = model(source, None, target)[0][0, -1].log_softmax(dim=-1)
            for token in range(WORDS):
                allowed = token == EOS if step == limit else token != PAD
                if allowed and not (step == 0 and token == EOS):  # --min-len 1
                    candidates.append((total + float(log_p[token]), [*tokens, token]))
        candidates.sort(key=lambda c: -c[0])
        for total, tokens in candidates[:beam]:
            if tokens[-1] == EOS:
                finished.append((total / ((5 + len(tokens)) / 6) ** alpha, tokens))
        open_ = [c for c in candidates if c[1][-1] != EOS][:beam]
    return sorted(finished, key=lambda c: -c[0])


@pytest.mark.parametrize(
    "alpha, beam, options",
    [
        (0.0, 4, {}),
        (2.0, 4, {}),
        *((0.6, 4, options) for options in VARIANTS),
        *((0.6, beam, {}) for beam in (1, 6, 7, 8, WORDS - 1)),
    ],
)
def test_the_papers_search_is_the_obvious_one(alpha, beam, options):
    model, kept = ending_model(**options), min(beam, 3)
    data = batch((4, 1, 6, 0))
    for early in (True, False):
        generator = search([model], PaperRules(alpha, 1, 7, kept, early), beam_size=beam)
        found = generator.generate([model], data)
        for source, hypotheses in zip(data["net_input"]["src_tokens"], found, strict=True):
            expected = obvious_search(model, source, alpha, 1, 7, beam)[:kept]
            assert [h["tokens"].tolist() for h in hypotheses] == [t for _, t in expected]
            for hypothesis, (score, _) in zip(hypotheses, expected, strict=True):
                assert float(hypothesis["score"]) == pytest.approx(score, abs=1e-9)
                total = hypothesis["positional_scores"].sum()
                length = (5 + len(hypothesis["tokens"])) / 6
                assert float(total / length**alpha) == pytest.approx(score, abs=1e-9)


def test_stopping_early_saves_steps():
    model, steps = ending_model(), []
    model.decoder.embedding.register_forward_hook(lambda *call: steps.append(1))
    data = batch((5,))
    counts = []
    for early in (True, False):
        steps.clear()
        search([model], PaperRules(0.6, 1, 50, 1, early)).generate([model], data)
        counts.append(len(steps))
    # To the limit: 1 · 5 + 50 tokens and the end are 56 steps; the source is embedded too.
    assert counts[0] < counts[1] == 56 + 1


@pytest.mark.parametrize("rules", [PaperRules(0.6, 1, 20, 4), FairseqRules(1.0, 0, 20, 4, 4)])
def test_a_sentence_does_not_depend_on_its_batch(rules):
    model = ending_model()
    lengths = [0, 1, 2, 3, 5, 8, 13, 8, 4, 2, 1, 6, 7, 7]
    whole = batch(lengths)["net_input"]["src_tokens"]
    together = search([model], rules).generate([model], sample(whole))
    for size in (1, 4):
        apart = []
        for start in range(0, len(lengths), size):
            rows = whole[start : start + size]
            rows = rows[:, rows.eq(PAD).all(dim=0).sum() :]
            apart += search([model], rules).generate([model], sample(rows))
        assert_same(apart, together)


@pytest.mark.parametrize("left", [True, False])
def test_work_in_pieces_changes_nothing(monkeypatch, left):
    """A few sentences encoded at once, and a few scores computed at once, give the same."""
    models = [ending_model(seed=seed, positions="learned").double() for seed in (2, 3)]
    data = batch([n % 7 for n in range(20)], left)
    prefix = torch.randint(4, WORDS, (20, 2))
    prefix[::3] = PAD
    rules = PaperRules(0.6, 1, 20, 4)
    options = {"temperature": 2.0, "min_len": 3, "no_repeat_ngram_size": 2}
    expected = search(models, rules, **options).generate(models, data, prefix_tokens=prefix)
    monkeypatch.setitem(aiayn_plugin.model.embedding.SCORES_AT_ONCE, "cpu", 3 * 4 * WORDS)
    monkeypatch.setattr(aiayn_plugin.search.decoder_step, "ENCODED_AT_ONCE", 3)
    found = search(models, rules, **options).generate(models, data, prefix_tokens=prefix)
    assert_same(found, expected)


@pytest.mark.parametrize(
    "done, rows",
    [
        ([0, 1, 0, 1, 0], [0, 4, 2]),
        ([0, 0, 1], [0, 1]),
        ([1, 1, 0], [2]),
        ([1, 1], []),
        ([0], [0]),
    ],
)
def test_the_last_sentences_take_the_places_of_those_that_are_done(done, rows):
    assert closed_up(torch.tensor(done, dtype=torch.bool)).tolist() == rows


def test_a_prefix_does_not_depend_on_its_batch():
    model, data = ending_model(), batch((4, 6))
    generator = search([model], PaperRules(0.6, 1, 7, 2), min_len=4)
    prefix = torch.tensor([[5, PAD, PAD, PAD], [6, 7, 8, 9]])
    together = generator.generate([model], data, prefix_tokens=prefix)
    for number, width in enumerate((1, 4)):
        source = data["net_input"]["src_tokens"][number]
        alone = generator.generate(
            [model],
            sample(source[source.ne(PAD)][None]),
            prefix_tokens=prefix[number : number + 1, :width],
        )
        assert_same(alone, together[number : number + 1])


def test_a_prefix_that_ends_is_the_only_hypothesis():
    models, data = [ending_model()], batch()  # fairseq's own search ends with an assertion here
    prefix = torch.tensor([[EOS, PAD], [5, EOS], [PAD, PAD], [4, 4], [4, PAD]])
    found = search(models, PaperRules(0.6, 1, 5, 4)).generate(models, data, prefix_tokens=prefix)
    assert [h["tokens"].tolist() for h in found[0] + found[1]] == [[EOS], [5, EOS]]
    assert all(h["tokens"][:2].tolist() == [4, 4] for h in found[3])


def test_a_limit_below_the_least_length_is_an_error():
    model = ending_model()
    with pytest.raises(InputError, match="--min-len 9"):
        search([model], PaperRules(0.6, 1, 5, 1), min_len=9).generate([model], batch())
