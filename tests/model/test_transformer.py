"""§3.1: the two stacks: what a position may see, what padding may change, what is kept."""

import pytest
import torch
from models import PAD, build, pad_left, pad_right, sentences

from aiayn_plugin.benchmarks.measure import peak_memory

VARIANTS = [{}, {"positions": "learned"}, {"neighbourhood": 3}, {"d_k": 3, "d_v": 5}]


def watch_target_embeddings(model):
    """Return a list that gets the embedded tokens of each call, as leaves to differentiate by.

    One matrix embeds both sides: a pass of the whole model adds the source, then the target.
    """
    inputs = []

    def hook(module, args, out):
        inputs.append(out.detach().requires_grad_())
        return inputs[-1]

    model.decoder.embedding.register_forward_hook(hook)
    return inputs


@pytest.mark.parametrize("settings", VARIANTS)
@pytest.mark.parametrize("padded", [None, "left", "right"])
def test_no_information_from_the_right(settings, padded):
    model = build(left_pad_target=padded == "left", dropout=0.0, **settings)
    source, target = sentences(6, 12)
    if padded:
        target = (pad_left if padded == "left" else pad_right)(target, 2)
    inputs = watch_target_embeddings(model)
    scores, _ = model(source, None, target)
    for i in range(2 if padded == "left" else 0, 12):
        (slope,) = torch.autograd.grad(scores[:, i].pow(2).sum(), inputs[1], retain_graph=True)
        assert slope[:, i + 1 :].eq(0).all(), f"position {i} sees a later one"
        assert slope[:, i].ne(0).any()


@pytest.mark.parametrize("settings", VARIANTS)
def test_a_position_depends_on_the_same_inputs_in_decoding(settings):
    """One position at a time has the gradient of the whole pass by every input."""
    model = build(dropout=0.0, **settings)
    source, target = sentences(6, 12)
    inputs = watch_target_embeddings(model)
    whole, _ = model(source, None, target)
    whole_input = inputs[1]
    memory, state, scores = model.encoder(source), {}, []
    inputs.clear()
    for i in range(1, 13):
        scores.append(model.decoder(target[:, :i], memory, incremental_state=state)[0])
    for i in range(12):
        (expected,) = torch.autograd.grad(whole[:, i].pow(2).sum(), whole_input, retain_graph=True)
        found = torch.autograd.grad(
            scores[i].pow(2).sum(), inputs[: i + 1], retain_graph=True, allow_unused=True
        )
        for j, slope in enumerate(found):
            slope = torch.zeros(2, 1, 16).double() if slope is None else slope
            torch.testing.assert_close(slope[:, 0], expected[:, j], rtol=0, atol=1e-10)
        assert expected[:, i + 1 :].eq(0).all()


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("pad, left", [(pad_left, True), (pad_right, False)])
@pytest.mark.parametrize("settings", VARIANTS)
def test_padding_changes_nothing(pad, left, training, settings):
    model = build(left_pad_target=left, dropout=0.0, **settings).train(training)
    source, target = sentences(40, 40)
    expected, _ = model(source, None, target)
    found, _ = model(pad(source, 3), None, pad(target, 2))
    found = found[:, 2:] if left else found[:, :-2]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    assert found.isfinite().all()


@pytest.mark.parametrize("settings", VARIANTS)
def test_one_position_at_a_time_equals_all_at_once(settings):
    model = build(**settings).eval()
    source, target = sentences(6, 12)
    source = torch.cat((source, source.flip(1)[:, :3].fill_(PAD)), dim=1)
    expected, extra = model(source, None, target)
    memory, state, steps, attention = model.encoder(source), {}, [], []
    for i in range(1, target.size(1) + 1):
        scores, step_extra = model.decoder(target[:, :i], memory, incremental_state=state)
        steps.append(scores)
        attention.append(step_extra["attn"][0])
    torch.testing.assert_close(torch.cat(steps, dim=1), expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(torch.cat(attention, dim=1), extra["attn"][0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("settings", [*VARIANTS, {"attention_dropout": 0.5}])
def test_attention_computed_again_changes_only_the_memory(settings):
    source, target = sentences(40, 40, batch=8)
    slopes, memory = [], []
    for again in (False, True):
        model = build(checkpoint_activations=again, **settings)

        def once(model=model):
            torch.manual_seed(5)  # of the dropout
            model(pad_left(source, 3), None, target)[0].pow(2).sum().backward()

        memory.append(peak_memory(once, source.device))
        slopes.append([parameter.grad for parameter in model.parameters()])
    for kept, again in zip(*slopes, strict=True):
        assert torch.equal(kept, again)
    assert memory[1] < 0.9 * memory[0]


def test_one_matrix_embeds_both_sides_and_projects():
    model = build()
    assert model.encoder.embedding.weight is model.decoder.embedding.weight is model.projection
    features = torch.randn(2, 3, 16).double()
    torch.testing.assert_close(model.output_layer(features), features @ model.projection.T)


def test_embeddings_can_be_untied():
    model = build(tie_embeddings="target")
    assert model.encoder.embedding.weight is not model.decoder.embedding.weight is model.projection
    model = build(tie_embeddings="none")
    matrices = (model.encoder.embedding.weight, model.decoder.embedding.weight, model.projection)
    assert len({id(matrix) for matrix in matrices}) == 3
