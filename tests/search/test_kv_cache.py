"""§3.1 while decoding: slots, who sees them, and one position at a time against all at once."""

import math

import pytest
import torch
from models import EOS, build

from aiayn_plugin.model.attention import MultiHeadAttention
from aiayn_plugin.search.kv_cache import DecoderCache, MemoryCache, Past, Rows, SelfAttentionCache

DOUBLE = torch.empty(0).double()


@pytest.mark.parametrize("rows", [[0, 3, 2], [2, 0, 1, 1], [0, 1], [3, 2, 1, 0, 0], []])
def test_rows_of_a_tensor_are_those_that_are_asked_for(rows):
    """Whether few of them move, which changes the tensor in place, or many."""
    x = torch.randn(4, 2, 3)
    expected = torch.stack([x[row] for row in rows]) if rows else x[:0]
    with torch.no_grad():
        assert torch.equal(Rows(torch.tensor(rows, dtype=torch.long)).of(x), expected)


def test_rows_that_stay_are_not_copied():
    x = torch.arange(4.0)
    with torch.no_grad():
        found = Rows(torch.tensor([0, 3, 2])).of(x)
    assert found.data_ptr() == x.data_ptr() and found.tolist() == [0, 3, 2]


@torch.no_grad()
def test_a_hypothesis_sees_its_own_past():
    """The example at the head of cache.py: both hypotheses of step 2 continue the first one."""
    past, tokens = Past(None), torch.zeros(1, 2)
    yes, no = 0.0, -math.inf
    past.advance(tokens, None)
    assert past.mask(tokens)[..., :2].tolist() == [[[[yes, no], [no, yes]]]]
    past.advance(tokens, torch.tensor([[0, 0]]))
    mask = past.mask(tokens)
    assert mask[..., :4].tolist() == [[[[yes, no, yes, no], [yes, no, no, yes]]]]
    assert mask[..., 4:].isinf().all() and past.steps == 2


@torch.no_grad()
def test_a_hypothesis_without_a_parent_continues_itself():
    past, tokens = Past(None), torch.zeros(1, 2)
    for _ in range(2):
        past.advance(tokens, None)
    assert past.seen[..., :4].tolist() == [[[True, False, True, False], [False, True, False, True]]]


@torch.no_grad()
def test_a_neighbourhood_sees_the_last_positions():
    """Of r = 2 positions: steps of one, two and two hypotheses, the last two change places."""
    past = Past(2)
    past.advance(torch.zeros(1, 1), None)
    past.advance(torch.zeros(1, 2), torch.tensor([[0, 0]]))
    assert past.seen[..., :3].tolist() == [[[True, True, False], [True, False, True]]]
    past.advance(torch.zeros(1, 2), torch.tensor([[1, 0]]))
    assert past.seen[..., :5].tolist() == [
        [[False, False, True, True, False], [False, True, False, False, True]]
    ]


@torch.no_grad()
def test_slots_that_nobody_sees_are_left_out():
    """Two sentences, all of whose hypotheses continue the first one, or each itself."""
    past, tokens = Past(None), torch.zeros(2, 4)
    own, first = [0, 1, 2, 3], [0, 0, 0, 0]
    old = past.advance(tokens, None)
    assert old.tolist() == [[0] * 16] * 2
    for _ in range(3):
        assert past.advance(tokens, torch.tensor([own, first])) is None
    old = past.advance(tokens, torch.tensor([first, first]))
    # Of 16 slots 0, 4, 8 and 12 are seen. 16 new ones make 20, and the next multiple of 16 is 32.
    assert old[:, :4].tolist() == [[0, 4, 8, 12]] * 2 and old.shape == (2, 32)
    assert past.end == 8 and past.seen.shape == (2, 4, 32)
    assert past.seen[:, 2].nonzero()[:, 1].tolist() == 2 * [0, 1, 2, 3, 6]
    assert not past.seen[:, :, 8:].any()


@torch.no_grad()
def test_the_sentence_with_most_slots_decides_how_many_are_kept():
    """The other one keeps slots that nobody sees, and its mask hides them."""
    past, tokens = Past(None), torch.zeros(2, 4)
    parents = torch.tensor([[0, 1, 2, 3], [0, 0, 0, 0]])
    past.advance(tokens, None)
    for _ in range(4):
        old = past.advance(tokens, parents)
    assert old[0, :16].tolist() == list(range(16))
    assert old[1, :4].tolist() == [0, 4, 8, 12] and sorted(old[1, :16].tolist()) == list(range(16))
    assert past.seen[1, 0].nonzero()[:, 0].tolist() == [0, 1, 2, 3, 16]


@torch.no_grad()
def test_keys_and_values_move_with_their_slots():
    """Any parents, and sentence 1 leaves; beside each hypothesis alone with all of its past."""
    torch.manual_seed(1)
    module = MultiHeadAttention(8, 2, 4, 4, causal=True).double()
    cache = SelfAttentionCache(module, past := Past(None), DOUBLE)
    pasts = torch.empty(3, 1, 0, 8).double()  # (sentences, b, positions, d_model)
    for step in range(40):
        if step == 20:
            rows = torch.tensor([0, 2])
            past.select(rows)
            cache.select(Rows(rows))
            pasts = pasts[rows]
        parents = torch.randint(pasts.size(1), (len(pasts), 4))
        x = torch.randn(len(pasts), 4, 8).double()
        old = past.advance(parents, parents if step else None)
        if old is not None:
            cache.move(old)
        pasts = pasts.gather(1, parents[:, :, None, None].expand(-1, -1, step, 8))
        pasts = torch.cat((pasts, x[:, :, None]), dim=2)
        alone = module(pasts.flatten(0, 1))[0][:, -1]
        torch.testing.assert_close(
            module(x, cache=cache)[0].flatten(0, 1), alone, rtol=0, atol=1e-12
        )
    assert cache.keys.size(2) < 40 * 4 / 2


def test_gradients_reach_slots_of_earlier_steps():
    """As those of all positions at once."""
    torch.manual_seed(1)
    module = MultiHeadAttention(8, 2, 4, 4, causal=True).double()
    x = torch.randn(2, 6, 8).double().requires_grad_()
    (expected,) = torch.autograd.grad(module(x)[0].pow(2).sum(), x)
    cache, total = SelfAttentionCache(module, past := Past(None), DOUBLE), 0
    for i in range(6):
        cache.move(past.advance(torch.zeros(2, 1), None))
        total = total + module(x[:, i : i + 1], cache=cache)[0].pow(2).sum()
    torch.testing.assert_close(torch.autograd.grad(total, x)[0], expected, rtol=0, atol=1e-12)


def rooms_after(steps, **settings):
    """Return the slots that each layer has room for, after steps of two hypotheses."""
    model, tokens = build(**settings).eval(), torch.tensor([[5, 6]])
    with torch.no_grad():
        cache = DecoderCache(model.decoder.layers, *model.encoder.encode(torch.tensor([[7, EOS]])))
        for _ in range(steps):
            cache.advance(tokens)
            model.decoder.decode(tokens, cache=cache)
    return {x.size(2) for own, _ in cache.layers for x in (own.keys, own.values)}


def test_the_memory_of_a_restricted_decoder_does_not_grow_with_the_steps():
    """2 · 3 slots and 16 that are free, up to a multiple of 16."""
    assert max(rooms_after(100, neighbourhood=3) | rooms_after(300, neighbourhood=3)) <= 32
    assert min(rooms_after(300)) >= 600


def test_rooms_are_at_most_an_eighth_too_large():
    assert max(rooms_after(600)) < 1.13 * 1200 + 16


def test_keys_and_values_are_kept_in_the_precision_that_is_asked_for():
    """Of many sentences; few keep that of the model."""
    model, tokens = build().float().eval(), torch.tensor([[5, 6]] * 16)
    source = torch.tensor([[7, 8, EOS]] * 16)
    found = []
    with torch.no_grad():
        few = DecoderCache(model.decoder.layers, torch.zeros(15, 3, 16), None, torch.bfloat16)
        assert few.layers[0][0].keys.dtype == torch.float32
        for dtype in (None, torch.bfloat16):
            cache = DecoderCache(model.decoder.layers, *model.encoder.encode(source), dtype)
            for _ in range(3):
                cache.advance(tokens)
                found.append(model.decoder.decode(tokens, cache=cache)[0].float())
            own, memory = cache.layers[0]
            kept = {x.dtype for x in (own.keys, own.values, memory.keys, memory.values)}
            assert kept == {dtype or torch.float32}
    for whole, half in zip(found[:3], found[3:], strict=True):
        torch.testing.assert_close(half, whole, rtol=0, atol=0.05)


@torch.no_grad()
def test_selected_sentences_keep_their_pasts():
    """Sentence 0 continues its second hypothesis, sentence 1 its first; they change places."""
    past, tokens = Past(None), torch.zeros(2, 2)
    past.advance(tokens, None)
    past.advance(tokens[:, :1], torch.tensor([[1], [0]]))
    before = past.mask(tokens)
    past.select(torch.tensor([1, 0]))
    assert past.seen[..., :3].tolist() == [[[True, False, True]], [[False, True, True]]]
    assert torch.equal(past.mask(tokens), before[[1, 0]])


def test_one_position_at_a_time_equals_all_at_once():
    torch.manual_seed(1)
    module = MultiHeadAttention(d_model=8, h=2, d_k=4, d_v=4, causal=True).double()
    across = MultiHeadAttention(d_model=8, h=2, d_k=4, d_v=4).double()
    x, memory = torch.randn(3, 6, 8).double(), torch.randn(3, 4, 8).double()
    own = SelfAttentionCache(module, past := Past(None), DOUBLE)
    of_memory = MemoryCache(across, memory, None, DOUBLE)
    steps = []
    for i in range(6):
        own.move(past.advance(torch.zeros(3, 1), None))
        one = x[:, i : i + 1]
        steps.append((module(one, cache=own)[0], across(one, cache=of_memory)[0]))
    whole = module(x)[0], across(x, memory)[0]
    for at_once, one_by_one in zip(whole, zip(*steps, strict=True), strict=True):
        torch.testing.assert_close(torch.cat(one_by_one, dim=1), at_once, rtol=0, atol=1e-12)


@pytest.mark.parametrize("r", [1, 3, 100])
def test_a_neighbourhood_one_position_at_a_time_equals_all_at_once_and_keeps_r_positions(r):
    torch.manual_seed(1)
    module = MultiHeadAttention(8, 2, 4, 4, causal=True, neighbourhood=r).double()
    x, steps = torch.randn(3, 40, 8).double(), []
    cache = SelfAttentionCache(module, past := Past(r), DOUBLE)
    with torch.no_grad():
        for i in range(40):
            old = past.advance(torch.zeros(3, 1), None)
            if old is not None:
                cache.move(old)
            steps.append(module(x[:, i : i + 1], cache=cache)[0])
        torch.testing.assert_close(torch.cat(steps, dim=1), module(x)[0], rtol=0, atol=1e-12)
    assert cache.keys.size(2) <= min(r, 40) + 2 * 16
