"""fairseq's post-norm Transformers as models of the plugin."""

from argparse import Namespace
from dataclasses import asdict, replace

import pytest
import torch
from commands import stock_model
from models import PAD, build, fairseq_model, pad_left, pad_right, parse, sentences

from aiayn_plugin.checkpoints.compatibility import Identity
from aiayn_plugin.errors import InputError
from aiayn_plugin.fairseq_plugin.convert import (
    convert,
    settings_from_fairseq,
    weights_from_fairseq,
)
from aiayn_plugin.paper import ModelSettings

SMALL = ModelSettings(N=2, d_model=8, d_ff=8, h=2, positions="fairseq", tie_embeddings="none")
POSITIONS = {"max_source_positions": 9, "max_target_positions": 9}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"share_all_embeddings": False},
        {"share_all_embeddings": False, "share_decoder_input_output_embed": True},
        {"encoder_learned_pos": True, "decoder_learned_pos": True},
    ],
)
@pytest.mark.parametrize("training", [True, False])
def test_the_converted_model_computes_what_fairseqs_does(options, training):
    theirs, args = fairseq_model(**options)
    positions = {
        name: getattr(args, name) for name in ("max_source_positions", "max_target_positions")
    }
    ours = build(**asdict(settings_from_fairseq(args)), **positions).float()
    ours.load_state_dict(weights_from_fairseq(theirs.state_dict()), strict=False)
    ours.train(training), theirs.train(training)
    source, target = sentences(9, 7)
    source[1] = pad_left(source[1:, -6:], 3)
    target[1] = pad_right(target[1:, :5], 2)
    real = target.ne(PAD)
    lengths = source.ne(PAD).sum(1)
    found = ours.get_normalized_probs(ours(source, lengths, target), log_probs=True)
    expected = theirs.get_normalized_probs(theirs(source, lengths, target), log_probs=True)
    torch.testing.assert_close(found[real], expected[real], rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--encoder-normalize-before"], "encoder_normalize_before"),
        (["--decoder-layers", "1"], "decoder_layers is 1, but must be 2"),
        (["--activation-fn", "gelu"], "activation_fn"),
        (["--quant-noise-pq", "0.1"], "quant_noise_pq"),
        (["--no-scale-embedding"], "no_scale_embedding"),
        (["--no-token-positional-embeddings"], "no_token_positional_embeddings"),
    ],
)
def test_options_that_the_papers_model_lacks_are_refused(flags, message):
    with pytest.raises(InputError, match=message):
        settings_from_fairseq(parse(*stock_model(32, 64, 4), *flags))


def test_fairseqs_own_task_needs_no_tokenizer_of_the_plugins():
    model = {"_name": "aiayn_transformer", **asdict(SMALL), **POSITIONS}
    for given, expected in (("aiayn", "space"), ("moses", "moses")):
        state = {
            "cfg": {"model": Namespace(**model), "task": {"eval_bleu_detok": given}},
            "model": build(**asdict(SMALL), **POSITIONS).state_dict(),
        }
        assert convert(state)[0]["cfg"]["task"]["eval_bleu_detok"] == expected


@pytest.mark.parametrize(
    "change, settings, message",
    [
        (lambda weights: None, {}, None),
        (lambda weights: None, {"positions": "sinusoids"}, "--positions fairseq or learned"),
        (lambda weights: None, {"N": 1}, "has no weight decoder.layers.1"),
        (lambda weights: weights.update(extra=torch.ones(1)), {}, "has no weight extra"),
        (
            lambda weights: weights.update({"decoder.layers.0.self_attention.W_Q.bias": 0}),
            {},
            "has no weight decoder.layers.0.self_attention.W_Q.bias",
        ),
        (lambda weights: weights.pop("decoder.W_vocabulary.weight"), {}, "weights do not fit"),
        (lambda weights: None, {"d_model": "8"}, "settings or weights do not fit"),
    ],
)
def test_conversion_to_fairseq_neither_loses_nor_adds_weights(change, settings, message):
    weights = build(**asdict(SMALL), **POSITIONS).state_dict()
    change(weights)
    model = {"_name": "aiayn_transformer", **asdict(SMALL), **POSITIONS, **settings}
    state = {"cfg": {"model": Namespace(**model), "task": {}}, "model": weights}
    if message is None:
        assert convert(state)[1] == "fairseq's transformer"
    else:
        with pytest.raises(InputError, match=message):
            convert(state)


@pytest.mark.parametrize("changes", [{}, {"positions": "learned", "tie_embeddings": "all"}])
def test_a_model_without_biases_of_attention_survives_both_conversions(changes):
    settings = replace(SMALL, **changes)
    ours = build(**asdict(settings), **POSITIONS).float().eval()
    identity = Identity.of((["a"], ["b"]), settings, ("en", "de")).task_state()
    state = {
        "cfg": {"model": {"_name": "aiayn_transformer", **asdict(settings), **POSITIONS}},
        "model": ours.state_dict(),
        "task_state": identity,
    }
    again, _ = convert(convert(state)[0])
    del again["cfg"]["model"]["_name"]
    back = build(**again["cfg"]["model"]).float().eval()
    back.load_state_dict(again["model"])
    source, target = sentences()
    torch.testing.assert_close(back(source, None, target)[0], ours(source, None, target)[0])
    assert again["task_state"] == identity


def test_a_setting_whose_name_is_a_number_is_an_input_error():
    state = {"cfg": {"model": {"_name": "transformer", 1: 0}, "task": {}}, "model": {}}
    with pytest.raises(InputError, match="do not fit a transformer"):
        convert(state)
