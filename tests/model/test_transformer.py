"""§3.1: the two stacks: padding, dropout, tied embeddings, recomputation."""

import math

import pytest
import torch
from models import PAD, build, pad_left, pad_right, sentences

from aiayn_plugin.benchmarks.measure import measure_peak_memory
from aiayn_plugin.errors import InputError
from aiayn_plugin.model.attention import MultiHeadAttention
from aiayn_plugin.model.layers import AddNorm
from aiayn_plugin.model.transformer import EmbeddedStack

VARIANTS = [{}, {"positions": "learned"}, {"neighbourhood": 3}, {"d_k": 3, "d_v": 5}]


@pytest.mark.parametrize("settings", [{}, {"positions": "learned"}, {"positions": "fairseq"}])
def test_dropout_acts_on_the_sum_of_embeddings_and_positions(settings):
    """§5.4: an element is dropped as a whole, its position included."""
    model = build(dropout=0.5, **settings)
    tokens, _ = sentences(40)
    for stack in (model.encoder, model.decoder):
        dropped, expected = stack.train().embed(tokens), 2 * stack.eval().embed(tokens)
        kept = dropped.ne(0)
        assert 0.4 < kept.double().mean() < 0.6
        torch.testing.assert_close(dropped[kept], expected[kept], rtol=0, atol=1e-12)


def test_layers_have_the_dropout_and_the_gain_of_the_settings():
    """If dropout removes every sub-layer, only the residual connections and norms are left."""
    model = build(dropout=1.0, attention_dropout=0.25, feed_forward_gain=0.5)
    x = torch.randn(2, 3, 16).double()
    for layer in (*model.encoder.layers, *model.decoder.layers):
        expected = x
        for add_norm in layer.add_norms:
            expected = add_norm.norm(expected)
        actual = layer(x, x)[0] if layer in model.decoder.layers else layer(x)
        torch.testing.assert_close(actual, expected)
        assert layer.feed_forward.W_1.weight.abs().max() <= 0.5 * math.sqrt(6 / (16 + 24))
    attention = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    assert [module.dropout for module in attention] == [0.25] * 6


def test_dropout_acts_nowhere_else():
    """§5.4: by default neither on attention weights nor on the ReLU."""
    model, (source, target) = build(dropout=0.5), sentences()
    expected, _ = model.eval()(source, None, target)
    for module in model.train().modules():
        if isinstance(module, AddNorm | EmbeddedStack):
            module.dropout = 0.0
    torch.testing.assert_close(model(source, None, target)[0], expected)


@pytest.mark.parametrize("training", [False, True])
def test_a_token_is_embedded_alone_as_in_its_sentence(training):
    """Sampling may decode with dropout, token by token."""
    model, (tokens, _) = build(dropout=0.0).train(training), sentences(6)
    alone = model.decoder.embed(tokens[:, 3:4], 3)
    torch.testing.assert_close(alone, model.decoder.embed(tokens)[:, 3:4], rtol=0, atol=0)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("pad", [pad_left, pad_right])
@pytest.mark.parametrize("settings", VARIANTS)
def test_padding_does_not_change_the_output(pad, training, settings):
    """The source may be padded on either side."""
    model = build(dropout=0.0, **settings).train(training)
    source, target = sentences(40, 40)
    expected, _ = model(source, None, target)
    actual, _ = model(pad(source, 3), None, pad_right(target, 2))
    assert actual.isfinite().all()
    torch.testing.assert_close(actual[:, :-2], expected, rtol=0, atol=1e-12)


def test_targets_padded_on_the_left_are_refused():
    with pytest.raises(InputError, match="omit --left-pad-target"):
        build(left_pad_target=True)


def test_a_decoder_without_memory_is_refused():
    """Its encoder-decoder attention would attend to later targets."""
    with pytest.raises(InputError, match="needs the output of Encoder.encode"):
        build().decoder.decode(torch.ones(1, 3, dtype=torch.long))


@pytest.mark.parametrize("settings", VARIANTS)
def test_decoding_step_by_step_equals_the_full_pass(settings):
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
def test_recomputed_attention_changes_only_the_memory(settings):
    source, target = sentences(40, 40, batch=8)
    gradients, memory = [], []
    for recompute in (False, True):
        model = build(checkpoint_activations=recompute, **settings)

        def run(model=model):
            torch.manual_seed(5)  # for dropout
            model(pad_left(source, 3), None, target)[0].pow(2).sum().backward()

        memory.append(measure_peak_memory(run, source.device))
        gradients.append([parameter.grad for parameter in model.parameters()])
    for stored, recomputed in zip(*gradients, strict=True):
        assert torch.equal(stored, recomputed)
    assert memory[1] < 0.9 * memory[0]


def test_one_matrix_embeds_both_sides_and_projects():
    model = build()
    assert model.encoder.embedding.weight is model.decoder.embedding.weight is model.projection
    features = torch.randn(2, 3, 16).double()
    torch.testing.assert_close(model.decoder.project(features), features @ model.projection.T)


def test_embeddings_can_be_untied():
    model = build(tie_embeddings="target")
    assert model.encoder.embedding.weight is not model.decoder.embedding.weight is model.projection
    model = build(tie_embeddings="none")
    matrices = (model.encoder.embedding.weight, model.decoder.embedding.weight, model.projection)
    assert len({id(matrix) for matrix in matrices}) == 3


def test_learned_positions_and_an_untied_projection_start_like_the_embeddings():
    model = build(500, d_model=64, positions="learned", tie_embeddings="none")
    for matrix in (
        model.encoder.positions.weight,
        model.projection,
        model.encoder.embedding.weight,
    ):
        assert matrix.std().item() == pytest.approx(64**-0.5, rel=0.04)


@pytest.mark.parametrize("setting", ["positions", "tie_embeddings"])
def test_an_unknown_variant_is_an_error(setting):
    with pytest.raises(InputError, match=f"{setting} 'sinusoidal' is not one of "):
        build(**{setting: "sinusoidal"})
