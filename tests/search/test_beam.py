"""§6.1 Beam search against a naive implementation, and in different batches."""

import math
import threading

import pytest
import torch
from models import EOS, PAD
from searches import MODEL_VARIANTS, WORDS, assert_same, beam_search, noisy_model, source_batch

from aiayn_plugin.errors import InputError
from aiayn_plugin.kernels.chunking import CHUNK_SIZES
from aiayn_plugin.search.beam import remaining_rows
from aiayn_plugin.search.decoder_step import AiaynSearchModel, encode


def naive_search(model, source, alpha, a, b, beam):
    """Return [(score, tokens)], best first, of a search of one sentence to its limit."""
    source = source[source.ne(PAD)][None]
    limit = int(a * (source.size(1) - 1) + b)
    open_, finished = [(0.0, [])], []
    for step in range(limit + 1):
        candidates = []
        targets = torch.tensor([[EOS, *tokens] for _, tokens in open_])
        logits = model(source.expand(len(open_), -1), None, targets)[0][:, -1]
        for (total, tokens), log_p in zip(open_, logits.log_softmax(dim=-1).tolist(), strict=True):
            for token in range(WORDS):
                allowed = token == EOS if step == limit else token != PAD
                if allowed and not (step == 0 and token == EOS):  # --min-len 1
                    candidates.append((total + log_p[token], [*tokens, token]))
        candidates.sort(key=lambda c: -c[0])
        for total, tokens in candidates[:beam]:
            if tokens[-1] == EOS:
                finished.append((total / ((5 + len(tokens)) / 6) ** alpha, tokens))
        open_ = [c for c in candidates if c[1][-1] != EOS][:beam]
    return sorted(finished, key=lambda c: -c[0])


@pytest.mark.parametrize(
    "alpha, beam, model_settings",
    [
        (0.0, 4, {}),
        (2.0, 4, {}),
        *((0.6, 4, settings) for settings in MODEL_VARIANTS),
        *((0.6, beam, {}) for beam in (1, 6, 7, 8, WORDS - 1)),
    ],
)
def test_search_finds_what_a_naive_search_finds(alpha, beam, model_settings):
    model, nbest = noisy_model(**model_settings), min(beam, 3)
    source = source_batch((4, 1, 6, 0))
    best = [naive_search(model, tokens, alpha, 1, 7, beam)[:nbest] for tokens in source]
    for stop_early in (True, False):
        settings = {"beam": beam, "lenpen": alpha, "max_len_b": 7, "nbest": nbest}
        search = beam_search([model], {**settings, "stop_early": stop_early})
        for expected, hypotheses in zip(best, search.search_batch(source), strict=True):
            assert [h.tokens.tolist() for h in hypotheses] == [t for _, t in expected]
            for hypothesis, (score, _) in zip(hypotheses, expected, strict=True):
                assert float(hypothesis.score) == pytest.approx(score, abs=1e-9)
                total = hypothesis.positional_scores.sum()
                length = (5 + len(hypothesis.tokens)) / 6
                assert float(total / length**alpha) == pytest.approx(score, abs=1e-9)


def test_stopping_early_saves_steps():
    model, steps = noisy_model(), []
    model.decoder.embedding.register_forward_hook(lambda *call: steps.append(1))
    counts = []
    for stop_early in (True, False):
        steps.clear()
        beam_search([model], {"stop_early": stop_early}).search_batch(source_batch((5,)))
        counts.append(len(steps))
    # To the limit: 1 · 5 + 50 tokens and the end are 56 steps; the source is embedded too.
    assert counts[0] < counts[1] == 56 + 1


class ParityConstraint:
    """Sentences of even length translate into even token IDs, others into odd ones."""

    def start(self, source, limits):
        return source.ne(PAD).sum(dim=1) % 2

    def allowed(self, tokens, state, remaining):
        assert len(tokens) == len(state) == len(remaining)
        token = torch.arange(WORDS)
        allowed = (token % 2 == state[:, None, None]) | (token == EOS)
        return allowed.expand(*tokens.shape[:2], WORDS)


class NoWordsNoOutput:
    """A sentence without words, like an empty line for a parser, may only end."""

    def start(self, source, limits):
        return source.ne(PAD).sum(dim=1) - 1

    def allowed(self, tokens, state, remaining):
        allowed = state[:, None, None].gt(0) | torch.arange(WORDS).eq(EOS)
        return allowed.expand(*tokens.shape[:2], WORDS)


def test_a_constraint_may_end_a_sentence_before_the_minimum_length():
    settings = {"min_len": 2, "nbest": 4}
    search = beam_search([noisy_model()], settings, constraint=NoWordsNoOutput())
    empty, other = search.search_batch(source_batch([0, 3]))
    assert [hypothesis.tokens.tolist() for hypothesis in empty] == [[EOS]]
    assert min(len(hypothesis.tokens) for hypothesis in other) > 2


@pytest.mark.parametrize(
    "settings",
    [{"max_len_b": 20}, {"length_penalty": "fairseq", "lenpen": 1.0, "max_len_a": 0}],
    ids=["paper", "fairseq"],
)
def test_a_sentence_does_not_depend_on_its_batch(settings):
    """Sentences leave their batch at different steps; each keeps its limit, prefix and so on."""
    models = [noisy_model(), noisy_model(seed=4, neighbourhood=3)]
    lengths = [0, 1, 2, 3, 5, 8, 13, 8, 4, 2, 1, 6, 7, 7]
    settings = {"nbest": 4, "max_len_b": 20, **settings}
    search = beam_search(models, settings, constraint=ParityConstraint(), need_attention=True)
    source = source_batch(lengths)
    prefix = torch.randint(4, WORDS, (len(lengths), 12), generator=torch.Generator().manual_seed(5))
    for row in range(len(lengths)):
        prefix[row, row:] = PAD
    parity = source.ne(PAD).sum(dim=1, keepdim=True) % 2
    prefix = torch.where(prefix.eq(PAD), prefix, prefix - prefix % 2 + parity).clamp(max=WORDS - 1)
    together = search.search_batch(source, prefix)
    assert len({len(hypotheses[0].tokens) for hypotheses in together}) > 3
    for size in (1, 4):
        separate = []
        for start in range(0, len(lengths), size):
            rows = source[start : start + size]
            rows = rows[:, rows.eq(PAD).all(dim=0).sum() :]
            separate += search.search_batch(rows, prefix[start : start + size])
        assert_same(separate, together)
        for one, other in zip(sum(separate, []), sum(together, []), strict=True):
            m = len(one.attention)
            torch.testing.assert_close(one.attention, other.attention[-m:], rtol=0, atol=1e-9)


def test_sentences_come_back_in_their_order():
    search = beam_search([noisy_model()], {"max_len_b": 9})
    sentences = [row[row.ne(PAD)] for row in source_batch([3, 7, 0, 7, 5, 1])]
    sizes = []
    found = search.search(sentences, max_tokens=16, progress=sizes.append)
    assert sizes == [2, 2, 2]
    assert_same(found, [search.search_batch(sentence[None])[0] for sentence in sentences])


def test_computing_scores_for_a_few_sentences_at_a_time_changes_nothing(monkeypatch):
    models = [noisy_model(seed=seed, positions="learned") for seed in (2, 3)]
    source = source_batch([n % 7 for n in range(20)])
    prefix = torch.randint(4, WORDS, (20, 2))
    prefix[::3] = PAD
    settings = {"nbest": 4, "max_len_b": 20, "temperature": 2.0, "min_len": 3}
    expected = beam_search(models, settings).search_batch(source, prefix)
    monkeypatch.setitem(CHUNK_SIZES, "cpu", 3 * 4 * WORDS)  # 3 sentences of 4 hypotheses
    assert_same(beam_search(models, settings).search_batch(source, prefix), expected)


@pytest.mark.parametrize("left", [True, False])
def test_encoding_a_few_sentences_at_a_time_changes_nothing(left, monkeypatch):
    encoder = noisy_model(positions="learned").encoder
    source = source_batch([n % 7 for n in range(20)], left)
    expected, padding = encoder.encode(source)
    monkeypatch.setattr("aiayn_plugin.search.decoder_step.ENCODER_BATCH", 3)
    memory, found_padding = encode(encoder, source)
    torch.testing.assert_close(memory[~padding], expected[~padding], rtol=0, atol=1e-12)
    assert torch.equal(found_padding, padding)


def test_threads_change_nothing():
    models = [noisy_model(seed=seed, positions="learned") for seed in (2, 3)]
    source = source_batch([n % 7 for n in range(170)])
    prefix = torch.randint(4, WORDS, (170, 2))
    prefix[::3] = PAD
    settings = {"length_penalty": "fairseq", "lenpen": 1.0, "max_len_a": 0, "max_len_b": 20}

    def search(use_threads):
        options, threads = {"need_attention": True, "use_threads": use_threads}, set()
        embedding = models[0].encoder.embedding
        with embedding.register_forward_hook(lambda *_: threads.add(threading.get_ident())):
            search = beam_search(models, {**settings, "nbest": 4}, **options)
            hypotheses = search.search_batch(source, prefix)
        assert (len(threads) > 1) == use_threads
        return hypotheses

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        expected, actual = search(use_threads=False), search(use_threads=True)
        assert torch.get_num_threads() == 3
        with pytest.raises(InputError, match="--min-len 60 is above the limit"):
            beam_search(models, {**settings, "min_len": 60}).search_batch(source)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert_same(actual, expected)
    for one, other in zip(sum(actual, []), sum(expected, []), strict=True):
        torch.testing.assert_close(one.attention, other.attention)


class LimitedMemory(AiaynSearchModel):
    """A model that runs out of memory for more than two sentences."""

    def start(self, source):
        if len(source) > 2:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory.")
        return super().start(source)


def test_a_batch_that_does_not_fit_in_memory_is_searched_in_halves():
    model, source = noisy_model(), source_batch([4, 1, 6, 0, 3])
    prefix = torch.tensor([[4], [5], [6], [PAD], [7]])
    search = beam_search([model])
    expected = search.search_batch(source, prefix)
    search.models = [LimitedMemory(model.encoder, model.decoder)]
    assert_same(search.search_batch(source, prefix), expected)


def test_the_last_sentences_fill_the_gaps_of_finished_ones():
    finished = torch.tensor([False, True, False, True, False])
    assert remaining_rows(finished).tolist() == [0, 4, 2]


def test_a_prefix_that_ends_is_the_only_hypothesis():
    """fairseq's own search fails an assertion here."""
    prefix = torch.tensor([[EOS, PAD], [5, EOS], [PAD, PAD], [4, 4], [4, PAD]])
    search = beam_search([noisy_model()], {"max_len_b": 5, "nbest": 4})
    found = search.search_batch(source_batch(), prefix)
    assert [h.tokens.tolist() for h in found[0] + found[1]] == [[EOS], [5, EOS]]
    assert all(h.tokens[:2].tolist() == [4, 4] for h in found[3])


def test_a_prefix_longer_than_the_limit_is_cut():
    search = beam_search([noisy_model()], {"max_len_a": 0, "max_len_b": 1})
    found = search.search_batch(source_batch(), torch.full((5, 2), 4))
    assert [[h.tokens.tolist() for h in hypotheses] for hypotheses in found] == 5 * [[[4, EOS]]]


def test_learned_positions_limit_the_length():
    model = noisy_model(positions="learned", max_target_positions=8)
    models = [model, noisy_model()]  # the second has no limit
    found = beam_search(models, {"min_len": 7, "nbest": 4}).search_batch(source_batch())
    assert {len(hypothesis.tokens) for hypothesis in sum(found, [])} == {8}


def test_scores_of_a_bfloat16_model_are_float32():
    model = noisy_model().bfloat16()
    decoding = AiaynSearchModel(model.encoder, model.decoder).start(source_batch())
    log_p = decoding.log_probabilities(torch.randn(5, 4, 16).bfloat16(), 1.0)
    assert log_p.shape == (5, 4, WORDS)
    torch.testing.assert_close(log_p.exp().sum(dim=-1), torch.ones(5, 4))


def test_scores_that_are_not_finite_are_an_error():
    model = noisy_model()
    model.decoder.embedding.weight.data.fill_(math.nan)
    with pytest.raises(InputError, match="a sentence has no hypothesis: the model's scores"):
        beam_search([model]).search_batch(source_batch())
