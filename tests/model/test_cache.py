"""§3.1 while decoding: slots, who sees them, and one position at a time against all at once."""

import math

import pytest
import torch
from models import EOS, build

from aiayn_plugin.model.attention import MultiHeadAttention
from aiayn_plugin.model.cache import DecoderCache, MemoryCache, Past, SelfAttentionCache, Slots


@pytest.mark.parametrize("gradients", [False, True])
def test_slots_keep_what_was_appended_and_not_forgotten(gradients):
    """After them come free slots, all zero, but with gradients."""
    slots, x = Slots(1), torch.arange(1.0, 201).view(2, 100)
    with torch.set_grad_enabled(gradients):
        for end in range(5, 101, 5):
            found = slots.append(x[:, end - 5 : end])
            assert torch.equal(found[:, :end], x[:, :end]) and not found[:, end:].any()
            assert found.size(1) <= end + (0 if gradients else 15)
        slots.forget(30)
        slots.select(torch.tensor([1, 0, 1]))
        more = torch.tensor([[-1.0, -2.0], [-3.0, -4.0], [-5.0, -6.0]])
        expected = torch.cat((x[[1, 0, 1], 30:], more), dim=1)
        found = slots.append(more)
        assert torch.equal(found[:, :72], expected) and not found[:, 72:].any()


def test_slots_are_rarely_copied():
    """Rooms of 4 steps at first, later an eighth more than is kept."""
    slots, rooms = Slots(0), set()
    with torch.no_grad():
        for i in range(1000):
            slots.append(torch.tensor([i]))
            rooms.add(len(slots.room))
    assert len(rooms) < 45 and max(rooms) < 1.13 * 1000


def test_gradients_reach_slots_of_earlier_steps():
    """The first slot is in three sums of squares, the last one in one: 3 · 2, 2 · 2 and 1 · 2."""
    slots, x = Slots(0), torch.ones(3, requires_grad=True)
    sums = [slots.append(x[i : i + 1]).pow(2).sum() for i in range(3)]
    sum(sums).backward()
    assert x.grad.tolist() == [6.0, 4.0, 2.0]


def test_forgotten_slots_leave_the_memory():
    """Three of a thousand slots are kept, in a room of 7: two before a new one, and 4 steps."""
    slots = Slots(0)
    with torch.no_grad():
        for i in range(1000):
            slots.forget(1 if i > 2 else 0)
            kept = slots.append(torch.tensor([i]))
            assert len(slots.room) <= 7
    assert kept[:3].tolist() == [997, 998, 999] and not kept[3:].any()


def rooms_after(steps, **settings):
    """Return the slots that each layer has room for, after steps of two hypotheses."""
    model, tokens = build(**settings).eval(), torch.tensor([[5, 6]])
    with torch.no_grad():
        cache = DecoderCache(model.decoder.layers, *model.encoder.encode(torch.tensor([[7, EOS]])))
        for _ in range(steps):
            cache.advance(tokens)
            model.decoder.decode(tokens, cache=cache)
    return [slots.room.size(slots.dim) for own, _ in cache.layers
            for slots in (own.keys, own.values)]


def test_the_memory_of_a_restricted_decoder_does_not_grow_with_the_steps():
    assert max(rooms_after(100, neighbourhood=3) + rooms_after(300, neighbourhood=3)) <= 2 * 7
    assert min(rooms_after(300)) >= 600


def test_a_hypothesis_sees_its_own_past():
    """The example at the head of cache.py: both hypotheses of step 2 continue the first one."""
    past, tokens = Past(None), torch.zeros(1, 2)
    yes, no = 0.0, -math.inf
    assert past.advance(tokens, None) == 0
    assert past.mask(tokens, 2).tolist() == [[[[yes, no], [no, yes]]]]
    assert past.advance(tokens, torch.tensor([[0, 0]])) == 0
    assert past.mask(tokens, 5).tolist() == [[[[yes, no, yes, no, no], [yes, no, no, yes, no]]]]
    assert past.steps == 2


def test_a_hypothesis_without_a_parent_continues_itself():
    past, tokens = Past(None), torch.zeros(1, 2)
    for _ in range(2):
        past.advance(tokens, None)
    assert past.seen.tolist() == [[[True, False, True, False], [False, True, False, True]]]


def test_a_neighbourhood_forgets_the_slots_of_its_oldest_step():
    """Of r = 2 positions: steps of one, two and two hypotheses, the last two change places."""
    past = Past(2)
    assert past.advance(torch.zeros(1, 1), None) == 0
    assert past.advance(torch.zeros(1, 2), torch.tensor([[0, 0]])) == 0
    assert past.seen.tolist() == [[[True, True, False], [True, False, True]]]
    assert past.advance(torch.zeros(1, 2), torch.tensor([[1, 0]])) == 1
    assert past.seen.tolist() == [[[False, True, True, False], [True, False, False, True]]]
    assert past.advance(torch.zeros(1, 2), None) == 2


def test_selected_sentences_keep_their_pasts():
    """Sentence 0 continues its second hypothesis, sentence 1 its first; they change places."""
    past, tokens = Past(None), torch.zeros(2, 2)
    past.advance(tokens, None)
    past.advance(tokens[:, :1], torch.tensor([[1], [0]]))
    before = past.mask(tokens, 3)
    past.select(torch.tensor([1, 0]))
    assert past.seen.tolist() == [[[True, False, True]], [[False, True, True]]]
    assert torch.equal(past.mask(tokens, 3), before[[1, 0]])


def test_one_position_at_a_time_equals_all_at_once():
    torch.manual_seed(1)
    module = MultiHeadAttention(d_model=8, h=2, d_k=4, d_v=4, causal=True).double()
    across = MultiHeadAttention(d_model=8, h=2, d_k=4, d_v=4).double()
    x, memory = torch.randn(3, 6, 8).double(), torch.randn(3, 4, 8).double()
    own = SelfAttentionCache(module, past := Past(None))
    of_memory = MemoryCache(across, memory, None)
    steps = []
    for i in range(6):
        past.advance(torch.zeros(3, 1), None)
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
    cache = SelfAttentionCache(module, past := Past(r))
    for i in range(40):
        cache.forget(past.advance(torch.zeros(3, 1), None))
        steps.append(module(x[:, i : i + 1], cache=cache)[0])
    torch.testing.assert_close(torch.cat(steps, dim=1), module(x)[0], rtol=0, atol=1e-12)
    kept = {slots.end - slots.start for slots in (cache.keys, cache.values)}
    assert kept == {min(r, 40)}
