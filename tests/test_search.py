"""§6.1: beam search, against a slow and obvious one, and against fairseq's generator."""

import math
from types import SimpleNamespace

import pytest
import torch
from fairseq.models.transformer_lm import TransformerLanguageModel, base_lm_architecture
from fairseq.sequence_generator import SequenceGenerator
from models import EOS, PAD, build, dictionary, fairseq_model

import aiayn_plugin.model.embedding
import aiayn_plugin.search.models
from aiayn_plugin.boundary.generator import Generator
from aiayn_plugin.errors import InputError
from aiayn_plugin.search.rules import FairseqRules, PaperRules

WORDS = 12
VARIANTS = [
    {}, {"positions": "learned"}, {"neighbourhood": 3}, {"d_k": 3, "d_v": 5},
    {"attention_bias": True, "positions": "fairseq"}, {"tie_embeddings": "none"},
]  # fmt: skip


def model(seed=2, **options):
    """A model whose sentences end now and then, after lengths that differ."""
    made = build(words=WORDS, **options).eval()
    torch.manual_seed(seed)
    for weight in made.parameters():
        if weight.dim() > 1:
            weight.data += 0.3 * torch.randn_like(weight)
    return made


def batch(lengths=(4, 1, 9, 6, 0), left=True):
    """Source sentences of these lengths, not counting the end symbol, as fairseq pads them."""
    torch.manual_seed(3)
    width = max(lengths) + 1
    rows = []
    for n in lengths:
        words, pad = torch.randint(4, WORDS, (n,)), torch.full((width - n - 1,), PAD)
        parts = (pad, words, torch.tensor([EOS])) if left else (words, torch.tensor([EOS]), pad)
        rows.append(torch.cat(parts))
    return sample(torch.stack(rows))


def sample(source):
    return {"id": torch.arange(len(source)), "net_input": {"src_tokens": source,
            "src_lengths": source.ne(PAD).sum(dim=1)}}  # fmt: skip


def obvious_search(model, source, alpha, a, b_len, beam):
    """One sentence, hypothesis by hypothesis, to the limit: [(score, tokens)], best first."""
    source = source[source.ne(PAD)][None]
    limit = int(a * (source.size(1) - 1) + b_len)
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


def search(models, rules, **options):
    options = {"beam_size": 4, **options}
    return Generator(models, dictionary(WORDS), rules=rules, **options)


def assert_same(found, expected):
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert [h["tokens"].tolist() for h in ours] == [h["tokens"].tolist() for h in theirs]
        for name in ("score", "positional_scores"):
            for one, other in zip(ours, theirs, strict=True):
                torch.testing.assert_close(one[name].double(), other[name].double(),
                                           rtol=0, atol=1e-5)  # fairseq keeps float32


@pytest.mark.parametrize("alpha, beam, options", [
    (0.0, 4, {}), (2.0, 4, {}), *((0.6, 4, options) for options in VARIANTS),
    *((0.6, beam, {}) for beam in (1, 6, 7, 8, WORDS - 1)),
])  # fmt: skip
def test_the_papers_search_is_the_obvious_one(alpha, beam, options):
    one, kept = model(**options), min(beam, 3)
    data = batch((4, 1, 6, 0))
    for early in (True, False):
        generator = search([one], PaperRules(alpha, 1, 7, kept, early), beam_size=beam)
        found = generator.generate([one], data)
        for source, hypotheses in zip(data["net_input"]["src_tokens"], found, strict=True):
            expected = obvious_search(one, source, alpha, 1, 7, beam)[:kept]
            assert [h["tokens"].tolist() for h in hypotheses] == [t for _, t in expected]
            for hypothesis, (score, _) in zip(hypotheses, expected, strict=True):
                assert float(hypothesis["score"]) == pytest.approx(score, abs=1e-9)
                total = hypothesis["positional_scores"].sum()
                length = (5 + len(hypothesis["tokens"])) / 6
                assert float(total / length**alpha) == pytest.approx(score, abs=1e-9)


def test_stopping_early_saves_steps():
    one, steps = model(), []
    one.decoder.embedding.register_forward_hook(lambda *call: steps.append(1))
    data = batch((5,))
    counts = []
    for early in (True, False):
        steps.clear()
        search([one], PaperRules(0.6, 1, 50, 1, early)).generate([one], data)
        counts.append(len(steps))
    assert counts[0] < counts[1] == 56 + 1  # and once for the source


@pytest.mark.parametrize("rules", [PaperRules(0.6, 1, 20, 4), FairseqRules(1.0, 0, 20, 4, 4)])
def test_a_sentence_does_not_depend_on_its_batch(rules):
    one = model()
    lengths = [0, 1, 2, 3, 5, 8, 13, 8, 4, 2, 1, 6, 7, 7]
    whole = batch(lengths)["net_input"]["src_tokens"]
    together = search([one], rules).generate([one], sample(whole))
    for size in (1, 4):
        apart = []
        for start in range(0, len(lengths), size):
            rows = whole[start : start + size]
            rows = rows[:, rows.eq(PAD).all(dim=0).sum() :]
            apart += search([one], rules).generate([one], sample(rows))
        assert_same(apart, together)


FAIRSEQ = [
    {}, {"len_penalty": 0.5}, {"unk_penalty": 0.7}, {"unk_penalty": -2.0}, {"min_len": 5},
    {"temperature": 0.7}, {"beam_size": 1}, {"beam_size": 6}, {"beam_size": WORDS - 3},
    {"normalize_scores": False}, {"tokens_to_suppress": ("w3",)}, {"max_len_b": 3},
]  # fmt: skip


@pytest.mark.parametrize("threads", [2, 3, 5])
def test_threads_change_nothing(threads):
    """A batch is searched in parts, of which no sentence, prefix or alignment may get lost."""
    models = [model(seed=seed, positions="learned").double() for seed in (2, 3)]
    data = batch([n % 7 for n in range(130)])
    prefix = torch.randint(4, WORDS, (130, 2))
    prefix[::3] = PAD
    rules = FairseqRules(1.0, 0, 20, 4, 4)

    def found(number):
        torch.set_num_threads(number)
        return search(models, rules, alignment="soft").generate(models, data, prefix_tokens=prefix)

    before = torch.get_num_threads()
    try:
        expected, hypotheses = found(1), found(threads)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert_same(hypotheses, expected)
    for one, other in zip(sum(hypotheses, []), sum(expected, []), strict=True):
        torch.testing.assert_close(one["attention"], other["attention"])
        assert one["alignment"] == other["alignment"]


@pytest.mark.parametrize("left", [True, False])
def test_pieces_change_nothing(monkeypatch, left):
    """Sentences encoded a few at once, and their scores computed a few at once."""
    models = [model(seed=seed, positions="learned").double() for seed in (2, 3)]
    data = batch([n % 7 for n in range(20)], left)
    prefix = torch.randint(4, WORDS, (20, 2))
    prefix[::3] = PAD
    rules = PaperRules(0.6, 1, 20, 4)
    options = {"temperature": 2.0, "min_len": 3, "no_repeat_ngram_size": 2}
    expected = search(models, rules, **options).generate(models, data, prefix_tokens=prefix)
    monkeypatch.setitem(aiayn_plugin.model.embedding.SCORES_AT_ONCE, "cpu", 3 * 4 * WORDS)
    monkeypatch.setattr(aiayn_plugin.search.models, "ENCODED_AT_ONCE", 3)
    found = search(models, rules, **options).generate(models, data, prefix_tokens=prefix)
    assert_same(found, expected)


def test_an_error_in_a_thread_is_the_commands():
    made, before = model(), torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        generator = search([made], PaperRules(0.6, 1, 20, 4), min_len=60)
        with pytest.raises(InputError, match="--min-len 60 is more than the limit"):
            generator.generate([made], batch([5] * 70))
    finally:
        torch.set_num_threads(before)


def both(models, data, kept=None, **options):
    """Our generator under fairseq's rules, and fairseq's."""
    options = {"beam_size": 4, "max_len_a": 1, "max_len_b": 5, **options}
    theirs = SequenceGenerator(models, dictionary(WORDS), **options)
    exponent = options.get("len_penalty", 1.0) if options.get("normalize_scores", True) else 0.0
    rules = FairseqRules(exponent, options["max_len_a"], options["max_len_b"],
                         kept or options["beam_size"], first=options["beam_size"])
    ours = search(models, rules, alignment="soft", **options)
    return ours, theirs


@pytest.mark.parametrize("options", FAIRSEQ)
def test_fairseqs_search_is_fairseqs(options):
    models, data = [model()], batch()
    ours, theirs = both(models, data, **options)
    assert_same(ours.generate(models, data), theirs.generate(models, data))


@pytest.mark.parametrize("kept", [1, 2])
@pytest.mark.parametrize("lenpen", [0.0, 0.6, 1.0])
def test_a_stop_before_fairseqs_changes_nothing(kept, lenpen):
    steps, saved = [], 0
    for seed in range(1, 6):
        models, data = [model(seed)], batch()
        models[0].decoder.embedding.register_forward_hook(
            lambda module, tokens, out: steps.append(out.numel())
        )
        ours, theirs = both(models, data, kept=kept, len_penalty=lenpen, max_len_b=20)
        counts = []
        for generator in (ours, theirs):
            steps.clear()
            found = generator.generate(models, data)
            counts.append((sum(steps), [hypotheses[:kept] for hypotheses in found]))
        assert_same(counts[0][1], counts[1][1])
        saved += counts[1][0] - counts[0][0]
    assert saved > 0


@pytest.mark.parametrize("options", VARIANTS)
def test_fairseqs_search_is_fairseqs_for_every_model(options):
    models, data = [model(**options)], batch()
    ours, theirs = both(models, data)
    assert_same(ours.generate(models, data), theirs.generate(models, data))


def test_ensembles_prefixes_and_attention_are_fairseqs():
    models, data = [model(seed) for seed in (1, 2, 3)], batch()
    ours, theirs = both(models, data)
    # fairseq forgets --min-len for a sentence without a prefix beside one with: none is here
    prefix = torch.tensor([[5, 6], [7, PAD], [8, 9], [6, PAD], [4, 4]])
    for prefix_tokens in (None, prefix[:, :1], prefix):
        found = ours.generate(models, data, prefix_tokens=prefix_tokens)
        expected = theirs.generate(models, data, prefix_tokens=prefix_tokens)
        assert_same(found, expected)
        for one, other in zip(sum(found, []), sum(expected, []), strict=True):
            torch.testing.assert_close(one["attention"], other["attention"].to(one["attention"]),
                                       rtol=0, atol=1e-6)
            assert one["alignment"]


def another(seed=5, **options):
    """A model of fairseq's own, whose sentences end now and then."""
    made, _ = fairseq_model(WORDS, **options)
    torch.manual_seed(seed)
    for weight in made.parameters():
        if weight.dim() > 1:
            weight.data += 0.3 * torch.randn_like(weight)
    return made.double().eval()


@pytest.mark.parametrize("make", [
    lambda: [another()],
    lambda: [another(), model(), another(6, share_all_embeddings=False)],
    lambda: [another(share_all_embeddings=False, adaptive_softmax_cutoff="6")],
], ids=["alone", "with ours", "adaptive softmax"])  # fmt: skip
def test_other_models_are_searched_too(make):
    models, data = make(), batch()
    for options in ({}, {"temperature": 0.7}):
        ours, theirs = both(models, data, **options)
        assert_same(ours.generate(models, data), theirs.generate(models, data))


def test_a_language_model_is_fused_as_fairseqs():
    args = SimpleNamespace(
        decoder_layers=1, decoder_embed_dim=16, decoder_ffn_embed_dim=16, decoder_attention_heads=2,
        max_target_positions=64, tokens_per_sample=64, share_decoder_input_output_embed=True,
    )  # fmt: skip
    base_lm_architecture(args)
    words = dictionary(WORDS)
    task = SimpleNamespace(source_dictionary=words, target_dictionary=words)
    lm = TransformerLanguageModel.build_model(args, task).double().eval()
    models, data = [model()], batch()
    for weight in (0.5, 2.0):
        ours, theirs = both(models, data, lm_model=lm, lm_weight=weight)
        assert_same(ours.generate(models, data), theirs.generate(models, data))


def test_a_prefix_does_not_depend_on_its_batch():
    one, data = model(), batch((4, 6))
    generator = search([one], PaperRules(0.6, 1, 7, 2), min_len=4)
    prefix = torch.tensor([[5, PAD, PAD, PAD], [6, 7, 8, 9]])
    together = generator.generate([one], data, prefix_tokens=prefix)
    for number, width in enumerate((1, 4)):
        source = data["net_input"]["src_tokens"][number]
        alone = generator.generate([one], sample(source[source.ne(PAD)][None]),
                                   prefix_tokens=prefix[number : number + 1, :width])
        assert_same(alone, together[number : number + 1])


def test_a_prefix_that_ends_is_the_only_hypothesis():
    models, data = [model()], batch()  # fairseq's own asserts here
    prefix = torch.tensor([[EOS, PAD], [5, EOS], [PAD, PAD], [4, 4], [4, PAD]])
    found = search(models, PaperRules(0.6, 1, 5, 4)).generate(models, data, prefix_tokens=prefix)
    assert [h["tokens"].tolist() for h in found[0] + found[1]] == [[EOS], [5, EOS]]
    assert all(h["tokens"][:2].tolist() == [4, 4] for h in found[3])


def test_no_ngram_comes_twice():
    # fairseq's own, on the CPU, looks for n-grams in the padding after a hypothesis, and finds none
    models, data = [model()], batch()
    ours, _ = both(models, data, no_repeat_ngram_size=2)
    for hypothesis in sum(ours.generate(models, data), []):
        tokens = [EOS, *hypothesis["tokens"].tolist()]
        pairs = list(zip(tokens, tokens[1:], strict=False))
        assert len(set(pairs)) == len(pairs)


def test_nothing_finite_is_an_error():
    one = model()
    one.decoder.embedding.weight.data.fill_(math.nan)
    with pytest.raises(ValueError, match="sentence 0"):
        search([one], PaperRules(0.6, 1, 5, 1)).generate([one], batch())


def test_a_limit_below_the_least_length_is_an_error():
    one = model()
    with pytest.raises(ValueError, match="--min-len 9"):
        search([one], PaperRules(0.6, 1, 5, 1), min_len=9).generate([one], batch())
